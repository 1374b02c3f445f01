# SPDX-License-Identifier: Apache-2.0
"""Threads of our own: those of the event loop may all be held by synchronous executors, for hours."""

from __future__ import annotations

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


@functools.cache
def pool() -> ThreadPoolExecutor:
    """Made when it is first needed: nothing starts at import."""
    return ThreadPoolExecutor(4, thread_name_prefix="joblog-payload")


async def in_thread(work: Callable[..., T], *args: object) -> T:
    """Run ``work(*args)`` there."""
    return await asyncio.get_running_loop().run_in_executor(pool(), work, *args)


async def in_own_thread(work: Callable[..., T], *args: object) -> T:
    """Run ``work(*args)``, which may wait for long, in a thread of its own; nobody else's work waits for it.

    Given up, it goes on to its end, also when the interpreter exits.
    """
    own = ThreadPoolExecutor(1, thread_name_prefix="joblog-wait")
    try:
        return await asyncio.get_running_loop().run_in_executor(own, work, *args)
    finally:
        own.shutdown(wait=False)
