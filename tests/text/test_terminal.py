# SPDX-License-Identifier: Apache-2.0
"""Nothing that a job wrote acts on the terminal of whoever reads it."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.text.lines import Lines
from covalent_joblog_plugin.text.terminal import fit, plain, safe
from tests.text.pieces import output

HOSTILE = "\x1b]0;pwn\x07\x1b[2J\x1b[1;1Hspoof\r\x1b[8mhid\u009b31mx"
ACTING = {"Cc", "Cs"}

hostile = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "\x1b[",
                "\x1b]",
                "\x1b",
                "\x07",
                "\x1b\\",
                "\u009b",
                "\u009d",
                "31",
                ";",
                "m",
                "8",
                "38;5;8",
                "J",
            ]
        ),
        st.sampled_from(
            ["\x1b[31m", "\x1b[0m", "\x1b[8m", "\x1b[1;5m", "\x1b[7m", "\u202e", "\n", "\r", "\x7f", "é日"]
        ),
        st.text(max_size=3),
        st.characters(categories=["Cc", "Cf", "Cs"]),
    ),
    max_size=16,
).map("".join)


def without_colours(shown):
    return re.sub(r"\x1b\[[0-9;:]*m", "", shown)


@given(hostile)
def test_without_colours_no_control_reaches_a_terminal(text):
    shown = safe(text)
    assert all(unicodedata.category(char) not in ACTING or char == "\t" for char in shown)
    assert not set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069") & set(shown)
    shown.encode()


@given(hostile)
def test_nothing_but_colour_reaches_a_terminal(text):
    shown = safe(text, colour=True)
    assert without_colours(shown) == safe(without_colours(shown))
    for numbers in re.findall(r"\x1b\[([0-9;:]*)m", shown):
        rest = re.sub(r"(?:[34]8|58)[;:][0-9;:]*", "", numbers)
        assert not {"5", "6", "8"} & set(re.split("[;:]", rest))
    assert shown.endswith("\x1b[0m") or "\x1b" not in shown


@given(output)
def test_nothing_but_colour_is_left_of_any_output(data):
    lines = Lines()
    for line in lines.feed(data) + lines.end():
        assert "\x1b" not in without_colours(safe(line.text, colour=True))
        assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]", safe(line.text))


def test_what_drives_a_terminal_is_shown_instead():
    assert safe(HOSTILE) == r"\x1b]0;pwn\x07\x1b[2J\x1b[1;1Hspoof\r\x1b[8mhid\x9b31mx"
    assert safe(HOSTILE, colour=True) == safe(HOSTILE)


@pytest.mark.parametrize(
    ("text", "coloured", "bare"),
    [
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m\x1b[0m", "red"),
        ("\x1b[1;38;5;208mx", "\x1b[1;38;5;208mx\x1b[0m", "x"),
        ("\x1b[38;2;8;5;6mx", "\x1b[38;2;8;5;6mx\x1b[0m", "x"),
        ("\x1b[38:2::1:2:3mx", "\x1b[38:2::1:2:3mx\x1b[0m", "x"),
        ("\x1b[mx", "\x1b[mx\x1b[0m", "x"),
        ("\x1b[1;8mx", r"\x1b[1;8mx", r"\x1b[1;8mx"),
        ("\x1b[?31mx", r"\x1b[?31mx", r"\x1b[?31mx"),
        ("\x1b[>4;2mx", r"\x1b[>4;2mx", r"\x1b[>4;2mx"),
        ("\x1b[٣1mx", "\\x1b[٣1mx", "\\x1b[٣1mx"),
        ("a\tb", "a\tb", "a\tb"),
        ("a\x00\n\x7f\u0085", r"a\x00\n\x7f\x85", r"a\x00\n\x7f\x85"),
        ("\u202eabc", r"\u202eabc", r"\u202eabc"),
        ("\ud800", r"\ud800", r"\ud800"),
        ("naïve 日本 😀", "naïve 日本 😀", "naïve 日本 😀"),
    ],
)
def test_colours_pass_when_asked_for(text, coloured, bare):
    assert safe(text, colour=True) == coloured
    assert safe(text) == bare


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("\x1b[31mERR\x1b[0mOR", "ERROR"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "link"),
        ("\u009b31mred", "red"),
        ("\x1b(Bx\x1b=y", "xy"),
        ("é", "é"),
        ("\x1b]0;never ended", "\x1b]0;never ended"),
    ],
)
def test_what_people_read_is_the_text_without_sequences(text, read):
    assert plain(text) == read


@pytest.mark.parametrize(
    ("text", "found", "shown"),
    [
        ("one two", [(4, 7)], "one \x1b[7mtwo\x1b[27m"),
        ("one two", [(0, 3), (3, 4)], "\x1b[7mone\x1b[27m\x1b[7m \x1b[27mtwo"),
        ("\x1b[31mERR\x1b[0mOR x", [(0, 5)], "\x1b[31m\x1b[7mERR\x1b[0m\x1b[7mOR\x1b[27m x\x1b[0m"),
        ("a\x1b[31mb", [(0, 1)], "\x1b[7ma\x1b[27m\x1b[31mb\x1b[0m"),
        ("a\x1b[31mb", [(1, 2)], "a\x1b[31m\x1b[7mb\x1b[27m\x1b[0m"),
        ("a\x07b", [(1, 3)], "a\x1b[7m\\x07b\x1b[27m"),
        ("a\x1b[Ab", [(1, 2)], "a\\x1b[A\x1b[7mb\x1b[27m"),
    ],
)
def test_what_was_found_is_shown_in_reverse(text, found, shown):
    assert safe(text, colour=True, found=found) == shown


def test_a_mark_does_not_let_the_colours_of_the_job_pass():
    assert safe("\x1b[7m\x1b[31mx y", found=[(0, 1)]) == "\x1b[7mx\x1b[27m y"


@given(hostile, st.data())
def test_marks_change_no_character(text, data):
    size = len(plain(text))
    edges = sorted(set(data.draw(st.lists(st.integers(0, size), max_size=6))))
    found = list(zip(edges[::2], edges[1::2], strict=False))
    shown = safe(text, found=found)
    assert shown.replace("\x1b[7m", "").replace("\x1b[27m", "") == safe(text)
    assert shown.count("\x1b[7m") == shown.count("\x1b[27m") == len(found)


@pytest.mark.parametrize(
    ("text", "columns", "fits"),
    [
        ("abcdef", 3, "abc"),
        ("日本語", 5, "日本"),
        ("a\u0301b\u0301c", 2, "a\u0301b\u0301"),
        ("\tx", 8, "\t"),
        ("\tx", 7, ""),
        ("\x1b[31mabc\x1b[0m", 2, "\x1b[31mab\x1b[0m"),
        ("\x1b[31mab\x1b[0m", 2, "\x1b[31mab\x1b[0m"),
        ("abc", 0, ""),
    ],
)
def test_what_fits_counts_columns(text, columns, fits):
    assert fit(text, columns) == fits
