# SPDX-License-Identifier: Apache-2.0
"""Tells those who follow a node's output that there is something new, without waiting for any of them.

What is new is not handed over: who is told looks by itself, at its own pace. So the store does the same few
steps whatever its readers do, and a slow reader costs no memory.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    NodeKey = tuple[str, int]

_bells: dict[NodeKey, tuple[Bell, ...]] = {}
"""By node; the tuples are replaced, so that another thread may go through one at any time."""


class Bell:
    """Rings in the event loop it was made in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._rung = False

    def ring(self) -> None:
        """There is something new; any thread may call it, and it does not wait."""
        if not self._rung:
            self._rung = True
            with suppress(RuntimeError):  # the loop has ended, and the reader with it
                self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, timeout: float) -> None:
        """Wait until it has rung since the last wait ended, for at most ``timeout`` seconds."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._event.wait(), timeout)
        self._event.clear()
        self._rung = False


@contextmanager
def bell(node: NodeKey) -> Iterator[Bell]:
    """A bell that rings for a node, opened or not, for as long as the body runs; in an event loop."""
    mine = Bell()
    _bells[node] = (*_bells.get(node, ()), mine)
    try:
        yield mine
    finally:
        _bells[node] = tuple(other for other in _bells[node] if other is not mine)
        if not _bells[node]:
            del _bells[node]


def tell(node: NodeKey) -> None:
    """Something of the node has changed; any thread may call it."""
    for one in _bells.get(node, ()):
        one.ring()
