# SPDX-License-Identifier: Apache-2.0
"""Bytes as the job wrote them → bytes Covalent's client can decode, of the same length.

Covalent's client decodes a node's stdout and stderr strictly as UTF-8, the whole file at once: one bad byte,
or a character cut in two at the end, and the result cannot be loaded. So every byte that is not part of a
valid character becomes one ``?``, and an unfinished character at the end (at most 3 bytes) is held back until
it is finished, or known not to be. Lengths stay equal, therefore a cursor counts bytes of either. What is
valid is what Python's strict decoder accepts: NUL and CR pass, surrogates encoded in UTF-8 do not. The
outcome depends on the bytes alone, not on how they were cut into pieces.
"""

from __future__ import annotations

from codecs import utf_8_decode
from dataclasses import dataclass

UNFINISHED_BYTES = 3
"""The most bytes an unfinished character can have."""


@dataclass(frozen=True, slots=True)
class Carry:
    """Bytes taken and not yet written out.

    Attributes:
        broken: Bytes of a character that will not be finished, because a break follows them.
        held: The beginning of a character whose end may still come.
    """

    broken: bytes = b""
    held: bytes = b""

    def __len__(self) -> int:
        return len(self.broken) + len(self.held)

    def break_off(self) -> Carry:
        """The same after a break: what is held will not be finished."""
        return Carry(self.broken + self.held)


@dataclass(frozen=True, slots=True)
class Piece:
    """What can be written out.

    Attributes:
        source: Bytes as the job wrote them.
        text: The same bytes, valid UTF-8, of the same length.
        first_bad: Offset in ``source`` of the first byte that differs; None when none does.
        carry: What stays behind.
    """

    source: bytes
    text: bytes
    first_bad: int | None
    carry: Carry


def sanitise(carry: Carry, data: bytes) -> Piece:
    """Add ``data`` to what was carried over and return what can be written out."""
    source = carry.broken + carry.held + data if carry else data
    skip = len(carry.broken)
    text, used, bad = _valid(source[skip:] if skip else source)
    end = skip + used
    if skip:
        text, bad = b"?" * skip + text, 0
    held = Carry(b"", source[end:])
    return Piece(source[:end] if held else source, text, bad, held)


def _valid(data: bytes) -> tuple[bytes, int, int | None]:
    """Valid text, how many bytes of ``data`` it stands for, and the offset of the first bad one."""
    try:
        used = utf_8_decode(data, "strict", False)[1]
    except UnicodeDecodeError as error:
        # The decoder makes one lone surrogate of each bad byte, the encoder one "?" of each surrogate; both
        # in C, so that a log full of bad bytes costs no more than a few passes over it.
        text, used = utf_8_decode(data, "surrogateescape", False)
        return text.encode("utf-8", "replace"), used, error.start
    return data[:used] if used < len(data) else data, used, None


def cut(text: bytes, room: int) -> int:
    """The last character boundary of ``text`` (valid UTF-8) within its first ``room`` bytes."""
    if len(text) <= room:
        return len(text)
    at = max(room, 0)
    while at and text[at] & 0xC0 == 0x80:
        at -= 1
    return at


def unfinished(tail: bytes) -> int:
    """How many bytes at the end of valid text, of which ``tail`` is the end, are an unfinished character.

    ``tail`` needs the last ``UNFINISHED_BYTES`` bytes, or all where there are fewer.
    """
    for size in range(1, min(UNFINISHED_BYTES, len(tail)) + 1):
        first = tail[-size]
        if first & 0xC0 != 0x80:
            need = 4 if first >= 0xF0 else 3 if first >= 0xE0 else 2 if first >= 0xC0 else 1
            return size if size < need else 0
    return 0
