# SPDX-License-Identifier: Apache-2.0
"""A line that was rewritten in place is what a terminal would show of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.text.rewriting import LINE_CHARACTERS, REWRITES, Row


def shown(*pieces):
    row = Row()
    for piece in pieces:
        row.feed(piece)
    return row.end()


@pytest.mark.parametrize(
    ("written", "screen"),
    [
        ("  0%|\r 50%|\r100%|", "100%|"),
        ("  0%|\r 50%|\r", " 50%|"),
        ("a\r", "a"),
        ("a\r\r\r", "a"),
        ("longer text\rshort", "shortr text"),
        ("longer text\r\x1b[Kshort", "short"),
        ("longer text\r\x1b[2Kshort", "short"),
        ("longer text\r           \rshort", "short"),
        ("ab\x1b[1Kc", "  c"),
        ("abc\b\bX", "aXc"),
        ("\b\bx", "x"),
        ("abc\b \b", "ab"),
        ("12345678\rab\tX", "ab345678X"),
        ("a\tb\r", "a\tb"),
        ("日本語\rx", "x 本語"),
        ("abc\r日", "日c"),
        ("ab日\rxyz", "xyz"),
        ("日\b\x1b[K", ""),
        ("abcd\re\u0301", "e\u0301bcd"),
        ("abc\r\u0301", "abc"),
        ("\x1b[32m 50%\x1b[0m\r\x1b[32m100%\x1b[0m ok", "\x1b[32m100%\x1b[0m ok"),
        ("\x1b[31mred\x1b[0m plain\rR", "R\x1b[31med\x1b[0m plain"),
        ("\x1b[31ma\x1b[1mb\rx", "\x1b[31m\x1b[1mxb\x1b[0m"),
        ("\x1b[31ma\x1b[0;32mb\rx\x1b[;mc", "\x1b[0;32mx\x1b[0mc"),
        ("ab\x1b[?25l\rc", "cb\x1b[?25l"),
        ("ab\x1b]0;t\x07\rc", "cb\x1b]0;t\x07"),
    ],
)
def test_what_is_shown(written, screen):
    assert shown(written) == screen
    assert shown(*written) == screen


writing = st.lists(
    st.one_of(
        st.sampled_from(
            ["\r", "\b", "\t", "\x1b[K", "\x1b[2K", "\x1b[1K", "\x1b[31m", "\x1b[0m", "\x1b[", "\x1b"]
        ),
        st.sampled_from(["日本", "e\u0301", "\u0301", "\x1b[?25l", "\x1b[" + "1" * 40 + "m", "  ", "[K"]),
        st.text(max_size=4),
    ),
    max_size=16,
).map("".join)


@given(writing, st.data())
def test_any_split_shows_the_same(written, data):
    cut = data.draw(st.integers(0, len(written)))
    assert shown(written[:cut], written[cut:]) == shown(*written) == shown(written)


@given(writing)
def test_a_text_that_rewrites_nothing_is_left_as_it_is(written):
    plain = REWRITES.sub("", written)
    if not REWRITES.search(plain):
        assert shown(plain + "\r") == plain


@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=1), st.integers(0, 40))
def test_what_a_shorter_text_does_not_cover_stays(text, size):
    over = "=" * min(size, len(text))
    assert shown(text, "\r", over) == over + text[len(over) :]


def test_a_line_that_waits_for_its_next_state_keeps_the_one_it_has():
    row = Row()
    row.feed(" 50%|\r")
    assert row.shown() == " 50%|"
    row.feed("\r\x1b[")
    assert row.shown() == " 50%|"
    row.feed("K")
    assert row.shown() == ""


@pytest.mark.parametrize("before", ["", "\rx"])
@pytest.mark.parametrize("piece", ["x", "日", "\u0301", "\x1b[1C", "\x1b[31m\x1b[42mx"])
def test_an_endless_line_takes_bounded_memory_and_is_cut(before, piece):
    row = Row()
    row.feed("a" + before)
    for _ in range(80):
        row.feed(piece * 1000)
    assert row.cut
    assert len(row.end()) <= 3 * LINE_CHARACTERS


def test_an_endless_progress_bar_is_not_cut():
    row = Row()
    for step in range(20_000):
        row.feed(f"\r{step:6d} |####      |")
    assert not row.cut
    assert row.end() == " 19999 |####      |"


def test_endless_carriage_returns_take_no_memory():
    row = Row()
    row.feed("x")
    for _ in range(100):
        row.feed("\r" * 10_000)
    assert len(row._waiting) == 1
    assert row.end() == "x"


def test_a_line_that_was_erased_is_no_longer_cut():
    row = Row()
    row.feed("x" * (LINE_CHARACTERS + 1))
    assert row.cut
    row.feed("\r\x1b[Kdone")
    assert not row.cut
    assert row.end() == "done"
