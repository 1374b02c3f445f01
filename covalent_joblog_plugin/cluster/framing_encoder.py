# SPDX-License-Identifier: Apache-2.0
r"""Two streams as one log of lines, so that both can be had back byte for byte.

The log of a container knows no streams, shows unfinished lines late (at their newline, at 16 KiB or at the
end), loses the CR of CRLF (containerd) and may lose text where it is rotated. So our runner in the pod writes
both streams to one descriptor, with marks that most terminals do not show:

``\x1d`` at a line's start
    The line is stderr's; others are stdout's.
``\x1c`` at a line's start, before ``\x1c`` or ``\x1d``
    The user's stdout goes on with that byte.
``\x1e`` at a line's end
    There is no newline in the user's text: it goes on in the next line of that stream.
``\x1f`` at a line's end
    The newline is the user's, and the byte before this one is a ``\r``, ``\x1e`` or ``\x1f`` of the user's.
a line ``\x1c@STDOUT STDERR``
    Position: so many bytes of each stream stand before this line. After a gap it tells what is missing.
a line ``\x1c#SEQ/N CRC32 BASE64``
    A frame: part SEQ of N (from 1) of a result. No text of the user's begins like that, it would be escaped.

What is read is written at once; ``\x1e`` and its newline follow when the line stays unfinished. Standard
library only and for Python 3.8: this file travels into the pod, where it is called ``framing.py``.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STDOUT, STDERR = 1, 2
LINE_BYTES = 12 * 1024
"""Most text in a line: with its marks it stays below the 16 KiB at which container runtimes cut."""
CLOSE_AFTER = 0.5
"""Seconds after which unfinished text is shown."""
MARK_BYTES, MARK_AFTER = 256 * 1024, 10.0
"""Bytes of text and seconds from one position to the next; without text there is none."""
FRAME_BYTES = 9000
"""Bytes in a frame: 12,000 characters of base64."""

_GO_ON = b"\x1e\n"


class Counts:
    """Bytes and sha256 of both streams."""

    def __init__(self) -> None:
        self.sizes = [0, 0]
        self._hashes = (hashlib.sha256(), hashlib.sha256())

    def add(self, stream: int, data: bytes) -> None:
        """More of a stream."""
        self.sizes[stream - 1] += len(data)
        self._hashes[stream - 1].update(data)

    def sha256(self) -> tuple[str, str]:
        """Of stdout and stderr so far, hexadecimal."""
        return self._hashes[0].hexdigest(), self._hashes[1].hexdigest()


class Encoder:
    """Streams → lines; ``now`` is seconds of any monotonic clock."""

    def __init__(self) -> None:
        self._counts = Counts()
        self._begun = False
        self._open = 0  # the stream whose unfinished line was written last
        self._length = 0  # bytes of that line
        self._last = b""  # and its last byte
        self._close_at = 0.0
        self._mark_at: float | None = None
        self._unmarked = 0  # bytes since the last position

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes of stdout and stderr so far, as they were given."""
        return self._counts.sizes[0], self._counts.sizes[1]

    def sha256(self) -> tuple[str, str]:
        """Of stdout and stderr so far, as they were given, hexadecimal."""
        return self._counts.sha256()

    def feed(self, stream: int, data: bytes, now: float) -> bytes:
        """What to write for more bytes of a stream (1 or 2)."""
        out = [] if self._begun else [self._begin()]
        for start in range(0, len(data), MARK_BYTES):
            piece = data[start : start + MARK_BYTES]
            self._counts.add(stream, piece)
            out.append(self._lines(stream, piece, now))
            self._unmarked += len(piece)
            if self._mark_at is None:
                self._mark_at = now + MARK_AFTER
            out.append(self._timely(now))
        return b"".join(out)

    def due(self) -> float | None:
        """When ``tick`` has something to write although no text comes; None for never."""
        if not self._begun:
            return 0.0
        if self._open and self._mark_at is not None:
            return min(self._close_at, self._mark_at)
        return self._mark_at

    def tick(self, now: float) -> bytes:
        """What to write because of the time."""
        return self._timely(now) if self._begun else self._begin()

    def finish(self) -> bytes:
        """The end of unfinished text, and the last position."""
        return (b"" if self._begun else self._begin()) + self._mark()

    def _begin(self) -> bytes:
        self._begun = True
        # Whoever wrote before us may have left a line unfinished.
        return _GO_ON + self._mark()

    def _timely(self, now: float) -> bytes:
        if self._mark_at is not None and (self._unmarked >= MARK_BYTES or now >= self._mark_at):
            return self._mark()
        return self._close() if self._open and now >= self._close_at else b""

    def _mark(self) -> bytes:
        self._mark_at, self._unmarked = None, 0
        return self._close() + b"\x1c@%d %d\n" % self.sizes

    def _close(self) -> bytes:
        text = _GO_ON if self._open else b""
        self._open, self._length, self._last = 0, 0, b""
        return text

    def _lines(self, stream: int, data: bytes, now: float) -> bytes:
        """The text as lines; the last one may stay unfinished."""
        first = data.find(b"\n") % (len(data) + 1)  # all of it where there is no newline
        done = b""
        if self._open and (self._open != stream or self._length + first > LINE_BYTES):
            done = self._close()
        text = _guarded(data)
        if data[:1] == b"\n" and self._last in (b"\r", b"\x1e", b"\x1f"):
            text = b"\x1f" + text
        text = _cut(text)
        marked = _marked(stream, text, begins=not self._open)
        if text.endswith(b"\n"):
            self._open, self._length, self._last = 0, 0, b""
            return done + marked
        end = text.rfind(b"\n") + 1
        if end or not self._open:
            self._open, self._length, self._close_at = stream, 0, now + CLOSE_AFTER
        self._length += len(text) - end
        self._last = text[-1:]
        return done + marked


def _guarded(data: bytes) -> bytes:
    r"""The text with a ``\x1f`` before each newline whose preceding byte would get lost or be misread."""
    for byte in (b"\x1f", b"\x1e", b"\r"):  # \x1f first: the others add some
        data = data.replace(byte + b"\n", byte + b"\x1f\n")
    return data


def _cut(text: bytes) -> bytes:
    """The text with no line longer than ``LINE_BYTES``."""
    parts, start, at = [], 0, 0
    while len(text) - at > LINE_BYTES:
        end = text.rfind(b"\n", at, at + LINE_BYTES + 1)
        if end >= 0:
            at = end + 1
        else:
            at += LINE_BYTES
            parts.append(text[start:at])
            start = at
    return _GO_ON.join([*parts, text[start:]]) if parts else text


def _marked(stream: int, text: bytes, *, begins: bool) -> bytes:
    """The lines with marks at their starts; ``begins`` says that the first one starts here."""
    if stream == STDERR:
        body, end = (text[:-1], b"\n") if text.endswith(b"\n") else (text, b"")
        return (b"\x1d" if begins else b"") + body.replace(b"\n", b"\n\x1d") + end
    if begins and text[:1] in (b"\x1c", b"\x1d"):
        text = b"\x1c" + text
    return text.replace(b"\n\x1c", b"\n\x1c\x1c").replace(b"\n\x1d", b"\n\x1c\x1d")


def frames(payload: bytes) -> Iterator[bytes]:
    """The lines that carry a result; they begin at a line's start, as after ``Encoder.finish``."""
    count = max(1, -(-len(payload) // FRAME_BYTES))
    for number in range(count):
        part = payload[number * FRAME_BYTES : (number + 1) * FRAME_BYTES]
        yield b"\x1c#%d/%d %08x %s\n" % (number + 1, count, zlib.crc32(part), base64.b64encode(part))
