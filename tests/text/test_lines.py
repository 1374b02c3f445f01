# SPDX-License-Identifier: Apache-2.0
"""Lines and their cursors, wherever the pieces end and whatever the lines hold."""

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.text.lines import Lines, TailStart
from covalent_joblog_plugin.text.rewriting import LINE_CHARACTERS
from tests.text.pieces import in_pieces, output


def cut(*pieces, start=0):
    lines = Lines(start)
    return [line for piece in pieces for line in lines.feed(piece)] + lines.end()


def texts(*pieces):
    return [line.text for line in cut(*pieces)]


@given(in_pieces())
def test_any_split_gives_the_same_lines(case):
    whole, pieces = case
    assert cut(*pieces) == cut(whole) == cut(*(whole[at : at + 1] for at in range(len(whole))))


@given(output, st.integers(0, 10**12))
def test_cursors_and_sizes_are_those_of_the_bytes(whole, start):
    lines = cut(whole, start=start)
    plain = whole.split(b"\n")
    if not plain[-1]:
        plain.pop()
    assert len(lines) == len(plain)
    at = start
    for line, source in zip(lines, plain, strict=True):
        assert line.cursor == at
        assert whole[at - start :].startswith(source)
        at += line.size
        assert line.size == len(source) + line.ended
    assert at == start + len(whole)
    assert all(line.ended for line in lines[:-1])


@given(in_pieces())
def test_a_line_begun_later_is_the_same_line(case):
    """Reading may begin at any line's cursor."""
    whole, _ = case
    lines = cut(whole)
    for number, line in enumerate(lines):
        assert cut(whole[line.cursor :], start=line.cursor) == lines[number:]


@given(st.text(alphabet=st.characters(exclude_characters="\r\b\x1b\n", exclude_categories=["Cs"])))
def test_a_line_that_rewrites_nothing_is_shown_to_the_character(text):
    assert texts(text.encode() + b"\n") == [text]


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ((b"  0%|\r 50%|\r100%|\ndone\n",), ["100%|", "done"]),
        ((b"a\r", b"\nb\r\n"), ["a", "b"]),
        (("a\u0085b\u2028c\x0cd\n".encode(),), ["a\u0085b\u2028c\x0cd"]),
        ((b"Connection fail", b"ed: timeout\n"), ["Connection failed: timeout"]),
        ((b"x\nlast",), ["x", "last"]),
        ((b"\n\n", b"\n"), ["", "", ""]),
        ((b"caf\xe9 ok\n",), ["caf\ufffd ok"]),
        ((b"\xe2\x82", b"\nx\n"), ["\ufffd", "x"]),
        ((b"\xe2\x82\n\xac\n",), ["\ufffd", "\ufffd"]),
        ((), []),
        ((b"", b""), []),
    ],
)
def test_only_a_newline_ends_a_line(pieces, lines):
    assert texts(*pieces) == lines


def test_what_has_begun_is_shown_as_it_would_be_now():
    lines = Lines()
    assert lines.unfinished() is None
    assert lines.feed(b"  0%|\r 50%|\r") == []
    begun = lines.unfinished()
    assert (begun.text, begun.cursor, begun.size, begun.ended) == (" 50%|", 0, 12, False)
    assert [line.text for line in lines.feed(b"100%|\nx")] == ["100%|"]
    assert (lines.unfinished().text, lines.unfinished().cursor) == ("x", 18)
    lines.feed(b"\xe2\x82")
    assert lines.unfinished().text == "x"
    lines.feed(b"\xac\n")
    assert lines.unfinished() is None


def test_an_end_in_the_middle_of_an_output_ends_the_line_and_what_follows_is_another():
    lines = Lines(100, stream="stderr", rank=3)
    assert lines.feed(b"killed", time=1.0, execution=0) == []
    (first,) = lines.end()
    assert (first.text, first.cursor, first.size, first.ended) == ("killed", 100, 6, False)
    assert (first.time, first.stream, first.rank, first.execution) == (1.0, "stderr", 3, 0)
    (second,) = lines.feed(b"again\n", time=2.0, execution=1)
    assert (second.text, second.cursor, second.time, second.execution) == ("again", 106, 2.0, 1)
    assert lines.end() == []


def test_a_line_has_the_time_of_its_last_piece():
    lines = Lines()
    lines.feed(b" 10%|\r", time=1.0)
    (line,) = lines.feed(b" 99%|\n", time=3600.0)
    assert line.time == 3600.0


def test_a_long_line_is_cut_with_its_true_length_and_what_follows_is_whole():
    whole = b"x" * (10 << 20) + b"\nend\n"
    long, end = cut(whole)
    assert long.written == "x" * LINE_CHARACTERS
    assert long.text == long.written + " [cut here: this line has 10485760 bytes]"
    assert (long.cursor, long.size) == (0, 10485761)
    assert (end.text, end.cursor, end.written) == ("end", 10485761, "end")
    assert cut(whole[:5000], whole[5000:]) == [long, end]


def test_a_long_line_that_goes_on_says_so():
    lines = Lines()
    lines.feed(b"x" * (LINE_CHARACTERS + 10))
    assert lines.unfinished().text.endswith("x [cut here: this line has 65546 bytes so far]")
    (line,) = lines.end()
    assert line.text.endswith("x [cut here: this line has 65546 bytes]")


@pytest.mark.parametrize(
    "piece",
    [
        b"x" * 65536,
        b"\xff" * 65536,
        b"\r" * 65536,
        b"\r 50%|" + b"#" * 65000,
        b"\x1b[31m" * 13107,
        b"\xe2\x82\xac" * 21846,
    ],
    ids=["text", "binary", "returns", "progress", "colours", "wide"],
)
def test_a_line_without_an_end_takes_bounded_memory(piece):
    lines, count = Lines(), 160
    for _ in range(count // 4):
        lines.feed(piece)
    tracemalloc.start()
    for _ in range(count - count // 4):
        lines.feed(piece)
    grown, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 1 << 20
    assert peak < 12 << 20
    assert lines.unfinished().size == count * len(piece)


@given(in_pieces(), st.integers(0, 6))
def test_the_last_lines_are_found_from_the_end(case, wanted):
    whole, pieces = case
    finder, at = TailStart(wanted, len(whole)), None
    for piece in reversed(pieces):
        at = finder.feed(piece)
        if at is not None:
            break
    lines = cut(whole)
    assert cut(whole[at:], start=at) == (lines[-wanted:] if wanted else [])


def test_the_last_lines_of_much_take_one_block():
    block = b"".join(b"line %07d\n" % number for number in range(5000))
    assert TailStart(20, 1 << 30).feed(block) == (1 << 30) - 20 * 13


def test_random_pieces_of_a_big_output_give_its_lines():
    """Sizes as they come from a server, across the limit of a line."""
    source = random.Random(7)
    parts = [
        bytes(source.choices(b"ab\r\x1b[K\xe2\x82\xac", k=source.choice([3, 50, 70000]))) for _ in range(60)
    ]
    whole = b"\n".join([*parts, b"y" * 600000, b"\r" + b"z" * 300000, b"end"])
    pieces, at = [], 0
    while at < len(whole):
        size = source.choice([1, 7, 4096, 65536, 200000])
        pieces.append(whole[at : at + size])
        at += size
    assert cut(*pieces) == cut(whole)
