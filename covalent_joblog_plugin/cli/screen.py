# SPDX-License-Identifier: Apache-2.0
"""Lines that scroll by, and below them, on a terminal, rows that are painted over."""

from __future__ import annotations

import os
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


class Screen:
    """What ``joblog`` writes while it goes on: text to stdout, events to stderr, rows to the terminal.

    All text it is given is safe for a terminal already.
    """

    def __init__(self) -> None:
        self.shows_text = console.is_terminal(sys.stdout)
        streams: list[TextIO] = [sys.stdout, sys.stderr]
        self._area = next((stream for stream in streams if console.is_terminal(stream)), None)
        self.colour = self._area is not None and console.has_colour(self._area)
        self._painted: list[str] = []

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
        rows = self._fitting(rows)
        if not text and rows == self._painted:
            return
        if self._area is sys.stdout:
            console.write(self._erased() + text + "\n".join(rows))
        else:
            if text:
                console.write(text)
            if self._area is not None:
                console.write(self._erased() + "\n".join(rows), self._area)
        self._painted = rows

    def event(self, text: str, *, bad: bool = False) -> None:
        """Tell something on stderr, above the rows."""
        rows = self._painted
        self.clear()
        console.event(text, bad=bad)
        if rows and self._area is not None:
            console.write("\n".join(rows), self._area)
            self._painted = rows

    def clear(self) -> None:
        """Take the rows away."""
        if self._painted and self._area is not None:
            console.write(self._erased(), self._area)
        self._painted = []

    def _fitting(self, rows: Sequence[str]) -> list[str]:
        if self._area is None:
            return []
        columns, lines = self._size()
        kept = list(rows)[-max(1, min(_MOST_ROWS + 1, lines - 1)) :]
        # What wraps, also by filling the last column, could not be painted over.
        return [fit(row, columns - 1) for row in kept]

    def _erased(self) -> str:
        """The way back to where the rows begin, and all below it cleared."""
        if not self._painted:
            return ""
        columns, _ = self._size()
        # A terminal that became narrower since has wrapped them.
        height = sum(max(1, -(-_columns(row) // columns)) for row in self._painted)
        return (f"\x1b[{height - 1}A" if height > 1 else "") + "\r\x1b[J"

    def _size(self) -> tuple[int, int]:
        try:
            size = os.get_terminal_size(self._area.fileno() if self._area else 1)
        except OSError:
            return 80, 24
        return size.columns or 80, size.lines or 24


def _columns(row: str) -> int:
    return sum(width(char) for char in plain(row))
