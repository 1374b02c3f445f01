# SPDX-License-Identifier: Apache-2.0
"""Bytes as jobs write them, and what Covalent should show of them."""

from hypothesis import strategies as st

_pieces = st.one_of(
    st.text(max_size=8).map(lambda text: text.encode("utf-8", "replace")),
    st.binary(max_size=4),
    st.sampled_from(
        [b"\xe2\x82\xac", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"\xc0\xaf", b"\0", b"\r\n", b"\xff"]
    ),
    st.sampled_from(["é", "€", "😀"]).flatmap(
        lambda char: st.integers(1, 3).flatmap(
            lambda size: st.sampled_from([char.encode()[:size], char.encode()[size:]])
        )
    ),
)

job_bytes = st.lists(_pieces, max_size=12).map(b"".join)
"""Text, binary, and characters cut in two."""


def shown(source: bytes) -> bytes:
    """Each byte that is in no valid character as one ``?``, the slow and plain way."""
    out, at = b"", 0
    while at < len(source):
        for size in range(1, 5):
            char = source[at : at + size]
            try:
                char.decode()
            except UnicodeDecodeError:
                continue
            break
        else:
            char, size = b"?", 1
        out += char
        at += size
    return out


def shown_up_to(source: bytes, limit: int) -> bytes:
    """The same, ended at the last character that fits into ``limit`` bytes."""
    text = shown(source).decode()
    while len(text.encode()) > limit:
        text = text[:-1]
    return text.encode()
