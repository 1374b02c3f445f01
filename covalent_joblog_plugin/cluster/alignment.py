# SPDX-License-Identifier: Apache-2.0
"""Joins reads of one log that may break off anywhere, so that every byte is taken once.

The API has no offsets. But each line has a stamp, and a read may begin at a whole second: it is begun a
second before the newest line, what is known is compared byte by byte, and what goes beyond is taken. Text
that is gone is a gap; nothing is taken twice, and nothing invented.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from .stamped import STAMP, Cutter, Window, nanoseconds

if TYPE_CHECKING:
    from collections.abc import Callable

PROOF = 16
"""Bytes that a text must share with the last line taken to count as that line's rest."""
DISORDER = 1_000_000
"""Nanoseconds by which stamps of the two streams may be out of order; 138,000 were seen."""
TRIES = ((1, 0), (1, 1), (1, 2), (4, 0), (8, 0))
"""How to begin a read, one after the other while reads do not fit: seconds before the newest line, and which
of the lines with the same stamp is meant."""


class Taker(Protocol):
    """Where text goes."""

    def text(self, data: bytes) -> None:
        """More of the log."""

    def gap(self, why: str) -> None:
        """Text may be missing here."""


class Misaligned(Exception):  # noqa: N818 - a finding of this package's own
    """This read does not fit where it was tried; nothing of it was taken."""


@dataclass(slots=True)
class Log:
    """One container instance's log as taken so far."""

    taker: Taker
    window: Window = field(default_factory=Window)
    notice: bytes = b""
    """What the kubelet said last instead of text."""

    def take(self, stamped: bytes, plain: bytes) -> None:
        """Text with and without its stamps."""
        self.window.take(stamped, len(plain))
        if plain:
            self.taker.text(plain)

    def line(self, stamp: bytes, text: bytes = b"") -> None:
        """A line begins."""
        self.window.stamp(stamp)
        if text:
            self.text(text)

    def text(self, data: bytes) -> None:
        """The line goes on."""
        self.window.text(data)
        self.taker.text(data)


class Reading:
    """One answer on its way into the log.

    It *seeks* a line that is known, then *replays* what is known from there, then all is new (*live*). Where
    no line is known there is a gap, and everything that is not newer than the newest line is *skipped*.

    Args:
        log: What was taken before.
        back: How many seconds before the newest line the read begins.
        candidate: Which of the lines with one stamp is taken for the first that is known.
        last_try: Whether a read that does not fit means a gap.
        proven: A stamp known to follow directly on what was taken: it is no gap.
    """

    def __init__(
        self, log: Log, back: int = 1, candidate: int = 0, *, last_try: bool = False, proven: bytes = b""
    ) -> None:
        self._log = log
        self._since = (log.window.since(back) or 0) * 10**9
        self._candidate = candidate
        self._last_try = last_try
        self._proven = proven
        self._cutter = Cutter()
        self._state: Literal["seek", "replay", "skip", "live"] = "seek" if log.window.newest else "live"
        self._lines, self._text, self._base = log.window.lines() if log.window.newest else ([], b"", 0)
        self._end = log.window.size
        self._newest = max((nanoseconds(stamp) for _, stamp in self._lines), default=0)
        self._first: tuple[bytes, bytes] | None = None
        self._at = self._next = 0

    def feed(self, chunk: bytes) -> None:
        """More of the answer.

        Raises:
            Misaligned: It does not fit; try another way.
        """
        if self._state == "live" and (found := self._cutter.strip(chunk)) is not None:
            self._log.take(*found)
            return
        handlers: dict[str, Callable[[bytes], None]] = {
            "stamp": self._stamp,
            "text": self._more,
            "notice": self._notice,
        }
        for kind, data in self._cutter.feed(chunk):
            handlers[kind](data)

    def end(self) -> None:
        """The answer ended by itself; a broken connection says nothing about its end."""
        for _, data in self._cutter.rest():
            self._notice(data)
        if self._state == "seek" and self._first and not self._take_rest(*self._first):
            self._gap(None)

    def _notice(self, data: bytes) -> None:
        # At the head of a read it may also be the end of a line older than the read: that is taken already.
        if self._state != "seek" or self._first or not self._log.window.newest:
            self._log.notice = (self._log.notice + data)[-500:]
        elif b"unable to" in data or b"failed to" in data:
            self._log.notice = data[-500:]

    def _stamp(self, stamp: bytes) -> None:
        if self._state == "live":
            self._log.line(stamp)
        elif self._state == "replay":
            self._replay_stamp(stamp)
        elif self._state == "seek":
            self._seek(stamp)
        elif nanoseconds(stamp) > self._newest:
            self._state = "live"
            self._log.line(stamp)

    def _more(self, data: bytes) -> None:
        if self._state == "live":
            self._log.text(data)
        elif self._state == "replay":
            self._replay(data)
        elif self._state == "seek" and self._first:
            self._first = self._first[0], self._first[1] + data
            if data.endswith(b"\n"):
                self._take_rest(*self._first)

    # -- seek -----------------------------------------------------------------------------------------

    def _seek(self, stamp: bytes) -> None:
        known = [number for number, (_, seen) in enumerate(self._lines) if seen == stamp]
        if len(known) > self._candidate:
            number = known[self._candidate]
            self._at, self._next = self._lines[number][0], number + 1
            before = self._text[: self._at - self._base]
            if self._first and not before.endswith(self._first[1][-len(before) :] if before else b""):
                raise Misaligned("the text before the first known line differs")
            self._state = "replay"
        elif self._older_than_kept(stamp):
            return
        elif self._first is None and not self._candidate:
            # New text; or the rest of a line that a rotation cut, which a follow shows without a stamp.
            self._first = stamp, b""
        elif not self._last_try and nanoseconds(stamp) <= self._newest:
            raise Misaligned("no line is known")
        else:
            self._gap(stamp)

    def _older_than_kept(self, stamp: bytes) -> bool:
        """Whether a line was taken but is not kept any more."""
        oldest = nanoseconds(self._lines[0][1]) if self._lines else 0
        return self._log.window.pruned and nanoseconds(stamp) < oldest - DISORDER

    def _take_rest(self, stamp: bytes, text: bytes) -> bool:
        """Take what is new of a text that is the last line's rest, cut by a rotation; False if it is not."""
        if self._state != "seek" or nanoseconds(stamp) <= nanoseconds(self._log.window.newest):
            return False
        last = self._text[self._lines[-1][0] - self._base :]
        for shared in range(min(len(text), len(last)), PROOF - 1, -1):
            if last.endswith(text[:shared]) and (shared == len(text) or not last.endswith(b"\n")):
                self._state = "live"
                if rest := text[shared:]:
                    self._log.text(rest)
                return True
        return False

    def _gap(self, stamp: bytes | None) -> None:
        """No line of this answer is known: what was before it is gone from the node, or there was nothing."""
        first = self._first[0] if self._first else stamp
        if first != self._proven:
            self._log.taker.gap("the log was rotated before it was read")
        self._state = "skip"
        candidates = [self._first] if self._first else []
        if stamp:
            candidates.append((stamp, b""))
        # All that follows the first newer one is newer, but for the disorder of the two streams.
        newer = [nanoseconds(begins) > self._newest for begins, _ in candidates]
        if True in newer:
            self._state = "live"
            for begins, text in candidates[newer.index(True) :]:
                self._log.line(begins, text)

    # -- replay ---------------------------------------------------------------------------------------

    def _replay_stamp(self, stamp: bytes) -> None:
        lines = self._lines
        while self._next < len(lines) and lines[self._next] != (self._at, stamp):
            if nanoseconds(lines[self._next][1]) >= self._since:
                break
            # stdout and stderr are stamped slightly out of order: that line is older than the read.
            self._next += 1
            self._at = lines[self._next][0] if self._next < len(lines) else self._end
        if self._next < len(lines) and lines[self._next] == (self._at, stamp):
            self._next += 1
        elif self._next == len(lines) and self._at == self._end:
            self._state = "live"
            self._log.line(stamp)
        else:
            raise Misaligned("another line was taken here")

    def _replay(self, data: bytes) -> None:
        limit = self._lines[self._next][0] if self._next < len(self._lines) else self._end
        start = self._at - self._base
        known = self._text[start : min(limit - self._base, start + len(data))]
        if not data.startswith(known) or (len(known) < len(data) and limit < self._end):
            raise Misaligned("other text was taken here")
        self._at += len(known)
        if len(known) < len(data):
            self._state = "live"
            self._log.text(data[len(known) :])


