# SPDX-License-Identifier: Apache-2.0
"""The log of a container as Kubernetes sends it, each line with a stamp, and the last of it for comparing.

A line begins with 30 to 35 characters of time and a space. A line that does not is no text of the container
but a notice of the kubelet's; what follows text without a newline goes on in the same line.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(?:Z|[+-]\d\d:\d\d)) ")
_STAMPS = re.compile(rb"^" + STAMP.pattern, re.MULTILINE)
LONGEST_STAMP = 36
WINDOW_SECONDS = 20
WINDOW_BYTES = 16 << 20
DISORDER = 10**9
"""Nanoseconds by which stamps of two streams may be out of order; far less was seen."""
_CHUNK_BYTES = 64 << 10


@lru_cache(maxsize=64)
def _seconds(text: bytes) -> int:
    return int(datetime.fromisoformat(text.decode().replace("Z", "+00:00")).timestamp())


def nanoseconds(stamp: bytes) -> int:
    """Unix nanoseconds of a stamp without its space."""
    return _seconds(stamp[:19] + stamp[29:]) * 10**9 + int(stamp[20:29])


class Piece(NamedTuple):
    """A stamp (without its space), text of one line, or a notice."""

    kind: Literal["stamp", "text", "notice"]
    data: bytes


class Cutter:
    """Cuts one answer into pieces, wherever its chunks end."""

    def __init__(self) -> None:
        self._head = b""
        self._kind: Literal["text", "notice"] = "text"
        self.at_start = True
        """Whether the next byte begins a line; an incomplete stamp counts for nothing yet."""

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        """The pieces of one more chunk."""
        chunk, self._head, at = self._head + chunk, b"", 0
        while at < len(chunk):
            if self.at_start:
                stamp = STAMP.match(chunk, at)
                begins = stamp.end() if stamp else at + LONGEST_STAMP - 1
                if begins >= len(chunk):
                    self._head = chunk[at:]
                    return
                self._kind, self.at_start = ("text" if stamp else "notice"), False
                if stamp:
                    at = stamp.end()
                    yield Piece("stamp", stamp[1])
                    continue
            end = chunk.find(b"\n", at) + 1
            piece = Piece(self._kind, chunk[at : end or len(chunk)])
            self.at_start, at = bool(end), end or len(chunk)
            yield piece

    def rest(self) -> bytes:
        """What is held back when no more comes: a stamp whose line was cut off, or a short notice."""
        head, self._head = self._head, b""
        return head

    def strip(self, chunk: bytes, newest: bytes) -> tuple[bytes, bytes] | None:
        """The quick way for a chunk of nothing but text: the same up to where it can be told, and its text.

        None where it must be cut: a notice is in it, or a line older than the one before, which is at first
        ``newest``. Nothing has happened then.
        """
        if self._kind == "notice" and not self.at_start:
            return None
        whole, head = _held_back(self._head + chunk, at_start=self.at_start)
        first = 0 if self.at_start else whole.find(b"\n") + 1 or len(whole)
        begun = whole[first:] if first else whole
        lines = begun.count(b"\n") + (not begun.endswith(b"\n")) if begun else 0
        parts = _STAMPS.split(begun)
        stamps = [newest, *parts[1::2]]
        # Within one zone, and else they are compared as times, stamps sort as text.
        if len(stamps) != lines + 1 or stamps != sorted(stamps):
            return None
        if whole:
            self.at_start, self._kind = whole.endswith(b"\n"), "text"
        self._head = head
        return whole, b"".join((whole[:first], *parts[::2]))


def _held_back(text: bytes, *, at_start: bool) -> tuple[bytes, bytes]:
    """``text`` up to a last stamp that is not complete or has no text yet, and the rest."""
    start = text.rfind(b"\n") + 1
    if start == 0 and not at_start:
        return text, b""
    stamp = STAMP.match(text, start)
    begins = stamp.end() if stamp else start + LONGEST_STAMP - 1
    return (text[:start], text[start:]) if begins >= len(text) else (text, b"")


@dataclass(slots=True)
class _Chunk:
    """A piece of the stamped text; ``newest`` is the last line begun in or before it, Unix nanoseconds."""

    stamped: bytearray
    at_start: bool
    offset: int
    newest: int


class Known(NamedTuple):
    """What is known of the text taken, at one moment.

    Attributes:
        lines: Where lines begin (offset in the text, stamp); never empty.
        text: The end of the text.
        base: Offset of its first byte.
        dropped: Lines up to this stamp (Unix nanoseconds) were taken and may be forgotten.
    """

    lines: list[tuple[int, bytes]]
    text: bytes
    base: int
    dropped: int

    @property
    def size(self) -> int:
        """Bytes taken."""
        return self.base + len(self.text)

    def part(self, start: int, end: int) -> bytes:
        """Text between two offsets, as far as it is kept."""
        return self.text[max(0, start - self.base) : max(0, end - self.base)]

    def end_of(self, number: int) -> int:
        """Where a line ends."""
        return self.lines[number + 1][0] if number + 1 < len(self.lines) else self.size


@dataclass(slots=True)
class Window:
    """The end of what was taken, with its stamps: the last seconds of it.

    It is kept as it came, and parsed when a read has to be compared.

    Attributes:
        size: Bytes of text taken so far, without stamps.
        stamped: The same with them; of short lines they are the most.
        newest: Stamp of the line that began last; empty before the first.
        first: Stamp of the first line of all.
    """

    size: int = 0
    stamped: int = 0
    newest: bytes = b""
    first: bytes = b""
    _newest_offset: int = 0
    _dropped: int = 0
    _chunks: deque[_Chunk] = field(default_factory=deque)
    _bytes: int = 0
    _at_start: bool = True

    def take(self, stamped: bytes, size: int) -> None:
        """Add text with its stamps, ``size`` bytes of it without them; it ends inside no stamp."""
        if not stamped:
            return
        at_start, offset = self._at_start, self.size
        self.size += size
        self.stamped += len(stamped)
        self._at_start = stamped.endswith(b"\n")
        start = stamped.rfind(b"\n", 0, len(stamped) - 1) + 1
        if (start or at_start) and (stamp := STAMP.match(stamped, start)):
            self.newest, self._newest_offset = stamp[1], self.size - (len(stamped) - stamp.end())
        if not self.first and (stamp := STAMP.match(stamped)):
            self.first = stamp[1]
        newest = nanoseconds(self.newest) if self.newest else 0
        last = self._chunks[-1] if self._chunks else None
        goes_on = last and at_start == last.stamped.endswith(b"\n") and newest - last.newest < 10**9
        if last and goes_on and len(last.stamped) < _CHUNK_BYTES:
            last.stamped += stamped
            last.newest = newest
        else:
            self._chunks.append(_Chunk(bytearray(stamped), at_start, offset, newest))
        self._bytes += len(stamped)
        self._prune(newest - WINDOW_SECONDS * 10**9)

    def begin_line(self) -> None:
        """What comes next begins with a stamp, even where the last line has no end: its file had one."""
        self._at_start = True

    def _prune(self, oldest: int) -> None:
        while len(self._chunks) > 1 and (self._chunks[0].newest < oldest or self._bytes > WINDOW_BYTES):
            chunk = self._chunks.popleft()
            self._bytes -= len(chunk.stamped)
            self._dropped = max(self._dropped, chunk.newest)

    def since(self, back: int) -> int | None:
        """Whole Unix seconds at which to begin the next read; None for the start of the log.

        The API knows no fractions, and stamps of two streams come slightly out of order.
        """
        return nanoseconds(self.newest) // 10**9 - back if self.newest else None

    def holds(self, stamp: bytes) -> bool | None:
        """Whether a line with that stamp was taken; None where that is forgotten."""
        begin, earliest = stamp + b" ", nanoseconds(stamp) - DISORDER
        for chunk in reversed(self._chunks):
            if chunk.newest < earliest:
                break
            if (chunk.at_start and chunk.stamped.startswith(begin)) or b"\n" + begin in chunk.stamped:
                return True
        return None if nanoseconds(stamp) <= self._dropped else False

    def known(self) -> Known:
        """What there is to compare with; takes a tenth of a second when it is full."""
        lines: list[tuple[int, bytes]] = []
        texts: list[bytes] = []
        base = self._chunks[0].offset if self._chunks else self.size
        for chunk in self._chunks:
            at, end, stamped = chunk.offset, 0, bytes(chunk.stamped)
            for stamp in _STAMPS.finditer(stamped):
                if stamp.start() or chunk.at_start:
                    texts.append(stamped[end : stamp.start()])
                    at += len(texts[-1])
                    lines.append((at, stamp[1]))
                    end = stamp.end()
            texts.append(stamped[end:])
        if not lines:  # a line longer than the window
            lines.append((self._newest_offset, self.newest))
        return Known(lines, b"".join(texts), base, self._dropped)


class Text(NamedTuple):
    """Where text goes that is taken: the window, and whoever wants it."""

    window: Window
    text: Callable[[bytes], None]
    gap: Callable[[str], None]
    gaps: list[tuple[int, int]]
    """Between which stamps (Unix nanoseconds) there were gaps; the last few."""

    def take(self, stamped: bytes, plain: bytes) -> None:
        """More text, with its stamps and without."""
        self.window.take(stamped, len(plain))
        if plain:
            self.text(plain)

    def lose(self, after: int, before: int, why: str) -> None:
        """Text between two stamps may be missing here."""
        self.gaps[:-20] = []
        self.gaps.append((after, before))
        self.gap(why)
