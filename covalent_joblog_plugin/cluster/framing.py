# SPDX-License-Identifier: Apache-2.0
r"""Two streams in one log, and back, byte for byte.

The log of a container is one text of lines: Kubernetes merges stdout and stderr, containerd drops a CR before
a newline and holds an unfinished line back. So our runner in the pod writes both streams to one descriptor,
with marks that most terminals do not show:

``\x1d`` at a line's start
    The line is stderr's.
``\x1c`` at a line's start, before ``\x1c`` or ``\x1d``
    Escape: the user's stdout line begins with that byte.
``\x1e`` before the newline
    No newline here in the user's text: it goes on.
``\x1f`` before the newline
    The newline is the user's, and so is the CR, ``\x1e`` or ``\x1f`` before this mark.
``\x1c@STDOUT STDERR`` as a line
    So many bytes of each stream stand before this line. After a gap the loss is known exactly.
``\x1c#SEQ/N CRC BASE64`` as a line
    Part of the result. The user cannot forge it, because a leading ``\x1c`` is escaped.

Standard library only, for Python 3.8 and later: this file travels to the pod.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Iterator, NamedTuple, Union

LINE_BYTES = 12 * 1024
"""Longest piece of a line: containerd cuts records at 16,384 bytes."""
PENDING_SECONDS = 0.5
"""An unfinished line is shown after this time."""
MARK_BYTES = 256 * 1024
MARK_SECONDS = 10.0
"""A position mark follows at the latest after so much output, and so long after unmarked output."""
HELD_BYTES = 1 << 20
"""Text after a gap that waits for a position mark."""

_SPECIAL = re.compile(rb"[\x1c-\x1f]|\r\n")
_MARKS = re.compile(rb"[\x1c-\x1f]")
_POSITION = re.compile(rb"\x1c@(\d+) (\d+)")
_FRAME = re.compile(rb"\x1c#(\d+)/(\d+) ([0-9a-f]{8}) ([A-Za-z0-9+/=]*)")
_AMBIGUOUS = (b"\r", b"\x1e", b"\x1f")


class Text(NamedTuple):
    """Bytes of a stream: 1 is stdout, 2 is stderr."""

    stream: int
    data: bytes


class Lost(NamedTuple):
    """Bytes of a stream are missing here; ``size`` is None where it cannot be known how many."""

    stream: int
    size: int | None


class Frame(NamedTuple):
    """Part ``seq`` of ``n`` of the result, ``seq`` from 1 on."""

    seq: int
    n: int
    payload: bytes


Event = Union[Text, Lost, Frame]


class Encoder:
    """Merges two streams into one text; ``now`` is a monotonic clock's seconds."""

    def __init__(self) -> None:
        self.sizes = [0, 0]
        self._hashes = [hashlib.sha256(), hashlib.sha256()]
        self._emitted = [0, 0]
        self._pending = b""
        self._stream = 1
        self._pending_since = 0.0
        self._unmarked = 0
        self._unmarked_since = 0.0
        self._begun = False

    def sha256(self) -> tuple[str, str]:
        """Of each stream so far, hexadecimal."""
        return self._hashes[0].hexdigest(), self._hashes[1].hexdigest()

    def feed(self, stream: int, data: bytes, now: float) -> bytes:
        """What to write for more bytes of a stream; the last, unfinished line may stay behind."""
        parts = [self._start()]
        self.sizes[stream - 1] += len(data)
        self._hashes[stream - 1].update(data)
        if self._pending and stream != self._stream:
            parts.append(self._continue())
        if not self._pending:
            self._pending_since = now
        text = self._pending + data
        self._stream = stream
        whole = text.rfind(b"\n") + 1
        if whole:
            self._pending_since = now
            parts.append(self._lines(text[:whole]))
        self._pending = text[whole:]
        while len(self._pending) > LINE_BYTES:
            piece, self._pending = self._pending[:LINE_BYTES], self._pending[LINE_BYTES:]
            parts.append(self._line(piece, b"\x1e\n"))
        parts.append(self._mark(now))
        return b"".join(parts)

    def due(self) -> float | None:
        """When ``tick`` has something to write, on the clock of ``now``; None for never."""
        times = [self._pending_since + PENDING_SECONDS] if self._pending else []
        if self._unmarked:
            times.append(self._unmarked_since + MARK_SECONDS)
        return min(times) if times else None

    def tick(self, now: float) -> bytes:
        """What to write because of the time."""
        shown = self._pending and now >= self._pending_since + PENDING_SECONDS
        return (self._continue() if shown else b"") + self._mark(now)

    def finish(self) -> bytes:
        """The rest, with a last position mark."""
        return self._start() + (self._continue() if self._pending else b"") + self._position()

    @staticmethod
    def frames(payload: bytes) -> Iterator[bytes]:
        """The result as lines."""
        size = LINE_BYTES * 3 // 4 - 60
        n = max(1, -(-len(payload) // size))
        for seq in range(n):
            part = payload[seq * size : (seq + 1) * size]
            yield b"\x1c#%d/%d %08x %s\n" % (seq + 1, n, binascii.crc32(part), base64.b64encode(part))

    def _start(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        return self._position()

    def _position(self) -> bytes:
        self._unmarked = 0
        return b"\x1c@%d %d\n" % (self._emitted[0], self._emitted[1])

    def _mark(self, now: float) -> bytes:
        if not self._unmarked:
            self._unmarked_since = now
            return b""
        due = self._unmarked >= MARK_BYTES or now >= self._unmarked_since + MARK_SECONDS
        return self._position() if due else b""

    def _count(self, size: int) -> None:
        self._emitted[self._stream - 1] += size
        self._unmarked += size

    def _continue(self) -> bytes:
        piece, self._pending = self._pending, b""
        return self._line(piece, b"\x1e\n")

    def _line(self, piece: bytes, end: bytes) -> bytes:
        self._count(len(piece) + (end != b"\x1e\n"))
        if self._stream == 2:
            return b"\x1d" + piece + end
        return (b"\x1c" if piece[:1] in (b"\x1c", b"\x1d") else b"") + piece + end

    def _lines(self, text: bytes) -> bytes:
        """Whole lines."""
        lines = text.split(b"\n")[:-1]
        if not _SPECIAL.search(text) and len(max(lines, key=len)) <= LINE_BYTES:
            self._count(len(text))
            return text if self._stream == 1 else b"\x1d" + text[:-1].replace(b"\n", b"\n\x1d") + b"\n"
        parts = []
        for line in lines:
            rest = line
            while len(rest) > LINE_BYTES:
                parts.append(self._line(rest[:LINE_BYTES], b"\x1e\n"))
                rest = rest[LINE_BYTES:]
            parts.append(self._line(rest, b"\x1f\n" if rest[-1:] in _AMBIGUOUS else b"\n"))
        return b"".join(parts)


class Decoder:
    """Takes the text apart again; also one with gaps, and one whose beginning is gone.

    Text after a gap is held until a position mark tells what is missing. Text before the first mark is held
    as well: if that mark says 0 0 it is somebody else's (an entry point's), otherwise what is left of ours.
    """

    def __init__(self) -> None:
        self._sizes = [0, 0]
        self._hashes = [hashlib.sha256(), hashlib.sha256()]
        self._tail = b""
        self._held: list[Event] | None = []
        self._held_bytes = 0
        self._marked = False

    def counted(self) -> tuple[tuple[int, str], tuple[int, str]]:
        """Bytes and hexadecimal sha256 of stdout and of stderr, as far as they came and were ours."""
        first, second = self._hashes
        return (self._sizes[0], first.hexdigest()), (self._sizes[1], second.hexdigest())

    def feed(self, text: bytes) -> list[Event]:
        """More of the log, without Kubernetes' stamps, cut anywhere."""
        text = self._tail + text
        whole = text.rfind(b"\n") + 1
        self._tail = text[whole:]
        return self._decode(text[:whole]) if whole else []

    def gap(self) -> list[Event]:
        """Text may be missing here; the next text begins at a line's start."""
        self._tail = b""
        # A gap in what is held already: one answer serves both, as the next mark counts them together.
        if self._held is None:
            self._held, self._held_bytes = [], 0
        return []

    def end(self, sizes: tuple[int, int] | None) -> list[Event]:
        """No more text comes.

        Args:
            sizes: Bytes of stdout and stderr that the runner counted; None where it could not tell.
        """
        events: list[Event] = []
        if self._tail:
            tail, self._tail = self._tail, b""
            events += self._decode(tail)
        if sizes is not None and (self._marked or any(sizes)):
            return events + self._settle(sizes)
        return events + self._release(lost=None if self._marked else ())

    def _decode(self, text: bytes) -> list[Event]:
        if not _MARKS.search(text):
            return self._text(1, text)
        events: list[Event] = []
        run: list[bytes] = []
        stream = 1
        for line in text.splitlines(keepends=True) if b"\r" not in text else _lines(text):
            now, data = _line(line)
            if now and now == stream:
                run.append(data)
                continue
            if run:
                events += self._text(stream, b"".join(run))
                run = []
            if now:
                stream, run = now, [data]
            else:
                events += self._note(line)
        return events + self._text(stream, b"".join(run)) if run else events

    def _note(self, line: bytes) -> list[Event]:
        if at := _POSITION.match(line):
            return self._settle((int(at[1]), int(at[2])))
        if found := _FRAME.match(line):
            payload = base64.b64decode(found[4])
            if binascii.crc32(payload) == int(found[3], 16):
                return [Frame(int(found[1]), int(found[2]), payload)]
        return []

    def _text(self, stream: int, data: bytes) -> list[Event]:
        if self._held is None:
            return [self._count(Text(stream, data))]
        self._held.append(Text(stream, data))
        self._held_bytes += len(data)
        return self._release(lost=None) if self._held_bytes > HELD_BYTES else []

    def _count(self, text: Text) -> Text:
        self._sizes[text.stream - 1] += len(text.data)
        self._hashes[text.stream - 1].update(text.data)
        return text

    def _settle(self, sizes: tuple[int, int]) -> list[Event]:
        """The runner has written so many bytes up to here."""
        first = not self._marked
        self._marked = True
        held, self._held = self._held or [], None
        if first and not any(sizes):
            return held  # somebody else's: not counted
        texts = [event for event in held if isinstance(event, Text)]
        lost = self._missing(sizes, texts)
        if texts and min(lost) < 0:
            # The rest of a line that a rotation cut: whose it is cannot be known.
            whole = texts[0].data.partition(b"\n")[2]
            texts[0] = Text(texts[0].stream, whole)
            lost = self._missing(sizes, texts)
        events: list[Event] = [Lost(stream, size) for stream, size in enumerate(lost, 1) if size > 0]
        events += [self._count(text) for text in texts if text.data]
        self._sizes = list(sizes)
        return events

    def _missing(self, sizes: tuple[int, int], texts: list[Text]) -> list[int]:
        here = [sum(len(text.data) for text in texts if text.stream == stream) for stream in (1, 2)]
        return [sizes[n] - self._sizes[n] - here[n] for n in (0, 1)]

    def _release(self, lost: tuple[()] | None) -> list[Event]:
        """What is held, where no mark will tell; ``lost`` None says that something may be missing."""
        if self._held is None:
            return []
        held, self._held, self._held_bytes = self._held, None, 0
        events: list[Event] = [Lost(stream, None) for stream in (1, 2)] if lost is None else []
        return events + [self._count(event) if isinstance(event, Text) else event for event in held]


def _lines(text: bytes) -> Iterator[bytes]:
    """Lines with their newlines; ``splitlines`` takes a CR for one, too."""
    at = 0
    while at < len(text):
        end = text.find(b"\n", at) + 1 or len(text)
        yield text[at:end]
        at = end


def _line(line: bytes) -> tuple[int, bytes]:
    """Stream and text of one line; stream 0 is a note of the runner's."""
    first = line[:1]
    stream = 1
    if first == b"\x1d":
        stream, line = 2, line[1:]
    elif first == b"\x1c":
        if line[1:2] not in (b"\x1c", b"\x1d"):
            return 0, b""
        line = line[1:]
    if line.endswith(b"\x1e\n"):
        return stream, line[:-2]
    if line.endswith(b"\x1f\n"):
        return stream, line[:-2] + b"\n"
    return stream, line


def source() -> bytes:
    """This file, which travels to the pod."""
    with open(__file__, "rb") as file:  # noqa: PTH123 - pathlib costs the pod time
        return file.read()
