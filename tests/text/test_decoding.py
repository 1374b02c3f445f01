# SPDX-License-Identifier: Apache-2.0
"""Text does not depend on where the pieces of its bytes end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.text.decoding import Decoder
from tests.text.pieces import in_pieces


@given(
    in_pieces(
        st.one_of(st.binary(max_size=24), st.text(max_size=8).map(lambda t: t.encode("utf-8", "replace")))
    )
)
def test_any_split_gives_the_text_of_the_whole(case):
    whole, pieces = case
    decoder, text, taken = Decoder(), "", 0
    for piece in pieces:
        text, taken = text + decoder.feed(piece), taken + len(piece)
        assert decoder.held <= 3
        assert text == whole[: taken - decoder.held].decode("utf-8", "replace")
    assert text + decoder.end() == whole.decode("utf-8", "replace")
    assert decoder.held == 0


@pytest.mark.parametrize("size", range(1, 8))
def test_characters_on_the_edges_of_pieces_come_whole(size):
    data = "A€B é😀x".encode()
    decoder, seen = Decoder(), ""
    for at in range(0, len(data), size):
        seen += decoder.feed(data[at : at + size])
        assert "A€B é😀x".startswith(seen)
    assert seen == "A€B é😀x"


def test_a_character_in_two_polls():
    decoder = Decoder()
    assert [decoder.feed(piece) for piece in (b"\x41\xe2", b"\x82\xac", b"\x42")] == ["A", "€", "B"]


def test_an_end_makes_one_mark_of_half_a_character_and_the_next_text_is_whole():
    decoder = Decoder()
    assert decoder.feed(b"x\xe2\x82") + decoder.end() == "x\ufffd"
    assert decoder.feed("€".encode()) == "€"
