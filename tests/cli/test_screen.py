# SPDX-License-Identifier: Apache-2.0
"""Rows at a terminal's end that are painted over."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.cli.screen import Rows

COLUMNS, LINES = 20, 6


class Terminal:
    """The few things that a paint may use: text, newline, return, going up, clearing the rest of a row."""

    def __init__(self) -> None:
        self._rows = [""]
        self._row = self._column = 0

    @property
    def rows(self) -> list[str]:
        """What can be seen, down to the cursor and what is not empty below it."""
        last = max([self._row, *(at for at, row in enumerate(self._rows) if row)])
        return self._rows[: last + 1]

    def write(self, text: str) -> None:
        for part in re.findall(r"\x1b\[[AK]|\r|\n|[^\x1b]", text):
            if part == "\x1b[K":
                self._rows[self._row] = self._rows[self._row][: self._column]
            elif part == "\x1b[A":
                self._row -= 1
            elif part == "\r":
                self._column = 0
            elif part == "\n":
                self._row, self._column = self._row + 1, 0
                self._rows += [""] if self._row == len(self._rows) else []
            else:
                row = self._rows[self._row]
                self._rows[self._row] = row[: self._column] + part + row[self._column + 1 :]
                self._column += 1


words = st.text("abc", max_size=COLUMNS - 1)
paints = st.lists(
    st.tuples(st.lists(words, max_size=3), st.lists(st.text("xyz", max_size=2 * COLUMNS), max_size=LINES + 2))
)


@given(paints)
def test_lines_stay_and_the_rows_stand_below_the_last_one(steps: list[tuple[list[str], list[str]]]) -> None:
    terminal, rows, written = Terminal(), Rows(), list[str]()
    for lines, below in steps:
        terminal.write(rows.paint("".join(f"{line}\n" for line in lines), below, COLUMNS, LINES))
        written += lines
        shown = [row[: COLUMNS - 1] for row in below[-(LINES - 1) :]]
        assert terminal.rows == [*written, *(shown or [""])]
    terminal.write(rows.erase(COLUMNS))
    assert terminal.rows == [*written, ""]


def test_what_has_not_changed_is_not_painted_again() -> None:
    rows = Rows()
    assert rows.paint("", [" 50%|"], 80, 24) == " 50%|"
    assert rows.paint("", [" 50%|"], 80, 24) == ""
    assert rows.paint("", ["100%|", "live"], 80, 24) == "\r\x1b[K100%|\nlive"
    assert rows.paint("100%|\n", ["live"], 80, 24) == "\r\x1b[K\x1b[A\x1b[K100%|\nlive"
    assert rows.paint("", [], 80, 24) == "\r\x1b[K"


def test_rows_that_a_narrower_terminal_has_wrapped_are_all_painted_over() -> None:
    rows = Rows()
    rows.paint("", ["a" * 50, "b" * 10], 80, 24)
    assert rows.erase(20) == "\r\x1b[K" + 3 * "\x1b[A\x1b[K"


def test_colours_of_a_row_that_is_cut_end_with_it() -> None:
    assert Rows().paint("", ["\x1b[32mabcdef"], 5, 24) == "\x1b[32mabcd\x1b[0m"
