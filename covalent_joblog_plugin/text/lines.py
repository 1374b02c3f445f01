# SPDX-License-Identifier: Apache-2.0
"""Bytes of one stored output → its lines, wherever the pieces end.

Only a newline ends a line: not a carriage return, not the other characters that Unicode calls line ends. A
cursor counts bytes of the stored output, whatever becomes of them on the screen. A line longer than
``rewriting.LINE_CHARACTERS`` columns is cut there, and a mark at its end says so, with its true length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.log_line import LogLine

from .decoding import Decoder
from .rewriting import LINE_CHARACTERS, REWRITES, Row

if TYPE_CHECKING:
    from covalent_joblog_plugin.model.records import Stream


class Lines:
    """Cuts one output, from ``cursor`` (of a line's start) on.

    Args:
        cursor: Byte offset in the stored output of the first byte that will come.
        stream: As in ``LogLine``, like ``rank``.
        rank: Who wrote it.
    """

    def __init__(self, cursor: int = 0, *, stream: Stream | None = None, rank: int | None = None) -> None:
        self._cursor = cursor
        self._stream = stream
        self._rank = rank
        self._open: _Open | None = None
        self._time: float | None = None
        self._execution: int | None = None

    def feed(self, data: bytes, *, time: float | None = None, execution: int | None = None) -> list[LogLine]:
        """The lines that end in ``data``.

        Args:
            data: What follows what was fed before.
            time: When ``data`` arrived, Unix seconds: the time of the lines that end in it.
            execution: Which start of the job wrote it; before another one begins, the last line is ended.
        """
        self._time, self._execution = time, execution
        first, newline, rest = data.partition(b"\n")
        if not newline:
            self._extend(data)
            return []
        lines = []
        if self._open:
            self._extend(first)
            lines.append(self._finish(1))
            if not rest:
                return lines
            data = rest
        *whole, last = data.split(b"\n")
        escapes = b"\r" in data or b"\b" in data or b"\x1b[" in data
        lines += [self._line(line, escapes) for line in whole]
        self._extend(last)
        return lines

    @property
    def begun(self) -> bool:
        """Whether a line has begun and has no newline yet."""
        return self._open is not None

    def skip(self, size: int) -> None:
        """Go over ``size`` bytes of whole lines that nobody wants; no line may have begun before them."""
        self._cursor += size

    def unfinished(self) -> LogLine | None:
        """The line that has begun and has no newline yet, as it would be shown now; None without one."""
        if self._open is None:
            return None
        opened = self._open
        mark = _mark(opened.size, " so far") if opened.row.cut else ""
        return self._made(opened.row.shown(), mark, opened.size, ended=False)

    def end(self) -> list[LogLine]:
        """The last line if no newline ended it: at the end of the output, or at a break in it."""
        return [self._finish(0)] if self._open else []

    def _extend(self, data: bytes) -> None:
        if data:
            self._open = self._open or _Open()
            self._open.feed(data)

    def _finish(self, newline: int) -> LogLine:
        opened, self._open = self._open or _Open(), None
        text = opened.end()
        mark = _mark(opened.size) if opened.row.cut else ""
        line = self._made(text, mark, opened.size + newline, ended=newline > 0)
        self._cursor += line.size
        return line

    def _line(self, data: bytes, escapes: bool) -> LogLine:
        """A whole line that came in one piece."""
        text = data.decode("utf-8", "replace")
        if escapes:
            text = text.rstrip("\r")
            escapes = REWRITES.search(text) is not None
        if escapes or len(text) > LINE_CHARACTERS:
            self._extend(data)
            return self._finish(1)
        line = LogLine(
            text, self._cursor, self._time, self._stream, self._rank, self._execution, None, len(data) + 1
        )
        self._cursor += len(data) + 1
        return line

    def _made(self, text: str, mark: str, size: int, *, ended: bool) -> LogLine:
        return LogLine(
            text + mark,
            self._cursor,
            self._time,
            self._stream,
            self._rank,
            self._execution,
            None,
            size,
            ended,
            len(mark),
        )


class _Open:
    """A line without its end."""

    __slots__ = ("_decoder", "row", "size")

    def __init__(self) -> None:
        self._decoder = Decoder()
        self.row = Row()
        self.size = 0

    def feed(self, data: bytes) -> None:
        self.size += len(data)
        self.row.feed(self._decoder.feed(data))

    def end(self) -> str:
        self.row.feed(self._decoder.end())
        return self.row.end()


def _mark(size: int, more: str = "") -> str:
    return f" [cut here: this line has {size} bytes{more}]"


class TailStart:
    """Finds where the last lines begin in an output that is read from its end, block by block.

    It counts newlines. Breaks end lines too, so from there on there are the wanted lines or more of them.

    Args:
        lines: How many are wanted, the last one with or without a newline.
        end: Byte offset at which the output ends.
    """

    def __init__(self, lines: int, end: int) -> None:
        self._wanted = lines
        self._at = end
        self._end = end

    def feed(self, block: bytes) -> int | None:
        """The cursor of the first wanted line, as soon as it is known.

        Args:
            block: What stands right before the block that was fed before; first the output's last one.
        """
        if not self._wanted:
            return self._end
        upto = len(block)
        self._at -= upto
        # A newline at the very end ends the last line and begins none.
        if self._at + upto == self._end and block.endswith(b"\n"):
            upto -= 1
        if (there := block.count(b"\n", 0, upto)) < self._wanted:
            self._wanted -= there
            return self._at if not self._at else None
        for _ in range(self._wanted):
            upto = block.rfind(b"\n", 0, upto)
        return self._at + upto + 1
