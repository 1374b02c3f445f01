# SPDX-License-Identifier: Apache-2.0
"""What one container instance wrote and is not stored yet, stream by stream, at offsets that never change.

The log API of Kubernetes knows no offsets and forgets; the store knows both. So the text is held here only
until it is stored, and its reading is held up when nobody takes it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.records import Delta, Seam, SeamKind

from .framing import Decoder, Frame, Lost, Text
from .pauses import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from covalent_joblog_plugin.model.records import ReadRequest, Stream, StreamCounts

    from .framing import Event

BACKLOG_BYTES = 8 << 20
"""Text nobody has asked for yet, at which reading is held up."""
RELEASE_BYTES = 256 << 10
"""Stored text is let go in pieces of at least this size: cutting a buffer's head moves the rest."""
TAIL_BYTES = 16 << 10
UNWANTED_AFTER = 30.0
"""Seconds of asking for the other stream alone, after which one is dropped: it has reached a limit."""
STREAMS: Mapping[int, Stream] = {1: "stdout", 2: "stderr"}


@dataclass(slots=True)
class Spool:
    """One stream of one instance.

    Attributes:
        execution: Which start of the rank it is.
        size: Bytes so far but for those that were dropped; the offset of the next one.
        ended: All there ever will be is here.
        tail: The last bytes, at most ``TAIL_BYTES``.
    """

    execution: int
    size: int = 0
    ended: bool = False
    tail: bytes = b""
    _start: int = 0
    _held: bytearray = field(default_factory=bytearray)
    _seams: list[tuple[int, Seam]] = field(default_factory=list)
    _told: tuple[int, int] = (0, 0)
    _asked: int = 0
    _given: int = 0
    _dropped: int = 0
    _neglected_since: float | None = None
    _unwanted: bool = False

    @property
    def backlog(self) -> int:
        """Bytes that nobody has asked for yet; none where nobody asks any more."""
        return 0 if self._unwanted else self.size - self._asked

    def append(self, data: bytes) -> None:
        """Add text."""
        self.size += len(data)
        self._held += data
        self.tail = (self.tail + data[-TAIL_BYTES:])[-TAIL_BYTES:]
        if self._unwanted and self.size - self._given > BACKLOG_BYTES:
            self._drop()

    def _drop(self) -> None:
        """Let go what was never given; should somebody ask after all, a seam there tells."""
        if self._dropped:
            self._seams.remove((self._given, self._drop_seam()))
        lost = [seam.lost or 0 for at, seam in self._seams if at > self._given]
        self._seams = [known for known in self._seams if known[0] <= self._given]
        self._dropped += self.size - self._given + sum(lost)
        self.size = self._given
        del self._held[self.size - self._start :]
        self._seams.append((self.size, self._drop_seam()))

    def _drop_seam(self) -> Seam:
        message = f"{self._dropped} bytes are missing here: nobody asked for them in time"
        return Seam(SeamKind.LOST, message, self.execution, self._dropped)

    def neglect(self) -> None:
        """One stream of its container was asked for, which need not have been this one."""
        now = time.monotonic()
        self._neglected_since = self._neglected_since or now
        self._unwanted = self._unwanted or now - self._neglected_since > UNWANTED_AFTER

    def ignore(self) -> None:
        """Nobody will ask for it."""
        self._unwanted = True

    def seam(self, kind: SeamKind, message: str, lost: int | None = None) -> None:
        """Mark a break at the present end."""
        self._seams.append((self.size, Seam(kind, message, self.execution, lost)))

    def answer(self, request: ReadRequest, room: int) -> Delta | None:
        """What there is from a position on, up to the next seam; None where that is nothing new.

        ``request.now`` asks for an answer all the same, but only an ended stream has one: as long as it is
        being read, nothing is known about its end.
        """
        self._asked = max(self._asked, request.pos)
        self._neglected_since, self._unwanted, self._dropped = None, False, 0
        self._release(request.stored)
        end = min((at for at, _ in self._seams if at > request.pos), default=self.size)
        size = min(end - request.pos, room if request.size < 0 else min(room, request.size))
        seams = tuple(seam for at, seam in self._seams if at == request.pos)
        told, self._told = self._told, (request.pos, len(seams))
        news = size > 0 or (seams and told != self._told)
        if not news and not (request.now and self.ended):
            return None
        at = max(0, request.pos - self._start)
        data = bytes(memoryview(self._held)[at : at + max(0, size)])
        self._given = max(self._given, request.pos + len(data))
        return Delta(request.path, request.pos, data, time.time(), size=self.size, seams=seams)

    def _release(self, stored: int) -> None:
        if stored - self._start >= RELEASE_BYTES:
            del self._held[: stored - self._start]
            self._start = stored


