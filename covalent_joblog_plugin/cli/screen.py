# SPDX-License-Identifier: Apache-2.0
"""Lines that scroll by, and below them, on a terminal, rows that are painted over."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.log_line import LogLine
from covalent_joblog_plugin.text.rewriting import width
from covalent_joblog_plugin.text.terminal import fit, plain

from . import console

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TextIO

    from covalent_joblog_plugin.reading.rendering import Shown

    from .lines import Style

_MOST_ROWS = 12
"""Of progress bars and the like; below them comes the status."""


class Rows:
    """Rows at a terminal's end, and how to paint over them."""

    def __init__(self) -> None:
        self.painted: list[str] = []

    def paint(self, text: str, rows: Sequence[str], columns: int, lines: int) -> str:
        """What to write so that ``text`` stands above, and ``rows`` below it.

        Args:
            text: Whole lines, with their ends; may be empty.
            rows: Without their ends. The last ones are shown, as many as there is room for.
            columns: How wide the terminal is now.
            lines: How high.
        """
        kept = rows[-max(1, min(_MOST_ROWS + 1, lines - 1)) :]
        # What wraps, also by filling the last column, could not be painted over.
        fitting = [fit(row, columns - 1) for row in kept]
        if not text and fitting == self.painted:
            return ""
        erased, self.painted = self.erase(columns), fitting
        return erased + text + "\n".join(fitting)

    def erase(self, columns: int) -> str:
        """The way back to where the rows begin, and all from there cleared."""
        if not self.painted:
            return ""
        # A terminal that became narrower since has wrapped them.
        height = sum(max(1, -(-_columns(row) // columns)) for row in self.painted)
        # Row by row: a terminal may take a screen that is cleared as a whole into its history.
        return "\r\x1b[K" + "\x1b[A\x1b[K" * (height - 1)


class Screen:
    """What ``joblog`` writes while it goes on: text to stdout, events to stderr, rows to the terminal.

    All text it is given is safe for a terminal already.
    """

    def __init__(self) -> None:
        self.shows_text = console.is_terminal(sys.stdout)
        self._area = _area()
        self.colour = self._area is not None and console.has_colour(self._area)
        self._rows = Rows()

    @property
    def live(self) -> bool:
        """Whether there are rows at all."""
        return self._area is not None

    def show(self, batch: Iterable[Shown], style: Style, rows: Sequence[str] = ()) -> int:
        """Write lines of jobs, tell of breaks between them, and say what stands below from now on.

        Returns:
            How many lines there were.

        Raises:
            BrokenPipeError: Nobody reads the text any more.
        """
        total, lines = 0, list[str]()
        for shown in batch:
            if isinstance(shown.item, LogLine):
                lines.append(style.line(shown))
                total += 1
            else:
                self.write(lines, ())
                lines.clear()
                self.event(style.event(shown))
        self.write(lines, rows)
        return total

    def write(self, lines: Iterable[str], rows: Sequence[str]) -> None:
        """Write lines that have ended, and what stands below them from now on.

        Raises:
            BrokenPipeError: Nobody reads the text any more.
        """
        text = "".join(f"{line}\n" for line in lines)
        if self._area is sys.stdout:
            if painted := self._rows.paint(text, rows, *self._size()):
                console.write(painted)
            return
        if text:
            console.write(text)
        if self._area is not None and (painted := self._rows.paint("", rows, *self._size())):
            console.write(painted, self._area)

    def event(self, text: str, *, bad: bool = False) -> None:
        """Tell something on stderr, above the rows."""
        rows = self._rows.painted
        self.clear()
        console.event(text, bad=bad)
        if rows:
            self.write((), rows)

    def clear(self) -> None:
        """Take the rows away."""
        if self._rows.painted and self._area is not None:
            console.write(self._rows.erase(self._size()[0]), self._area)
        self._rows.painted = []

    def _size(self) -> tuple[int, int]:
        try:
            size = os.get_terminal_size(self._area.fileno() if self._area else 1)
        except OSError:
            return 80, 24
        return size.columns or 80, size.lines or 24


def _area() -> TextIO | None:
    """Where there may be rows: where the text goes, or beside a file that it goes to.

    Behind a pipe the text may come back to the same terminal, and be painted over.
    """
    if console.is_terminal(sys.stdout):
        return sys.stdout
    try:
        is_file = stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except OSError:
        return None
    return sys.stderr if is_file and console.is_terminal(sys.stderr) else None


def _columns(row: str) -> int:
    return sum(width(char) for char in plain(row))
