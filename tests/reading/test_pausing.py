# SPDX-License-Identifier: Apache-2.0
"""To notice that nothing comes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from covalent_joblog_plugin.reading.pausing import with_pauses

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


async def slow(gate: asyncio.Event) -> AsyncGenerator[int, None]:
    yield 1
    await gate.wait()
    yield 2


@pytest.mark.parametrize(("again", "pauses"), [(False, 1), (True, 3)])
async def test_a_pause_is_told_of_once_or_as_often_as_is_asked(again: bool, pauses: int) -> None:
    gate, seen = asyncio.Event(), list[int | None]()
    async with aclosing(with_pauses(slow(gate), 0.01, again=again)) as found:
        async for item in found:
            seen.append(item)
            if seen.count(None) == pauses:
                gate.set()
    assert seen == [1, *[None] * pauses, 2]
