# SPDX-License-Identifier: Apache-2.0
"""Looks for lines in an output, a bounded part of it at a time: who wants more goes on from where it stopped.

What is searched is what people read of a line (``text``). Of a selection, ``severity``, ``query`` and
``exclude`` say what is looked for.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalent_joblog_plugin.store.pieces import Place
from covalent_joblog_plugin.store.reading import OutputName
from covalent_joblog_plugin.text.records import Records
from covalent_joblog_plugin.text.skimming import Skimmer, lines_of
from covalent_joblog_plugin.text.terminal import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalent_joblog_plugin.model.log_line import LogLine
    from covalent_joblog_plugin.store.pieces import Piece
    from covalent_joblog_plugin.store.views import Snapshot, View
    from covalent_joblog_plugin.text.selection import Selection

BLOCK_BYTES = 256 * 1024
CONTEXT_BYTES = 64 * 1024
"""So much before the place asked for is read as well: a traceback may have begun there."""
PATIENCE = 0.5
"""Seconds of CPU time after which a search stops, at the end of a block."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    Attributes:
        lines: In the order of the output.
        next: The cursor to go on from: forwards the first byte that was not searched, backwards the first
            that was.
    """

    lines: list[LogLine]
    next: int


def search_on(snapshot: Snapshot, file: str, wanted: Selection, cursor: int, most: int) -> Found:
    """The first lines from ``cursor`` on that are wanted, at most so many; blocks on the disk.

    Raises:
        BadSelection: A regular expression takes too long.
        OutputGone: Somebody removed or shortened a file.
        OSError: A file cannot be read.
    """
    began = time.thread_time()
    lines: list[LogLine] = []
    scan = _Scan(snapshot, file, wanted, cursor)
    for block in scan.blocks(snapshot.view.total):
        lines += [line for line in block if line.cursor + line.size > cursor]
        if len(lines) >= most:
            last = lines[most - 1]
            return Found(lines[:most], last.cursor + last.size)
        if scan.at > cursor and time.thread_time() - began > PATIENCE:
            break
    # A line that is longer than what was looked at is gone on with in its middle.
    return Found(lines, scan.done if scan.done > cursor else max(cursor, scan.at))


def search_back(snapshot: Snapshot, file: str, wanted: Selection, before: int, most: int) -> Found:
    """The last lines that begin before ``before`` and are wanted, at most so many; as ``search_on``."""
    began = time.thread_time()
    lines: list[LogLine] = []
    end = min(before, snapshot.view.total)
    while end > 0 and len(lines) < most and time.thread_time() - began <= PATIENCE:
        start = line_start(snapshot.view, max(0, end - BLOCK_BYTES))
        scan = _Scan(snapshot, file, wanted, start)
        # The line that ``end`` is in belongs to it.
        here = [line for block in scan.blocks(snapshot.view.total, end) for line in block]
        lines = [line for line in here if start <= line.cursor < end] + lines
        end = start
    if len(lines) > most:
        lines = lines[-most:]
        return Found(lines, lines[0].cursor)
    return Found(lines, end)


def line_start(view: View, cursor: int) -> int:
    """The cursor at which the line begins that the byte at ``cursor`` is in, or a block before it."""
    upto = min(cursor, view.total)
    start = max(0, upto - BLOCK_BYTES)
    return start + view.read(start, upto - start).rfind(b"\n") + 1


class _Scan:
    """Goes through the lines of an output, from a little before ``cursor`` on.

    Attributes:
        done: The cursor behind the last whole line that was looked at.
    """

    def __init__(self, snapshot: Snapshot, file: str, wanted: Selection, cursor: int) -> None:
        self._snapshot = snapshot
        self._wanted = wanted
        name = OutputName.of(file)
        self._records = Records() if wanted.severity is not None else None
        self._before: LogLine | None = None
        back = CONTEXT_BYTES if self._records else 0
        start = line_start(snapshot.view, max(0, min(cursor, snapshot.view.total) - back))
        self._place = Place(file, start)
        self._lines = lines_of(Skimmer.of(wanted), start, stream=name.stream, rank=name.rank)
        self._execution: int | None = None
        self._time: float | None = None
        self.done = start

    @property
    def at(self) -> int:
        """The cursor behind the last byte that was looked at."""
        return self._place.cursor

    def blocks(self, total: int, begun_before: int | None = None) -> Iterator[list[LogLine]]:
        """The wanted lines, block by block; with ``begun_before`` until no later one begins before it."""
        while self._place.cursor < total:
            piece = self._place.take(self._snapshot, BLOCK_BYTES)
            yield [line for line in self._of(piece) if self._is_wanted(line)]
            if begun_before is not None and self.done >= begun_before:
                return
        last = self._lines.end()
        self.done = total
        yield [line for line in last if self._is_wanted(line)]

    def _of(self, piece: Piece) -> Iterator[LogLine]:
        """The lines that end in a piece; one execution's last line ends where the next begins."""
        at = piece.cursor
        for entry in piece.entries:
            end = min(max(entry["cursor"], at), piece.next)
            yield from self._cut(piece.data[at - piece.cursor : end - piece.cursor], at)
            at = end
            if "execution" in entry:
                if self._execution not in (None, entry["execution"]):
                    yield from self._lines.end()
                    self.done = at
                self._execution = entry["execution"]
                self._time = entry.get("arrival", self._time)
        yield from self._cut(piece.data[at - piece.cursor :], at)

    def _cut(self, data: bytes, cursor: int) -> list[LogLine]:
        """The lines that end in ``data``, without those that cannot be wanted."""
        self.done = cursor + data.rfind(b"\n") + 1 if b"\n" in data else self.done
        return self._lines.feed(data, time=self._time, execution=self._execution)

    def _is_wanted(self, line: LogLine) -> bool:
        wanted, before = self._wanted, self._before
        if self._records is not None and wanted.severity is not None:
            begins = self._records.judge(line)
            self._before = line
            if line.severity is None or line.severity < wanted.severity:
                return False
            # Of a record without words to look for, only where it becomes so bad.
            known = before is not None and (before.severity or 0) >= wanted.severity
            if wanted.query is None and known and not begins:
                return False
        text = plain(line.written)
        if wanted.query is not None and not wanted.query.match(text):
            return False
        return wanted.exclude is None or not wanted.exclude.match(text)