class InstanceOutput:
    """The log of one container instance on its way from ``PodLog`` to the monitor; a ``LogSink``.

    Args:
        execution: Which start of the rank it is.
        framing: Whether our runner frames what it writes.
        changed: Called when there is news.
    """

    def __init__(self, execution: int, *, framing: bool, changed: Callable[[], None]) -> None:
        self._decoder = Decoder() if framing else None
        names: tuple[Stream, ...] = ("stdout", "stderr") if framing else ("log",)
        self.spools: dict[Stream, Spool] = {name: Spool(execution) for name in names}
        self.frames: list[Frame] = []
        self.problem = ""
        """Why its log cannot be read at the moment; empty when it can."""
        self._gap = ""
        """Why text may be missing at the present end; empty where nothing says so."""
        self.complete: bool | None = None
        """Whether count and hash proved that nothing is missing; None where nobody counted."""
        self._changed = changed
        self._taken = asyncio.Event()

    def text(self, data: bytes) -> None:
        """See ``LogSink``."""
        self._gap = ""
        if self._decoder is None:
            self.spools["log"].append(data)
        else:
            self._take(self._decoder.feed(data))
        self._changed()

    def gap(self, why: str) -> None:
        """See ``LogSink``; where our runner counts, the number of bytes follows."""
        self._gap = why
        if self._decoder is None:
            self.spools["log"].seam(SeamKind.LOST, f"bytes may be missing here: {why}")
        else:
            self._take(self._decoder.gap())
        self._changed()

    def trouble(self, why: str) -> None:
        """See ``LogSink``."""
        self.problem = why

    async def room(self) -> None:
        """See ``LogSink``."""
        while any(spool.backlog > BACKLOG_BYTES for spool in self.spools.values()):
            self._taken.clear()
            await wait_for(self._taken, UNWANTED_AFTER)

    def took(self) -> None:
        """Somebody asked for text."""
        self._taken.set()
        for spool in self.spools.values():
            spool.neglect()

    def end(self, *, proved: bool, counts: StreamCounts | None) -> None:
        """No more text comes.

        Args:
            proved: Whether the log was read to its end.
            counts: What the runner counted, where it could tell.
        """
        if self._decoder is not None:
            sizes = (counts["stdout"][0], counts["stderr"][0]) if counts else None
            self._take(self._decoder.end(sizes))
            if counts is not None:
                ours = dict(zip(("stdout", "stderr"), self._decoder.counted(), strict=True))
                self.complete = ours == counts
        # Where nobody counts, an answer that ended by itself is all there is to know of a pod that is gone.
        unsure = self._decoder is not None or self._gap
        for spool in self.spools.values():
            if not proved and self.complete is not True and unsure:
                why = self.problem or self._gap or "the pod was gone before it was read"
                spool.seam(SeamKind.INCOMPLETE, f"the end of the output may be missing: {why}")
            spool.ended = True
        self._changed()

    def _take(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Text):
                self.spools[STREAMS[event.stream]].append(event.data)
            elif isinstance(event, Frame):
                self.frames.append(event)
            elif isinstance(event, Lost):
                self._lost(event)

    def _lost(self, event: Lost) -> None:
        if event.size is None:
            message = "bytes may be missing here: the node's log was rotated or removed before it was read"
        else:
            message = f"{event.size} bytes are missing here: the node's log was rotated or removed unread"
        self.spools[STREAMS[event.stream]].seam(SeamKind.LOST, message, event.size)
