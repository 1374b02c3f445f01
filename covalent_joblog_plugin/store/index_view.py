# SPDX-License-Identifier: Apache-2.0
"""The index of a node as readers use it: breaks, arrival times, and the way from one to a cursor.

The index has at most a line for each second or 64 KiB of an output, of all outputs in the order of their
arrival, so that the cursors of one output only grow. A place in it is found by halving; nothing reads the
output itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .views import read_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EVERY_SECONDS = 1.0
"""The bytes that a line about arrival stands for arrived within so many seconds."""
_BLOCK = 64 * 1024
_ARRIVAL = b', "arrival": '
"""Occurs in no other line: quotes inside names and messages are written with a backslash."""

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class IndexView:
    """The index up to a committed length.

    Attributes:
        path: The file.
        length: Bytes of it that count: whole lines.
        waiting: Lines that follow these and are not in the file yet.
    """

    path: Path
    length: int
    waiting: bytes = b""

    @property
    def end(self) -> int:
        """The offset behind the last line, those that wait included."""
        return self.length + len(self.waiting)

    def entries(self, file: str, offset: int = 0, end: int | None = None) -> Iterator[tuple[int, Entry]]:
        """The lines of one output from ``offset`` (of a line's start) on, each with the next one's offset.

        Raises:
            OutputGone: Somebody removed the index.
            OSError: It cannot be read.
        """
        mark = _mark(file)
        for at, line in self._lines(offset, self.end if end is None else end):
            if line.startswith(mark):
                yield at + len(line), json.loads(line)

    def names(self) -> set[str]:
        """What the outputs in it are called."""
        lines = (line for _, line in self._lines(0, self.end))
        return {json.loads(line)["file"] for line in lines}

    def start(self, file: str, cursor: int) -> int:
        """An offset from which ``entries`` begins with the line that tells of the byte before ``cursor``.

        It is the last line of arrival below ``cursor``; 0 if there is none.
        """
        start = at = self.before(file, "cursor", cursor)
        for end, entry in self.entries(file, at):
            if entry["cursor"] >= cursor:
                break
            if "arrival" in entry:
                start = at
            at = end
        return start

    def until(self, file: str, offset: int, cursor: int, end: int, most: int) -> tuple[list[Entry], int, int]:
        """The lines of ``file`` from ``offset`` on that are at cursors up to ``end``.

        Args:
            file: The output.
            offset: Of a line's start.
            cursor: Lines up to this cursor are given however many they are.
            end: The last cursor of interest.
            most: Lines after which no other cursor is begun.

        Returns:
            The lines, the offset from which on to ask for the next ones, and ``end``, or the cursor at which
            there were too many.
        """
        found: list[Entry] = []
        for behind, entry in self.entries(file, offset):
            if entry["cursor"] > end:
                break
            if len(found) >= most and entry["cursor"] > found[-1]["cursor"] > cursor:
                return found, offset, found[-1]["cursor"]
            found.append(entry)
            offset = behind
        else:
            # Nor are there any among what others wrote since: it is not gone through again.
            offset = max(offset, self.end)
        return found, offset, end

    def before(self, file: str, key: str, value: float) -> int:
        """The offset of a line of arrival such that it and all before it have ``key`` below ``value``.

        Args:
            file: The output.
            key: ``cursor`` or ``arrival``.
            value: Below which they are.

        Returns:
            From there on ``entries`` gives all that is not below it, after few that are; 0 if none is below.
        """
        low, high = 0, self.end
        while high - low > _BLOCK:
            middle = (low + high) // 2
            found = self._first(file, key, middle, high)
            if found is None or found[1] >= value:
                high = middle
            else:
                low = found[0]
        return low

    def cursor_at(self, file: str, time: float) -> int | None:
        """The cursor from which on bytes arrived at ``time`` (Unix seconds) or later.

        It may lie up to a second's or 64 KiB's bytes before the first such byte. None if all arrived before.
        """
        last: Entry | None = None
        for _, entry in self.entries(file, self.before(file, "arrival", time)):
            if "arrival" in entry:
                if entry["arrival"] >= time:
                    return int(entry["cursor"] if _all_before(last, time) else last["cursor"])  # type: ignore[index]
                last = entry
        return None if _all_before(last, time) else int(last["cursor"])  # type: ignore[index]

    def _first(self, file: str, key: str, start: int, end: int) -> tuple[int, float] | None:
        """The first whole line of arrival behind ``start`` that is of ``file``: offset and value."""
        mark = _mark(file)
        skip = self._read(start, _BLOCK).find(b"\n") + 1
        for at, line in self._lines(start + skip, end):
            if line.startswith(mark) and _ARRIVAL in line:
                return at, json.loads(line)[key]
        return None

    def _lines(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        for block in self._blocks(start, end):
            for line in block.splitlines(keepends=True):
                yield start, line
                start += len(line)

    def _blocks(self, start: int, end: int) -> Iterator[bytes]:
        """Whole lines, about ``_BLOCK`` bytes at a time."""
        rest = b""
        while start < end:
            data = self._read(start, min(_BLOCK, end - start))
            if not data:
                return
            start += len(data)
            whole, newline, rest_of_it = (rest + data).rpartition(b"\n")
            rest = rest_of_it
            if newline:
                yield whole + newline

    def _read(self, start: int, size: int) -> bytes:
        data = read_file(self.path, start, min(size, self.length - start)) if start < self.length else b""
        at = start + len(data) - self.length
        return data + self.waiting[at : at + size - len(data)] if at >= 0 else data


def _mark(file: str) -> bytes:
    """How the lines of an output begin."""
    return b'{"file": ' + json.dumps(file).encode() + b", "


def _all_before(entry: Entry | None, time: float) -> bool:
    """Whether the bytes that ``entry`` stands for had all arrived before ``time``."""
    return entry is None or entry["arrival"] + EVERY_SECONDS <= time
