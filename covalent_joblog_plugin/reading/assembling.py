# SPDX-License-Identifier: Apache-2.0
"""Pieces of one output → its lines and breaks, the same ones wherever the pieces end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.log_line import LogLine
from covalent_joblog_plugin.model.records import Seam, SeamKind
from covalent_joblog_plugin.text.skimming import lines_of

if TYPE_CHECKING:
    from covalent_joblog_plugin.model.records import Stream
    from covalent_joblog_plugin.text.skimming import Skims

    from .answers import Entry, Piece

_WHOLE = frozenset({SeamKind.PAUSED, SeamKind.RESUMED})
"""Breaks in time alone: the line around them is still one line."""


@dataclass(frozen=True, slots=True)
class Break:
    """A seam as a reader meets it between two lines.

    Attributes:
        cursor: Byte offset in the stored output before which it is.
        seam: What happened.
        time: When the bytes before it arrived, Unix seconds; None where nobody recorded that.
    """

    cursor: int
    seam: Seam
    time: float | None = None

    @property
    def text(self) -> str:
        """It in words, for people, marked as no text of the job."""
        return f"[joblog: {self.seam.message}]"


Item = LogLine | Break


class Assembler:
    """Takes the pieces of one output in their order.

    Args:
        cursor: Of the first byte that will come, the start of a line.
        stream: As in ``LogLine``, like ``rank``.
        rank: Who wrote it.
        skimmer: What leaves out lines that nobody wants; None to leave out none.
    """

    def __init__(
        self,
        cursor: int = 0,
        *,
        stream: Stream | None = None,
        rank: int | None = None,
        skimmer: Skims | None = None,
    ) -> None:
        self._lines = lines_of(skimmer, cursor, stream=stream, rank=rank)
        self._cursor = cursor
        self._time: float | None = None
        self._execution: int | None = None
        self._known = 0
        self._told: set[Seam] = set()
        self._told_at = -1

    @property
    def cursor(self) -> int:
        """Of the next byte."""
        return self._cursor

    def feed(self, piece: Piece) -> list[Item]:
        """The lines that end in it, and the breaks."""
        items: list[Item] = []
        for entry in piece.entries:
            at = max(entry.cursor, self._cursor)
            items += self._take(piece, at)
            items += self._enter(entry)
        items += self._take(piece, piece.next)
        return items

    def unfinished(self) -> LogLine | None:
        """The line that has begun and has no newline yet, as it would be shown now; None without one."""
        return self._lines.unfinished()

    def end(self) -> list[Item]:
        """The last line if no newline ended it, now that nothing follows."""
        return list(self._lines.end())

    def _take(self, piece: Piece, end: int) -> list[Item]:
        if end <= self._cursor:
            return []
        data = piece.data[self._cursor - piece.cursor : end - piece.cursor]
        self._cursor = end
        return list(self._lines.feed(data, time=self._time, execution=self._execution))

    def _enter(self, entry: Entry) -> list[Item]:
        items: list[Item] = []
        if entry.cursor < self._known:
            return items
        self._known = entry.cursor
        # Of what was told before the first byte only the time and the execution count.
        seam = entry.seam if entry.cursor == self._cursor else None
        if seam is None:
            if self._execution not in {None, entry.execution}:
                items += self._lines.end()
        elif not self._is_told(seam):
            if seam.kind not in _WHOLE:
                items += self._lines.end()
            items.append(Break(entry.cursor, seam, self._time))
        self._execution = entry.execution
        if entry.arrival is not None:
            self._time = entry.arrival
        return items

    def _is_told(self, seam: Seam) -> bool:
        """Whether it was told before; another connection tells again what is at the cursor it begins with."""
        if self._cursor != self._told_at:
            self._told_at, self._told = self._cursor, set()
        told = seam in self._told
        self._told.add(seam)
        return told
