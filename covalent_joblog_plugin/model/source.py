# SPDX-License-Identifier: Apache-2.0
"""The one protocol beneath pull, push and notify-then-pull: a batched long poll by position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .records import Delta, ReadRequest

FAIR_BYTES = 64 * 1024
"""What one file gets in an answer while others wait."""


class DeltaSource(Protocol):
    """Reads what has grown at one endpoint, for all its nodes."""

    async def read_deltas(
        self, requests: Sequence[ReadRequest], wait: float, max_bytes: int
    ) -> Sequence[Delta]:
        """Answer when any of the files has something new, or after ``wait`` seconds.

        With ``wait=0`` it is a poll. Positions are the caller's: the same request twice gives the same
        bytes twice, so a lost connection costs nothing, and the call may be cancelled at any time; the
        next one starts afresh. Files without news may be left out of the answer. But a poll always
        answers for a readable or missing file whose request says ``now``, if there is room, so that the
        caller can tell "read, nothing new" from "not read". Not there yet is a Delta with no data,
        ``size`` None and no ``problem``. ``FAIR_BYTES`` a file while others have news too; a lone file
        may use the whole answer.

        Args:
            requests: Files and positions (bytes); each path at most once.
            wait: Longest wait in seconds.
            max_bytes: Most data in the answer, in bytes.

        Raises:
            TransportError: The way to the endpoint failed. Anything per file is in ``Delta.problem``.
        """

    async def close(self) -> None:
        """Give back connections and helpers; never raises for a broken connection."""
