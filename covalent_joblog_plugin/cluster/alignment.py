# SPDX-License-Identifier: Apache-2.0
"""The exact text of a container out of reads that may break anywhere and repeat what is known.

The log API has no offsets, only stamps, and times of whole seconds to begin at. So a later read begins a
second or two back and is replayed against what was taken, stamp by stamp and byte by byte; what goes past
its end is new. Where no line of a read is known the rest is gone from the node: that is told as a gap, and
nothing is repeated or invented.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from .stamped import STAMP, Cutter, Known, nanoseconds

if TYPE_CHECKING:
    from .stamped import Text

UNKNOWN_BYTES = 1 << 20
"""An unknown first line is not waited for to its end when it is longer."""
NOTICES = (b"failed to create fsnotify", b"failed to watch file")
"""How the kubelet says in the middle of a log that it cannot wait for more."""


class Misaligned(Exception):  # noqa: N818 - a state, not a mistake
    """This read does not fit what is known; nothing of it was taken. Another way may."""


class Repeated(Misaligned):
    """The answer begins a file again that it had shown; what came before that was taken.

    A kubelet that is read slowly does so when a log is rotated twice meanwhile.
    """


class Reading:
    """One answer on its way into the text.

    Args:
        text: Where it goes.
        known: What was taken before, see ``Window.known``; None when that is nothing.
        follow: Whether the answer waits for more; only then a notice can come in its middle.
        since: Unix seconds at which the answer begins.
        candidate: See ``tries.Try``.
        proven: A stamp that is known to follow directly on what was taken.
    """

    def __init__(
        self,
        text: Text,
        known: Known | None = None,
        *,
        follow: bool = False,
        since: int | None = None,
        candidate: int = 0,
        proven: bytes = b"",
    ) -> None:
        self._out, self._follow = text, follow
        self._since, self._candidate, self._proven = (since or 0) * 10**9, candidate, proven
        self._cutter = Cutter()
        self._held, self._cut = b"", False
        self._state: Literal["seek", "replay", "skip", "doubt", "live"] = "seek" if known else "doubt"
        self._known = known or Known([], b"", 0, 0)
        self._at = self._next = 0  # replay: offset and line number that come next
        self._unknown: tuple[bytes, bytearray] | None = None  # the first line, when its stamp is not known
        self._doubted: list[tuple[str, bytes]] = []
        self._gap_before = b""
        self._last = 0  # the newest line that went into the text, Unix nanoseconds
        self._stamped: list[bytes] = []
        self._plain: list[bytes] = []
        self._numbers: dict[bytes, list[int]] = {}
        for number, (_, stamp) in enumerate(self._known.lines):
            self._numbers.setdefault(stamp, []).append(number)
        self.notice = b""
        """What the kubelet said instead of text."""

    @property
    def in_doubt(self) -> bool:
        """Whether nothing proves yet that this is the same container: see ``accept``."""
        return self._state == "doubt" and bool(self._doubted)

    @property
    def live(self) -> bool:
        """Whether what comes now is new."""
        return self._state == "live"

    @property
    def aligned(self) -> bool:
        """Whether its place is known: it repeats what was taken, or goes on."""
        return self._state in {"replay", "live"}

    @property
    def complete(self) -> bool:
        """Whether it repeated all that was taken, and was not cut inside a line's stamp."""
        repeated = self.live or (self.aligned and self._at == self._known.size)
        return not self._cut and (repeated or not self._known.lines)

    def feed(self, chunk: bytes) -> None:
        """One more chunk of the answer.

        Raises:
            Misaligned: It does not fit, or no more; leave it.
        """
        if not chunk:
            return
        chunk, begin, self._held = self._held + chunk, len(self._held), b""
        if self._follow and (at := self._notice_in(chunk)) >= begin:
            chunk, self._held = chunk[:at], chunk[at:]  # the end tells whether it was one
        if self.live and (quick := self._cutter.strip(chunk, self._out.window.newest)):
            self._out.take(*quick)
            return
        try:
            for kind, data in self._cutter.feed(chunk):
                self._piece(kind, data)
        finally:
            self._flush()

    def _notice_in(self, chunk: bytes) -> int:
        """Where a notice may begin right behind text without a newline; -1 where none does."""
        begin = chunk.rfind(b"\n") + 1
        if begin or self._cutter.at_start:
            stamp = STAMP.match(chunk, begin)
            begin = stamp.end() + 1 if stamp else len(chunk)
        return max(chunk.find(notice, begin) for notice in NOTICES)

    def end(self) -> None:
        """The answer ended by itself (and not because a connection broke).

        Raises:
            Misaligned: It does not fit.
        """
        rest = self._cutter.rest()
        self._cut = rest[:4].isdigit()
        self.notice = (self.notice + self._held + (b"" if self._cut else rest))[:500]
        self._held = b""
        if self._state == "seek" and self._unknown:
            self._doubt(self._unknown[0])
        self._flush()

    def accept(self) -> None:
        """It is the same container as before: what is known of it is missing, and what came is taken."""
        doubted, self._doubted = self._doubted, []
        self._state = "live"
        if self._known.lines:
            newest = self._known.lines[-1][1]
            gap = (nanoseconds(newest), nanoseconds(self._gap_before))
            if self._gap_before != self._proven and gap not in self._out.gaps:
                why = f"the node's log begins anew between {newest.decode()} and {self._gap_before.decode()}"
                self._out.lose(*gap, why)
            self._state = "skip"
        for kind, data in doubted:
            self._piece(kind, data)
        self._flush()

    def _piece(self, kind: str, data: bytes) -> None:
        if kind == "notice":
            self.notice = (self.notice + data)[:500]
        elif self._state == "live":
            self._take(kind, data)
        elif self._state == "doubt":
            self._doubted.append((kind, data))
        elif kind == "rest":
            self._state = "live"
            self._take("text", data)
        elif kind == "stamp":
            {"seek": self._seek, "replay": self._replay_stamp, "skip": self._skip}[self._state](data)
        elif self._state == "replay":
            self._replay_text(data)
        elif self._unknown:
            self._unknown[1].extend(data)
            if len(self._unknown[1]) > UNKNOWN_BYTES:
                if nanoseconds(self._unknown[0]) <= self._newest():
                    raise Misaligned("a long line is not known")
                self._doubt(self._unknown[0])

    def _take(self, kind: str, data: bytes) -> None:
        if kind == "stamp":
            self._expect_new(data)
            if not (self._stamped and self._stamped[-1].endswith(b"\n")):
                self._flush()
                self._out.window.begin_line()
            self._stamped.append(data + b" ")
        else:
            self._stamped.append(data)
            self._plain.append(data)

    def _expect_new(self, stamp: bytes) -> None:
        """An older line may be late, if it is not one that was taken."""
        at, newest = nanoseconds(stamp), self._out.window.newest
        self._last = max(self._last, at, nanoseconds(newest) if newest else 0)
        if at < self._last:
            self._flush()
            if self._out.window.holds(stamp) is not False:
                raise Repeated(f"line {stamp!r} comes again")

    def _flush(self) -> None:
        if self._stamped:
            self._out.take(b"".join(self._stamped), b"".join(self._plain))
            self._stamped, self._plain = [], []

    def _newest(self) -> int:
        return nanoseconds(self._known.lines[-1][1])

    # -- before the first known line ----------------------------------------------------------------

    def _seek(self, stamp: bytes) -> None:
        known, found = self._known, self._numbers.get(stamp, [])
        self.notice = b""  # it was the end of a line that began before ``since``, and was taken
        if stamp == self._proven and not self._unknown:
            self._doubt(stamp, stamp)
        elif self._candidate < 0:
            if nanoseconds(stamp) > self._newest():
                self._doubt(stamp, stamp)
        elif len(found) > self._candidate:
            number = found[self._candidate]
            self._at, self._next = known.lines[number][0], number + 1
            before = bytes(self._unknown[1]) if self._unknown else b""
            # Only what is kept can be compared.
            if not before.endswith(known.part(self._at - len(before), self._at)):
                raise Misaligned("the text before the first known line differs")
            self._state, self._unknown = "replay", None
        elif nanoseconds(stamp) <= known.dropped:
            self._unknown = None  # taken long ago
        elif self._unknown is None and not self._candidate:
            self._unknown = (stamp, bytearray())
        elif nanoseconds(stamp) <= self._newest():
            raise Misaligned("no line is known")
        else:
            self._doubt((self._unknown or (stamp,))[0], stamp)

    def _doubt(self, first: bytes, second: bytes = b"") -> None:
        self._state, self._gap_before = "doubt", first
        if self._unknown:
            text = bytes(self._unknown[1])
            # An older one is left out by ``_skip``.
            shared = self._may_be_known(text) if nanoseconds(first) > self._newest() else 0
            self._doubted += [("rest", text[shared:])] if shared else [("stamp", first), ("text", text)]
            self._unknown = None
        if second:
            self._doubted.append(("stamp", second))

    def _may_be_known(self, text: bytes) -> int:
        """How many bytes at the beginning of a new file's first line may be taken already.

        A rotation inside a line leaves its rest to the new file. A fresh read stamps that rest, a follow
        across the rotation does not, and so may have taken any part of it. As much as possible counts as
        taken: what is missing then is behind a gap, and nothing comes twice.
        """
        known = self._known
        last = known.part(known.lines[-1][0], known.size)
        at = max(0, len(last) - len(text))
        while (at := last.find(text[:1], at)) >= 0:
            shared = len(last) - at
            if text.startswith(last[at:]) and (shared == len(text) or not last.endswith(b"\n")):
                return shared
            at += 1
        return 0

    def _skip(self, stamp: bytes) -> None:
        if nanoseconds(stamp) > self._newest():
            self._state = "live"
            self._take("stamp", stamp)

    # -- among the known lines ------------------------------------------------------------------------

    def _replay_stamp(self, stamp: bytes) -> None:
        lines = self._known.lines
        while (
            self._next < len(lines)
            and lines[self._next] != (self._at, stamp)
            and nanoseconds(lines[self._next][1]) < self._since
        ):
            # Both streams are stamped slightly out of order: this line is older than the answer's beginning.
            self._next += 1
            self._at = self._known.end_of(self._next - 1)
        if self._next < len(lines) and lines[self._next] == (self._at, stamp):
            self._next += 1
        elif self._next == len(lines) and self._at == self._known.size:
            self._state = "live"
            self._take("stamp", stamp)
        else:
            raise Misaligned(f"line {stamp!r} is not what was taken at {self._at}")

    def _replay_text(self, data: bytes) -> None:
        end = self._known.end_of(self._next - 1)
        size = min(end - self._at, len(data))
        forgotten = min(size, max(0, self._known.base - self._at))
        same = self._known.part(self._at + forgotten, self._at + size) == data[forgotten:size]
        if not same or (size < len(data) and end < self._known.size):
            raise Misaligned(f"the text differs at {self._at}")
        self._at += size
        if size < len(data):
            self._state = "live"
            self._take("text", data[size:])
