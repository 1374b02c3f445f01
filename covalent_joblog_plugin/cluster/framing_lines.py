# SPDX-License-Identifier: Apache-2.0
"""The lines of a framed log, one by one and without what came before; ``framing_encoder`` has the rules."""

from __future__ import annotations

import base64
import re
import zlib
from typing import NamedTuple

from .framing_encoder import STDERR, STDOUT

MARK = re.compile(rb"\x1c@(\d{1,20}) (\d{1,20})\n")
LATER_MARK = re.compile(rb"(?<=\n)" + MARK.pattern)
"""A position that surely begins a line."""
LONGEST_MARK = 48
"""Bytes."""
SUFFIXES = (b"\x1e", b"\x1f")

_BASE64 = rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
_FRAME = re.compile(rb"\x1c#(\d{1,9})/(\d{1,9}) ([0-9a-f]{8}) (" + _BASE64 + rb")\n")
_CONTROL = (b"\x1c@", b"\x1c#")
_END_OF_OURS = re.compile(rb"\n|@?\d*(?: \d*)?\n")
_ESCAPE = re.compile(rb"^\x1c(?=[\x1c\x1d])", re.MULTILINE)
_SUFFIX = re.compile(rb"\x1e\n|\x1f(?=\n)")
_STDOUT_ENDS = re.compile(rb"\n(?=\x1d|\x1c[@#])")
_STDERR_ENDS = re.compile(rb"\n(?!\x1d)")


class Text(NamedTuple):
    """Bytes of stream 1 (stdout) or 2 (stderr), as they were written."""

    stream: int
    data: bytes


class Lost(NamedTuple):
    """So many bytes of a stream are missing here; None where it cannot be known how many, if any."""

    stream: int
    size: int | None


class Frame(NamedTuple):
    """Part ``seq`` of ``n`` of a result, ``seq`` from 1 on; its checksum is right."""

    seq: int
    n: int
    payload: bytes


class Position(NamedTuple):
    """Bytes of each stream up to here."""

    stdout: int
    stderr: int


Event = Text | Lost | Frame


def has_marks(text: bytes | bytearray) -> bool:
    """Whether any of our bytes is in it."""
    # Four times memchr, a tenth of what a regular expression takes.
    return b"\x1c" in text or b"\x1d" in text or b"\x1e" in text or b"\x1f" in text


def may_be_control(line: bytes) -> bool:
    """Whether the beginning of a line is that of a position or frame, or too short to tell."""
    return line == b"\x1c" or line.startswith(_CONTROL)


def begun(line: bytes) -> tuple[int, bytes]:
    """Stream of a line, and the line without the mark at its start."""
    if line.startswith(b"\x1d"):
        return STDERR, line[1:]
    return STDOUT, line[1:] if line.startswith((b"\x1c\x1c", b"\x1c\x1d")) else line


def decode(text: bytes) -> list[Event | Position]:
    """Whole lines, run by run of one stream: most text is handled many lines at a time."""
    if not has_marks(text):
        return [Text(STDOUT, text)] if text else []
    found: list[Event | Position] = []
    at = 0
    while at < len(text):
        if text.startswith(_CONTROL, at):
            end = text.index(b"\n", at) + 1
            found += _control(text[at:end])
        elif text.startswith(b"\x1d", at):
            ends = _STDERR_ENDS.search(text, at)
            end = ends.end() if ends else len(text)
            found.append(Text(STDERR, unmarked(text[at + 1 : end].replace(b"\n\x1d", b"\n"))))
        else:
            ends = _STDOUT_ENDS.search(text, at)
            end = ends.end() if ends else len(text)
            run = text[at:end]
            found.append(Text(STDOUT, unmarked(_ESCAPE.sub(b"", run) if b"\x1c" in run else run)))
        at = end
    return found


def unmarked(text: bytes) -> bytes:
    """Lines without the marks at their ends."""
    return _SUFFIX.sub(b"", text) if b"\x1e" in text or b"\x1f" in text else text


def _control(line: bytes) -> list[Event | Position]:
    if position := MARK.fullmatch(line):
        return [Position(int(position[1]), int(position[2]))]
    if frame := _FRAME.fullmatch(line):
        payload = base64.b64decode(frame[4])
        right = zlib.crc32(payload) == int(frame[3], 16)
        return [Frame(int(frame[1]), int(frame[2]), payload)] if right else []
    return [Text(STDOUT, line)]  # of somebody else's: the encoder writes no such line


def whole_lines(pieces: list[bytearray]) -> tuple[list[bytes], list[Event | Position]]:
    """The first line of each piece, which may be the end of one, and what the others hold."""
    firsts, found = [], []
    for piece in pieces:
        begin = piece.find(b"\n") + 1 or len(piece)
        firsts.append(bytes(piece[:begin]))
        end = max(begin, piece.rfind(b"\n") + 1)
        found += decode(bytes(piece[begin:end]))
        tail = bytes(piece[end:])
        if not may_be_control(tail):
            stream, tail = begun(tail)
            found.append(Text(stream, tail[:-1] if tail.endswith(SUFFIXES) else tail))
    return firsts, found


def certain(line: bytes, missing: list[int]) -> Text | None:
    """Text of the first line after a gap, if only one reading of it fits what is missing.

    It may be a line, or the end of one of either stream, or of a line of the encoder's own.
    """
    if not line.endswith(b"\n") and line.endswith(SUFFIXES):
        return None
    stream, content = begun(line)
    readings = {Text(STDOUT, unmarked(line)), Text(STDERR, unmarked(line)), Text(stream, unmarked(content))}
    # A newline alone may be that of an ``\x1e``, digits the end of a position.
    if may_be_control(line) or _END_OF_OURS.fullmatch(line):
        readings.add(Text(STDOUT, b""))
    fit = [r for r in readings if len(r.data) <= max(0, missing[r.stream - 1])]
    return fit[0] if len(fit) == 1 and fit[0].data else None
