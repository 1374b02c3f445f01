# SPDX-License-Identifier: Apache-2.0
"""What Covalent's client decodes strictly is always valid, as long as what it stands for, and exact."""

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.store.sanitise import Carry, cut, sanitise, unfinished
from tests.store.bytes_strategies import job_bytes, shown


def feed(chunks):
    """Source, text and first difference over all chunks, and what is carried at the end."""
    carry, source, text, bad = Carry(), b"", b"", None
    for chunk in chunks:
        piece = sanitise(carry, chunk)
        if bad is None and piece.first_bad is not None:
            bad = len(source) + piece.first_bad
        carry, source, text = piece.carry, source + piece.source, text + piece.text
    return source, text, bad, carry


@given(st.lists(job_bytes, max_size=6))
def test_any_split_gives_the_same_text_of_the_same_length(chunks):
    whole = b"".join(chunks)
    source, text, bad, carry = feed(chunks)
    assert source + carry.held == whole
    assert len(carry) <= 3
    assert text == shown(source)
    assert len(text) == len(source)
    differences = [at for at in range(len(source)) if source[at] != text[at]]
    assert bad == (differences[0] if differences else None)
    last = sanitise(carry.break_off(), b"")
    assert text + last.text == shown(whole)
    assert source + last.source == whole


@given(job_bytes, job_bytes)
def test_a_break_ends_a_character_that_could_have_been_finished(before, after):
    first = sanitise(Carry(), before)
    second = sanitise(first.carry.break_off(), after)
    third = sanitise(second.carry.break_off(), b"")
    assert first.text + second.text + third.text == shown(before) + shown(after)


@pytest.mark.parametrize("size", range(1, 8))
@pytest.mark.parametrize("text", ["A€B", "naïve", "😀é€x", "plain"])
def test_characters_on_chunk_edges_come_whole(text, size):
    data = text.encode()
    carry, seen = Carry(), b""
    for at in range(0, len(data), size):
        piece = sanitise(carry, data[at : at + size])
        carry, seen = piece.carry, seen + piece.text
        assert text.startswith(seen.decode())
    assert seen.decode() == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"caf\xe9 ok\n", b"caf? ok\n"),
        (b"a\0b\rc\r\n", b"a\0b\rc\r\n"),
        (b"\xed\xa0\x80", b"???"),
        (b"\xc0\xaf", b"??"),
        (b"\xf4\x90\x80\x80", b"????"),
        (b"\xe2\x82A", b"??A"),
        (b"\xef\xbb\xbfx", b"\xef\xbb\xbfx"),
    ],
)
def test_only_what_the_strict_decoder_refuses_is_replaced(data, text):
    assert sanitise(Carry(), data).text == text


@given(st.text(), st.integers(-1, 40))
def test_cut_is_the_last_boundary_that_fits(text, room):
    data = text.encode("utf-8", "replace")
    at = cut(data, room)
    assert at <= max(room, 0)
    assert data[:at].decode() == data.decode()[: len(data[:at].decode())]
    rest = data[at:].decode()
    assert not rest or at + len(rest[0].encode()) > room


@given(st.text(max_size=5), st.sampled_from(["é", "€", "😀"]), st.integers(0, 3))
def test_an_unfinished_character_at_the_end_is_found(text, char, size):
    part = char.encode()[:size]
    expected = size if size < len(char.encode()) else 0
    assert unfinished((text.encode("utf-8", "replace") + part)[-3:]) == expected


@pytest.mark.parametrize(
    "unit", ["ascii only, a plain line\n", "日本語のテキスト、行の終わり\n", "mixed é € 😀 text\n"]
)
def test_valid_text_costs_little_more_than_to_decode_it(unit):
    """The measure is Python's own decoder on the same bytes in the same moment, whatever the machine."""
    chunk = unit.encode() * (1_000_000 // len(unit.encode()))
    assert _least(lambda: sanitise(Carry(), chunk)) < 4 * _least(chunk.decode)


def test_random_bytes_do_not_stall_the_writer():
    chunk = os.urandom(1 << 20)
    plain = _least(lambda: chunk.decode("utf-8", "replace"))
    assert _least(lambda: sanitise(Carry(), chunk)) < 8 * plain


def _least(work):
    """The shortest of several runs, in seconds."""
    took = []
    for _ in range(9):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took)
