# SPDX-License-Identifier: Apache-2.0
r"""Text of jobs for a terminal: nothing in it acts there.

Colours pass when they are asked for, and end where the line ends; else they are left out. Every other escape
sequence, control character, C1 control and change of writing direction is shown as ``\x1b``, ``\u202e`` and
the like: no title, cursor move, hidden text or answer-back comes from a job's output. A tab passes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .rewriting import width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x00-\x1f\x7f-\x9f]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,4}[0-Z\\^-~]"
)
_SHADE = r"(?:[34]8|58)(?:;5;\d{1,3}|;2;\d{1,3};\d{1,3};\d{1,3}|:[25](?::\d{0,3}){1,5})"
# Neither blinking (5, 6) nor hidden (8): what a job wrote can be read.
_ATTRIBUTE = r"0{0,2}[0-479]|4:[0-5]|2[1-9]|3[0-79]|4[0-79]|5[359]|9[0-7]|10[0-7]"
_COLOUR = re.compile(rf"\x1b\[(?:{_SHADE}|{_ATTRIBUTE})?(?:;(?:{_SHADE}|{_ATTRIBUTE})?){{0,15}}m", re.ASCII)
_ACTS = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_RESET = "\x1b[0m"
_FOUND, _FOUND_END = "\x1b[7m", "\x1b[27m"


def plain(text: str) -> str:
    """What people read of a line: without colours and other escape sequences."""
    return _SEQUENCE.sub("", text) if "\x1b" in text or not text.isascii() else text


def safe(text: str, *, colour: bool = False, found: Sequence[tuple[int, int]] = ()) -> str:
    """A line, or a name, as it can be written to a terminal.

    Args:
        text: As the job wrote it.
        colour: Whether its colours pass.
        found: What is to be shown in reverse: starts and ends in ``plain(text)``, in order, not overlapping.
    """
    if not found and not _ACTS.search(text):
        return text
    line, at = _Line(colour, found), 0
    for sequence in _SEQUENCE.finditer(text):
        line.text(text[at : sequence.start()])
        line.sequence(sequence[0])
        at = sequence.end()
    line.text(text[at:])
    return line.end()


class _Line:
    """A safe line in the making."""

    def __init__(self, colour: bool, found: Sequence[tuple[int, int]]) -> None:
        self._colour = colour
        self._coloured = False
        self._parts: list[str] = []
        self._edges = [edge for span in reversed(found) for edge in reversed(span)]
        self._at = 0
        self._inside = False

    def text(self, text: str) -> None:
        start, self._at = self._at, self._at + len(text)
        # What begins where this text ends begins behind the colours that follow it.
        while self._edges and self._edges[-1] < self._at + self._inside:
            edge = self._edges.pop()
            self._inside = not self._inside
            self._parts += [_shown(text[: edge - start]), _FOUND if self._inside else _FOUND_END]
            text, start = text[edge - start :], edge
        self._parts.append(_shown(text))

    def sequence(self, sequence: str) -> None:
        if not _COLOUR.fullmatch(sequence):
            self._parts.append(_shown(sequence))
        elif self._colour:
            self._coloured = True
            # It may have ended the reverse.
            self._parts.append(sequence + (_FOUND if self._inside else ""))

    def end(self) -> str:
        if self._inside:
            self._parts.append(_FOUND_END)
        return "".join(self._parts) + (_RESET if self._coloured else "")


def _shown(text: str) -> str:
    return _ACTS.sub(lambda char: char[0].encode("unicode_escape").decode(), text)


def fit(text: str, columns: int) -> str:
    """As much of a safe text as fits into ``columns``; its colours are ended."""
    parts, column = [], 0
    for piece in _clusters(text):
        if len(piece) > 1:
            parts.append(piece)
            continue
        column += 8 - column % 8 if piece == "\t" else width(piece)
        if column > columns:
            return "".join(parts) + (_RESET if "\x1b" in text else "")
        parts.append(piece)
    return text


def _clusters(text: str) -> Iterator[str]:
    """Its colours, and each character."""
    at = 0
    for sequence in _SEQUENCE.finditer(text):
        yield from text[at : sequence.start()]
        yield sequence[0]
        at = sequence.end()
    yield from text[at:]
