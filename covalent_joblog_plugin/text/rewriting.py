# SPDX-License-Identifier: Apache-2.0
"""What a terminal shows of one line, though the job rewrote it in place.

A carriage return goes back to the first column and what follows overwrites, character by character, what was
there; a backspace goes back by one; ``ESC [ K`` erases. So a progress bar is its last state, and the end of
a longer text that a shorter one did not cover stays, as it does on a screen. A carriage return at the very
end shows nothing new, so a line that is only waiting for its next state keeps the one it has, and CRLF ends
a line like LF. Moves to other lines are not followed. A text that rewrites nothing is left as it is, to the
character.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

LINE_CHARACTERS = 64 * 1024
"""So many columns of a line are kept to be shown."""
_CLUSTER = 16
"""A character and the marks on it that take no column."""
_STYLE = 64
"""Characters of colour sequences in force at the same time."""

REWRITES = re.compile(r"[\r\b]|\x1b\[[012]?K")
_BEGUN = re.compile(r"\x1b(?:\[[0-9;:?<=>]{0,32})?")
_LONGEST = 35
"""Characters of an escape sequence that is known as one."""
_CONTROL = re.compile(r"[\r\b\t]|\x1b\[[0-9;:?<=>]{0,32}[@-~]")
_NARROW = re.compile(r"[\x00-\x7f\xa1-\xac\xae-\u02ff\u2500-\u259f]*")
"""The text of most progress bars; only to spare a look at each character."""
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_RESETS = re.compile(r"\x1b\[0*(?:;|m)")
_RESET = "\x1b[0m"


class Row:
    """One line that is being written, in memory bounded by ``LINE_CHARACTERS`` however long it gets."""

    __slots__ = ("_cells", "_kept", "_past", "_text", "_waiting")

    def __init__(self) -> None:
        self._text: list[str] = []
        self._kept = 0
        self._past = 0
        self._cells: _Cells | None = None
        self._waiting = ""

    @property
    def cut(self) -> bool:
        """Whether there was more than is kept."""
        return self._cells.past if self._cells else self._past > 0

    def feed(self, text: str) -> None:
        """Take more of the line."""
        text = self._waiting + text
        upto = _judged(text)
        # One carriage return does what many do.
        self._waiting = "\r" if text[upto:].startswith("\r") else text[upto:]
        self._write(text[:upto])

    def end(self) -> str:
        """What is shown in the end."""
        waiting, self._waiting = self._waiting.rstrip("\r"), ""
        self._write(waiting)
        return self.shown()

    def shown(self) -> str:
        """What is shown now."""
        if self._cells:
            return self._cells.shown()
        if len(self._text) > 1:
            self._text = ["".join(self._text)]
        return self._text[0] if self._text else ""

    def _write(self, text: str) -> None:
        if self._cells is None:
            first = REWRITES.search(text)
            plain = text[: first.start()] if first else text
            self._append(plain)
            if first is None:
                return
            self._cells = _Cells(self.shown(), self._past)
            text = text[len(plain) :]
        self._cells.write(text)

    def _append(self, plain: str) -> None:
        room = LINE_CHARACTERS - self._kept
        if len(plain) > room:
            self._past += len(plain) - room
            plain = plain[:room]
        if plain:
            self._kept += len(plain)
            self._text.append(plain)


class _Cells:
    """The columns of a line that is rewritten, each with the colours in force when it was written."""

    __slots__ = ("_cells", "_column", "_style", "_styles", "past")

    def __init__(self, text: str, past: int) -> None:
        self._cells: list[str] = []
        self._styles: list[str] = []
        self._column = 0
        self._style = ""
        self.past = past > 0
        self.write(text)
        self._column += past

    def write(self, text: str) -> None:
        at = 0
        for control in _CONTROL.finditer(text):
            self._put(text[at : control.start()])
            self._act(control[0])
            at = control.end()
        self._put(text[at:])

    def shown(self) -> str:
        parts, style = [], ""
        for cell, its in zip(self._cells, self._styles, strict=True):
            if its != style:
                parts.append(its[len(style) :] if its.startswith(style) else _RESET + its)
                style = its
            parts.append(cell)
        text = "".join(parts)
        return text + _RESET if style else text.rstrip(" ")

    def _act(self, control: str) -> None:
        if control == "\r":
            self._column = 0
        elif control == "\b":
            self._column = max(0, self._column - 1)
        elif control == "\t":
            self._column += 8 - self._column % 8
        elif _COLOUR.fullmatch(control):
            if _RESETS.match(control):
                self._style = control if control.strip("\x1b[0;m") else ""
            else:
                # The same sequence again takes the place of the earlier one, whose effect it repeats.
                style = self._style.replace(control, "") + control
                self._style = style if len(style) <= _STYLE else control
        elif REWRITES.fullmatch(control):
            self._erase(control[2:-1] or "0")
        else:
            self._attach(control)

    def _erase(self, which: str) -> None:
        if which != "0":
            upto = len(self._cells) if which == "2" else min(self._column + 1, len(self._cells))
            self._cells[:upto] = " " * upto
            self._styles[:upto] = [""] * upto
        if which != "1":
            self._split(self._column)
            del self._cells[self._column :], self._styles[self._column :]
            self.past = self._column > LINE_CHARACTERS

    def _put(self, text: str) -> None:
        if _NARROW.fullmatch(text) or all(width(char) == 1 for char in text):
            self._fill(list(text))
            return
        for char in text:
            columns = width(char)
            if columns:
                self._fill([char, ""] if columns == 2 else [char])
            else:
                self._attach(char)

    def _fill(self, cells: list[str]) -> None:
        start, self._column = self._column, self._column + len(cells)
        if self._column > LINE_CHARACTERS:
            # A character of two columns is not cut in half.
            room = max(0, LINE_CHARACTERS - start)
            self.past, cells = True, cells[: room - 1 if cells[room:] == [""] else room]
        if not cells:
            return
        end = start + len(cells)
        if (gap := start - len(self._cells)) > 0:
            self._cells += " " * gap
            self._styles += [""] * gap
        self._split(start)
        self._split(end)
        self._cells[start:end] = cells
        self._styles[start:end] = [self._style] * len(cells)

    def _split(self, column: int) -> None:
        """Where a character of two columns is half overwritten, its other half is blank."""
        if 0 < column < len(self._cells) and not self._cells[column]:
            self._cells[column - 1] = self._cells[column] = " "

    def _attach(self, mark: str) -> None:
        """Put what takes no column to the character before it."""
        at = min(self._column, len(self._cells)) - 1
        while at > 0 and not self._cells[at]:
            at -= 1
        if at < 0:
            return
        if len(self._cells[at]) + len(mark) <= _CLUSTER:
            self._cells[at] += mark
        else:
            self.past = True


def _judged(text: str) -> int:
    """How much of ``text`` can be judged without what follows it."""
    if text.endswith("\r"):
        return len(text.rstrip("\r"))
    escape = text.rfind("\x1b", max(0, len(text) - _LONGEST))
    return escape if escape >= 0 and _BEGUN.fullmatch(text, escape) else len(text)


@lru_cache(maxsize=4096)
def width(char: str) -> int:
    """Columns that a character takes: 0, 1 or 2."""
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