@dataclass(slots=True)
class Rotations:
    """Whether each file of the log was entered at its beginning.

    A follow may stay on a rotated file, and skip a whole one, without a word. The head of the current file
    tells, looked at more often than the kubelet rotates (every 3 s at most).
    """

    log: Log
    _current: bytes = b""
    _waiting: list[tuple[bytes, bytes]] = field(default_factory=list)

    def saw(self, head: bytes) -> None:
        """The first bytes of the current file."""
        match = STAMP.match(head)
        if match and match[1] != self._current:
            self._current = match[1]
            self._waiting.append((match[1], head[match.end() :]))

    @property
    def ahead(self) -> bytes:
        """Stamp of the first file that has not been reached; empty when all have."""
        return self._waiting[0][0] if self._waiting else b""

    def missed(self) -> bool:
        """Whether a file was entered later than at its beginning; every case is told once."""
        window = self.log.window
        if not self._waiting or not window.newest:
            return False
        lines, text, base = window.lines()
        found = False
        while self._waiting and nanoseconds(self._waiting[0][0]) < nanoseconds(window.newest):
            found = not _entered(*self._waiting.pop(0), lines, text, base) or found
        if self._waiting and self._waiting[0][0] == window.newest:
            self._waiting.pop(0)
        return found


def _entered(stamp: bytes, head: bytes, lines: list[tuple[int, bytes]], text: bytes, base: int) -> bool:
    """Whether a file's first line was taken, or its text as the rest of the line before."""
    if not lines or nanoseconds(stamp) < nanoseconds(lines[0][1]):
        return True  # too old to tell
    if any(seen == stamp for _, seen in lines):
        return True
    first, newline, rest = head.partition(b"\n")
    second = STAMP.match(rest)
    for number, (offset, seen) in enumerate(lines):
        if number and second and seen == second[1]:
            before = text[lines[number - 1][0] - base : offset - base]
            return before.endswith(first + newline)
    later = next(
        (n for n, (_, seen) in enumerate(lines) if nanoseconds(seen) > nanoseconds(stamp)), len(lines)
    )
    return not second and first in text[lines[max(later - 1, 0)][0] - base :]
