# SPDX-License-Identifier: Apache-2.0
"""Rows at a terminal's end that are painted over."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.cli.screen import Rows

COLUMNS, LINES = 20, 6


class Terminal:
    """The few things that a paint may use: text, newline, return, going up, clearing all that follows."""

    def __init__(self) -> None:
        self.rows = [""]
        self.row = self.column = 0

    def write(self, text: str) -> None:
        for part in re.findall(r"\x1b\[\d+A|\x1b\[J|\r|\n|[^\x1b]", text):
            if part == "\x1b[J":
                self.rows[self.row :] = [self.rows[self.row][: self.column]]
            elif part.endswith("A") and part[0] == "\x1b":
                self.row -= int(part[2:-1])
            elif part == "\r":
                self.column = 0
            elif part == "\n":
                self.row, self.column = self.row + 1, 0
                self.rows += [""] if self.row == len(self.rows) else []
            else:
                row = self.rows[self.row]
                self.rows[self.row] = row[: self.column] + part + row[self.column + 1 :]
                self.column += 1


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
    assert rows.paint("", ["100%|", "live"], 80, 24) == "\r\x1b[J100%|\nlive"
    assert rows.paint("100%|\n", ["live"], 80, 24) == "\x1b[1A\r\x1b[J100%|\nlive"
    assert rows.paint("", [], 80, 24) == "\r\x1b[J"


def test_rows_that_a_narrower_terminal_has_wrapped_are_all_painted_over() -> None:
    rows = Rows()
    rows.paint("", ["a" * 50, "b" * 10], 80, 24)
    assert rows.erase(20) == "\x1b[3A\r\x1b[J"


def test_colours_of_a_row_that_is_cut_end_with_it() -> None:
    assert Rows().paint("", ["\x1b[32mabcdef"], 5, 24) == "\x1b[32mabcd\x1b[0m"
