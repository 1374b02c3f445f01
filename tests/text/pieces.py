# SPDX-License-Identifier: Apache-2.0
"""Output as jobs write it, and the ways in which it may arrive."""

from hypothesis import strategies as st

_TEXT = [
    "step 1",
    "é",
    "€",
    "😀",
    "日本",
    "e\u0301",
    "\0",
    " 50%|##",
    "100%",
    "\u0085",
    "\u2028",
    "\x0c",
    "\x7f",
]
_MOVES = ["\r", "\r\n", "\n", "\n", "\b", "\t", "\x1b[K", "\x1b[2K", "\x1b[1K", "\x1b[A", "\x1b[?25l"]
_COLOURS = ["\x1b[31m", "\x1b[0m", "\x1b[1;32m", "\x1b", "\x1b[", "\x1b]0;title\x07", "\u009b31m"]
_words = st.sampled_from([*_TEXT, *_MOVES, *_COLOURS]).map(str.encode)

_broken = st.sampled_from([b"\xff", b"\xe2\x82", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf0\x9f", b"\x82\xac"])

output = st.lists(
    st.one_of(_words, _words, _broken, st.text(max_size=4).map(lambda text: text.encode("utf-8", "replace"))),
    max_size=24,
).map(b"".join)
"""Text, colours, rewriting, binary."""


@st.composite
def in_pieces(draw, whole=output):
    """Some output, and the same cut into pieces."""
    data = draw(whole)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return data, [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
