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
    from collections.abc import Iterator

STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(?:Z|[+-]\d\d:\d\d)) ")
_STAMPS = re.compile(rb"^" + STAMP.pattern, re.MULTILINE)
LONGEST_STAMP = 36
WINDOW_SECONDS = 20
WINDOW_BYTES = 16 << 20


@lru_cache(maxsize=64)
def _seconds(text: bytes) -> int:
    return int(datetime.fromisoformat(text.decode().replace("Z", "+00:00")).timestamp())


def nanoseconds(stamp: bytes) -> int:
    """Unix nanoseconds of a stamp without its space."""
    return _seconds(stamp[:19] + stamp[29:]) * 10**9 + int(stamp[20:29])


class Piece(NamedTuple):
    """A stamp (without its space), text, or a notice."""

    kind: Literal["stamp", "text", "notice"]
    data: bytes


class Cutter:
    """Cuts what comes into pieces, wherever the chunks end."""

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
                if not stamp and len(chunk) - at < LONGEST_STAMP:
                    self._head = chunk[at:]
                    return
                self._kind, self.at_start = ("text" if stamp else "notice"), False
                if stamp:
                    yield Piece("stamp", stamp[1])
                    at = stamp.end()
                    continue
            end = chunk.find(b"\n", at) + 1
            yield Piece(self._kind, chunk[at : end or len(chunk)])
            self.at_start, at = bool(end), end or len(chunk)

    def rest(self) -> Iterator[Piece]:
        """What is held back when no more comes: the beginning of a stamp, or a short notice."""
        head, self._head = self._head, b""
        if head:
            yield Piece("notice", head)

    def strip(self, chunk: bytes) -> tuple[bytes, bytes] | None:
        """The quick way for a chunk of nothing but text: the same with its stamps, and without.

        None where it must be cut: a notice is in it. Nothing has happened then.
        """
        text = self._head + chunk
        if self._kind == "notice" and not self.at_start:
            return None
        whole, head = _held_back(text, at_start=self.at_start)
        begins = whole if self.at_start else whole[whole.find(b"\n") + 1 :] if b"\n" in whole else b""
        found = len(_STAMPS.findall(begins))
        if found != begins.count(b"\n") + bool(begins and not begins.endswith(b"\n")):
            return None
        plain = whole[: len(whole) - len(begins)] + _STAMPS.sub(b"", begins)
        if whole:
            self.at_start, self._kind = whole.endswith(b"\n"), "text"
        self._head = head
        return whole, plain


def _held_back(text: bytes, *, at_start: bool) -> tuple[bytes, bytes]:
    """``text`` up to a last stamp that is not complete, and the rest."""
    start = text.rfind(b"\n") + 1
    if start == 0 and not at_start:
        return text, b""
    if STAMP.match(text, start) or len(text) - start >= LONGEST_STAMP:
        return text, b""
    return text[:start], text[start:]


@dataclass(slots=True)
class _Chunk:
    stamped: bytes
    at_start: bool
    offset: int
    newest: int


@dataclass(slots=True)
class Window:
    """The end of what has been taken, with its stamps.

    Attributes:
        size: Bytes of text taken so far, without stamps.
        newest: Stamp of the line that began last; empty before the first.
        pruned: Whether there was text before what is kept.
    """

    size: int = 0
    newest: bytes = b""
    pruned: bool = False
    _chunks: deque[_Chunk] = field(default_factory=deque)
    _bytes: int = 0
    _at_start: bool = True
    _pending: bytes = b""

    def take(self, stamped: bytes, size: int) -> None:
        """Add text with its stamps, ``size`` bytes of it without them."""
        if not stamped:
            return
        if stamp := self._last_stamp(stamped):
            self.newest = stamp
        newest = nanoseconds(self.newest) if self.newest else 0
        self._chunks.append(_Chunk(stamped, self._at_start, self.size, newest))
        self.size += size
        self._bytes += len(stamped)
        self._at_start = stamped.endswith(b"\n")
        self._prune(newest)

    def stamp(self, stamp: bytes) -> None:
        """A line begins; it counts when its first byte of text is there."""
        self._pending = stamp + b" "

    def text(self, data: bytes) -> None:
        """The line goes on, at most to its end."""
        pending, self._pending = self._pending, b""
        self.take(pending + data, len(data))

    def since(self, back: int) -> int | None:
        """Whole Unix seconds at which to begin the next read; None for the start.

        The API knows no fractions.
        """
        return nanoseconds(self.newest) // 10**9 - back if self.newest else None

    def lines(self) -> tuple[list[tuple[int, bytes]], bytes, int]:
        """Where the lines kept begin (offset, stamp), their text, and the offset of its first byte."""
        found: list[tuple[int, bytes]] = []
        texts: list[bytes] = []
        cutter = Cutter()
        base = at = self._chunks[0].offset if self._chunks else self.size
        if self._chunks:
            cutter.at_start = self._chunks[0].at_start
        for chunk in self._chunks:
            for kind, data in cutter.feed(chunk.stamped):
                if kind == "stamp":
                    found.append((at, data))
                else:
                    texts.append(data)
                    at += len(data)
        return found, b"".join(texts), base

    def _last_stamp(self, stamped: bytes) -> bytes:
        start = stamped.rfind(b"\n", 0, len(stamped) - 1) + 1
        if start == 0 and not self._at_start:
            return b""
        match = STAMP.match(stamped, start)
        return match[1] if match else b""

    def _prune(self, newest: int) -> None:
        oldest = newest - WINDOW_SECONDS * 10**9
        while len(self._chunks) > 1 and (self._chunks[0].newest < oldest or self._bytes > WINDOW_BYTES):
            # One line must be known by its stamp, or nothing could be aligned; one line may be very long.
            if not STAMP.search(self._chunks[1].stamped) and self._bytes <= 4 * WINDOW_BYTES:
                return
            self._bytes -= len(self._chunks.popleft().stamped)
            self.pruned = True
