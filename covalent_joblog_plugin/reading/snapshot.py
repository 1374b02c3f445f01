# SPDX-License-Identifier: Apache-2.0
"""Outputs up to the lengths they had at one moment, in pieces: stored bytes do not change any more."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import OutputGone
from covalent_joblog_plugin.text.lines import TailStart

from .assembling import Assembler
from .client import PIECE_BYTES, node_path

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .answers import Piece
    from .assembling import Item
    from .client import Server
    from .picking import Picker
    from .sources import Source

_LOOK_BACK = 16 * 1024
"""Bytes of the first look at an output's end; each further one is twice as large."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The part of an output that a snapshot has.

    Attributes:
        source: The output.
        start: Cursor of its first byte, the start of a line.
        end: Cursor behind its last byte.
        growing: Whether the output may go on there, even in the middle of a character.
    """

    source: Source
    start: int
    end: int
    growing: bool = False


async def pieces(server: Server, extent: Extent, size: int = PIECE_BYTES) -> AsyncGenerator[Piece, None]:
    """The pieces of an extent; one without data at least, because breaks may be at an end too.

    Raises:
        OutputGone: Somebody shortened the output.
        OutputError: It cannot be read.
        TransportError: The server does not answer.
    """
    source = extent.source

    def ask(cursor: int) -> asyncio.Task[Piece]:
        wanted = max(1, min(size, extent.end - cursor))
        asked = server.piece(source.dispatch_id, source.node_id, source.file, cursor=cursor, size=wanted)
        return asyncio.ensure_future(asked)

    # The server reads the next piece while this one is taken apart.
    asked: asyncio.Task[Piece] | None = ask(extent.start)
    try:
        while asked is not None:
            piece = (await asked).upto(extent.end)
            if not piece.data and piece.cursor < extent.end:
                raise _shortened(extent, piece.total)
            asked = ask(piece.next) if piece.next < extent.end else None
            yield piece
    finally:
        if asked is not None:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)


async def raw(server: Server, extent: Extent) -> AsyncGenerator[bytes, None]:
    """The bytes of an extent, as they are downloaded; raises as ``pieces`` does."""
    source, cursor = extent.source, extent.start
    path = node_path(source.dispatch_id, source.node_id) + "/download"
    if cursor < extent.end:
        async with aclosing(server.body(path, {"file": source.file}, cursor, extent.end)) as parts:
            async for data in parts:
                cursor += len(data)
                yield data
    if cursor < extent.end:
        raise _shortened(extent, cursor)


async def items(
    server: Server, extent: Extent, picker: Picker, size: int = PIECE_BYTES
) -> AsyncGenerator[list[Item], None]:
    """The lines and breaks of an extent that ``picker`` lets pass, a piece's at a time.

    Raises:
        BadSelection: What is asked for cannot be found out here.
        OutputError: The output cannot be read.
        TransportError: The server does not answer.
    """
    source = extent.source
    assembler = Assembler(extent.start, stream=source.stream, rank=source.rank, skimmer=picker.skimmer)
    async with aclosing(pieces(server, extent, size)) as parts:
        async for piece in parts:
            yield picker.feed(assembler.feed(piece))
    last = [assembler.unfinished()] if extent.growing else assembler.end()
    yield picker.feed([item for item in last if item]) + picker.caught_up()


async def merged(
    outputs: list[tuple[Source, AsyncGenerator[list[Item], None]]],
) -> AsyncGenerator[list[tuple[Source, Item]], None]:
    """The items of several outputs, by the time of their arrival; those of one output stay in their order.

    What arrived nobody knows when comes first. Raises as ``items`` does.
    """
    streams = all_of_them = [_Stream(source, found) for source, found in outputs]
    try:
        for stream in streams:
            await stream.refill()
        while streams := [stream for stream in streams if stream.left]:
            first = min(streams, key=lambda stream: stream.time)
            others = [stream.time for stream in streams if stream is not first]
            yield first.take(min(others, default=None))
            await first.refill()
    finally:
        for stream in all_of_them:
            await stream.source_items.aclose()


class _Stream:
    """One output on its way into a merge."""

    def __init__(self, source: Source, source_items: AsyncGenerator[list[Item], None]) -> None:
        self.source = source
        self.source_items = source_items
        self.left: list[Item] = []
        self.time = 0.0

    async def refill(self) -> None:
        """Have something left, if there is anything, and the time of the first of it."""
        while not self.left:
            try:
                self.left = await self.source_items.__anext__()
            except StopAsyncIteration:
                return
        self.time = max(self.time, self.left[0].time or 0.0)

    def take(self, until: float | None) -> list[tuple[Source, Item]]:
        """What comes not after ``until``, the first in any case."""
        taken = 1
        if until is None:
            taken = len(self.left)
        while taken < len(self.left) and (self.left[taken].time or 0.0) <= (until or 0.0):
            taken += 1
        out, self.left = self.left[:taken], self.left[taken:]
        return [(self.source, item) for item in out]


async def tail_start(server: Server, extent: Extent, lines: int) -> int:
    """The cursor at which the last ``lines`` lines of an extent begin; raises as ``pieces`` does.

    It reads no more of the output than that, and a little.
    """
    found = TailStart(lines, extent.end)
    upto, size = extent.end, _LOOK_BACK
    while upto > extent.start:
        cursor = max(extent.start, upto - size)
        block = await _block(server, extent.source, cursor, upto)
        if (start := found.feed(block)) is not None:
            return max(start, extent.start)
        upto, size = cursor, min(size * 2, PIECE_BYTES)
    return extent.start


async def line_start(server: Server, source: Source, cursor: int) -> int:
    """The cursor at which the line begins that the byte at ``cursor`` is in; raises as ``pieces`` does."""
    upto, size = cursor, _LOOK_BACK
    while upto > 0:
        start = max(0, upto - size)
        block = await _block(server, source, start, upto)
        if (newline := block.rfind(b"\n")) >= 0:
            return start + newline + 1
        upto, size = start, min(size * 2, PIECE_BYTES)
    return 0


def _shortened(extent: Extent, size: int) -> OutputGone:
    source = extent.source
    return OutputGone(
        f"{source.file} of node {source.node_id} of {source.dispatch_id} was shortened by somebody: "
        f"it had {extent.end} bytes and has {size}"
    )


async def _block(server: Server, source: Source, start: int, end: int) -> bytes:
    # The index may have more to say of a piece than the server puts into one answer.
    return b"".join([piece.data async for piece in pieces(server, Extent(source, start, end))])
