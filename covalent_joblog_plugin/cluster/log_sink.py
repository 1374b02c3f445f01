# SPDX-License-Identifier: Apache-2.0
"""Where the text of a container goes."""

from __future__ import annotations

from typing import Protocol


class LogSink(Protocol):
    """Who wants the text."""

    def text(self, data: bytes) -> None:
        """More of the container's text, without stamps, in order, each byte once."""

    def gap(self, why: str) -> None:
        """Text may be missing right here; where the exact place is known to be earlier, ``why`` tells."""

    def trouble(self, why: str) -> None:
        """Why it cannot be read at the moment; empty when it can again."""

    async def room(self) -> None:
        """Wait until there is room for more."""
