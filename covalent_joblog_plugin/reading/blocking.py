# SPDX-License-Identifier: Apache-2.0
"""Asynchronous reading for those who have no event loop, or one that is theirs alone (a notebook).

One thread of the process runs a loop; who waits here may be interrupted, and what was waited for is then
cancelled.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as TimedOutError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine, Iterator

T = TypeVar("T")

_CLOSING = 5.0
"""Seconds for a source to close its connections."""
_guard = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""Process → its loop: threads do not survive a fork."""


def wait_for(work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
    """The result of ``work``, which runs in the loop's thread; raises what it raises."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result(timeout)
    except BaseException:
        future.cancel()
        raise


def blocking(source: AsyncGenerator[T, None]) -> Iterator[T]:
    """What ``source`` yields; it goes on only while somebody asks for more."""
    try:
        while (found := wait_for(_next(source))) is not None:
            yield found[0]
    finally:
        _close(source)


async def _next(source: AsyncGenerator[T, None]) -> tuple[T] | None:
    try:
        return (await source.__anext__(),)
    except StopAsyncIteration:
        return None


def _close(source: AsyncGenerator[Any, None]) -> None:
    loop = _loop()
    if threading.current_thread().name == _name():
        # The garbage collector may come by anywhere, also in the loop's own thread.
        loop.create_task(_aclose(source))
        return
    with suppress(TimedOutError, CancelledError):
        wait_for(_aclose(source), _CLOSING)


async def _aclose(source: AsyncGenerator[Any, None]) -> None:
    # After an interrupt the step that was cancelled closes it itself.
    with suppress(RuntimeError):
        await source.aclose()


def _name() -> str:
    return f"joblog-reading-{os.getpid()}"


def _loop() -> asyncio.AbstractEventLoop:
    with _guard:
        loop = _loops.get(os.getpid())
        if loop is None:
            _loops.clear()
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name=_name(), daemon=True).start()
        return loop
