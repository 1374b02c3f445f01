# SPDX-License-Identifier: Apache-2.0
"""Where blocking work is done: pools of our own, made at first use and never at import."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


@cache
def _writer() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "joblog-writer")


@cache
def _database() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(4, "joblog-database")


@cache
def _reader() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(4, "joblog-reader")


async def in_reader(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """``work(*args, **kwargs)`` in a thread of those who read back; the writer waits for none."""
    return await asyncio.get_running_loop().run_in_executor(_reader(), partial(work, *args, **kwargs))


async def in_writer(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """``work(*args, **kwargs)`` in the one thread that writes files."""
    return await asyncio.get_running_loop().run_in_executor(_writer(), partial(work, *args, **kwargs))


async def in_database(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """``work(*args, **kwargs)`` in a thread that may wait for the database."""
    return await asyncio.get_running_loop().run_in_executor(_database(), partial(work, *args, **kwargs))
