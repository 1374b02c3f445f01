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
