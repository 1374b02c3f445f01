# SPDX-License-Identifier: Apache-2.0
"""To notice that nothing comes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

T = TypeVar("T")


async def with_pauses(
    source: AsyncGenerator[T, None], seconds: float, *, again: bool = False
) -> AsyncGenerator[T | None, None]:
    """What ``source`` yields, and one None whenever it yields nothing for so many seconds.

    With ``again`` one more follows after every further so many seconds.
    """
    coming: asyncio.Task[tuple[T] | None] | None = None
    try:
        while True:
            coming = asyncio.create_task(_next(source))
            done, _ = await asyncio.wait({coming}, timeout=seconds)
            while not done:
                yield None
                if not again:
                    break
                done, _ = await asyncio.wait({coming}, timeout=seconds)
            found = await coming
            if found is None:
                return
            yield found[0]
    finally:
        if coming is not None:
            coming.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await coming
        await source.aclose()


async def _next(source: AsyncGenerator[T, None]) -> tuple[T] | None:
    try:
        return (await source.__anext__(),)
    except StopAsyncIteration:
        return None
