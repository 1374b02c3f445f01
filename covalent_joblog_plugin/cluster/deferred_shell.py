# SPDX-License-Identifier: Apache-2.0
"""A Shell that is made when it is first used, in a thread: loading its library takes half a second."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .shell import Channel, Completed, Shell

# The loop's own pool may be held by tasks of other executors.
_LOADING = ThreadPoolExecutor(1, "joblog-load")


class DeferredShell:
    """See ``Shell``.

    Args:
        make: Imports what it needs and makes the shell; called once, in a thread.
    """

    def __init__(self, make: Callable[[], Shell]) -> None:
        self._make = make
        self._made: Shell | None = None
        self._making = asyncio.Lock()

    async def run(self, command: str, stdin: bytes = b"", timeout: float = 60) -> Completed:
        """See ``Shell``."""
        return await (await self._shell()).run(command, stdin, timeout)

    async def channel(self, command: str) -> Channel:
        """See ``Shell``."""
        return await (await self._shell()).channel(command)

    async def close(self) -> None:
        """See ``Shell``."""
        if self._made is not None:
            await self._made.close()

    async def _shell(self) -> Shell:
        async with self._making:
            if self._made is None:
                self._made = await asyncio.get_running_loop().run_in_executor(_LOADING, self._make)
            return self._made
