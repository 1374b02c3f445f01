# SPDX-License-Identifier: Apache-2.0
"""An output in pieces: bytes from a cursor on, with what the index says of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import OutputUnsupported

if TYPE_CHECKING:
    from .index_view import Entry
    from .views import Snapshot

MOST_ENTRIES = 4000
"""A piece of which the index has more to say than so many lines ends earlier."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes that follow each other.

    Attributes:
        cursor: Of the first of them.
        data: They themselves.
        total: The output's length when they were read: the cursor of the next byte that comes.
        entries: Lines of the index about them, as ``index.py`` describes them: the arrival of the first byte
            and whatever is at a cursor from there up to the piece's end, both included. The same line may be
            in two pieces.
    """

    cursor: int
    data: bytes
    total: int
    entries: list[Entry] = field(default_factory=list)

    @property
    def next(self) -> int:
        """The cursor behind the last of them."""
        return self.cursor + len(self.data)


@dataclass(slots=True)
class Place:
    """How far a reader is in one output.

    Attributes:
        file: The output.
        cursor: Of the next byte.
        offset: Behind the last line of the index that was taken; None before the first.
    """

    file: str
    cursor: int
    offset: int | None = None

    def take(self, snapshot: Snapshot, size: int) -> Piece:
        """The next piece, of at most ``size`` bytes, and go on behind it; blocks on the disk.

        It may be empty. Beyond the output's end it is, and its total tells.

        Raises:
            OutputGone: Somebody removed or shortened a file.
            OSError: A file cannot be read.
        """
        view, index = snapshot.view, snapshot.index
        end = max(self.cursor, min(self.cursor + size, view.total))
        entries: list[Entry] = []
        if index is not None:
            if self.offset is None:
                self.offset = index.start(self.file, self.cursor)
            entries, self.offset, end = index.until(self.file, self.offset, self.cursor, end, MOST_ENTRIES)
        piece = Piece(self.cursor, view.read(self.cursor, end - self.cursor), view.total, entries)
        self.cursor = piece.next
        return piece


def cursor_from_end(snapshot: Snapshot, cursor: int) -> int:
    """``cursor``, where a negative one counts back from the output's end."""
    return cursor if cursor >= 0 else max(0, snapshot.view.total + cursor)


def cursor_since(snapshot: Snapshot, file: str, time: float) -> int:
    """The cursor of the first byte that arrived at ``time`` (Unix seconds) or later, or a little before it.

    The output's end, if there is none.

    Raises:
        OutputUnsupported: It is not known when its bytes arrived.
        OSError: The index cannot be read.
    """
    if not snapshot.view.total:
        return 0
    if snapshot.index is None:
        raise OutputUnsupported(
            f"since: it is not known when the bytes of {file!r} arrived, because the node's executor hands "
            "its output over at the end; ask without since"
        )
    cursor = snapshot.index.cursor_at(file, time)
    return snapshot.view.total if cursor is None else min(cursor, snapshot.view.total)
