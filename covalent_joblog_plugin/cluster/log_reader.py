# SPDX-License-Identifier: Apache-2.0
"""Reads the log of one container, answer after answer, so that each byte of its text is taken once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import JobLogError

from .alignment import Misaligned, Reading, Repeated
from .kubernetes_errors import IdleTimeout
from .pauses import wait_for
from .rotations import HEAD_BYTES, Rotations
from .stamped import Text, Window
from .successors import Edge, Successors
from .tries import TRIES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from .kubernetes import Kubernetes
    from .log_sink import LogSink

log = logging.getLogger(__name__)

HEAD_SECONDS, HEAD_AFTER_BYTES = 2.0, 4 << 20
"""The head of the current log file is read after so much time or text with its stamps, when there is text:
before the window forgets where that file began."""
FLOW_BYTES, QUIET_SECONDS = 16 << 10, 0.3
"""It is read as well when so much text came and then none for so long: the stream may be stuck."""
SILENT_SECONDS = 1.0
"""A stream that is silent for so long while its file has a successor has drained that file."""
SETTLE_SECONDS = 0.3
"""What a pod's status may lag behind the kubelet's own."""


class LogReader:
    """Reads one container's log.

    Args:
        api: The cluster.
        names: Namespace, pod and container.
        sink: Who wants the text.
        ours: Asks the cluster whether the log that is open now is the one that is wanted: a pod may have
            started another instance of the container just now.

    Attributes:
        previous: Whether the container's instance before the current one is read.
        ended_well: Whether the last answer ended by itself.
        complete: Whether it then reached the end of the text, or there is no text at all.
        trouble: What the sink was told last.
    """

    def __init__(
        self,
        api: Kubernetes,
        names: tuple[str, str, str],
        sink: LogSink,
        ours: Callable[[], Awaitable[bool]],
    ) -> None:
        self._api, self._names, self._sink, self._ours = api, names, sink, ours
        self.previous = self.ended_well = self.complete = False
        self.trouble = ""
        self._window = Window()
        self._text = Text(self._window, sink.text, sink.gap, [])
        self._rotations = Rotations(self._text)
        self._successors = Successors(lambda: self._opened(follow=True))
        self._try = 0
        self._proven = b""
        self._open = self._full = self._sure = False
        self._flows, self._floods = asyncio.Event(), asyncio.Event()
        self._checked_at, self._checked_when = 0, 0.0

    @property
    def size(self) -> int:
        """Bytes of text taken so far."""
        return self._window.size

    @property
    def missed(self) -> bytes:
        """Stamp of a file that was begun and whose text did not come yet; empty when none is known."""
        return self._rotations.check()

    def tell(self, why: str) -> None:
        """Tell the sink what is wrong, once; empty when nothing is."""
        if why != self.trouble:
            self.trouble = why
            self._sink.trouble(why)

    async def read(self, *, follow: bool = False) -> None:
        """One answer, from the last second that is known.

        Raises:
            Misaligned: It did not fit; the next one is asked for in another way.
            JobLogError: See ``Kubernetes.open_log``.
        """
        self.ended_well = self.complete = self._sure = False
        window = self._window
        back, candidate = TRIES[self._try]
        since = window.since(back)
        known = await asyncio.to_thread(window.known) if window.newest else None
        reading = Reading(
            self._text, known, follow=follow, since=since, candidate=candidate, proven=self._proven
        )
        async with self._opened(follow=follow, since=since) as chunks:
            await self._take(reading, chunks)

    async def _take(self, reading: Reading, chunks: AsyncIterator[bytes]) -> None:
        self._open = True
        try:
            if not await self._all_of(reading, chunks):
                return
            reading.end()
        except IdleTimeout:
            reading.end()  # nothing more comes that could tell what to think of the last line
            await self._trusted(reading)
            raise
        except Misaligned as error:
            log.debug("log of %s: %s", self._names[1], error)
            if not isinstance(error, Repeated):
                self._try = min(self._try + 1, len(TRIES) - 1)
            raise
        finally:
            self._open = False
        if await self._trusted(reading):
            self.tell(reading.notice.decode("utf-8", "replace").strip())
            self.ended_well = not reading.notice
            self.complete = self.ended_well and reading.complete
            self._try = 0

    async def _all_of(self, reading: Reading, chunks: AsyncIterator[bytes]) -> bool:
        """Whether it came to its end: else it is not ours, or went on to a file that is not next."""
        edge = Edge()
        try:
            async for chunk in chunks:
                reading.feed(edge.feed(chunk, self._limit()))
                while edge.crossing and not await self._skips(edge, reading):
                    reading.feed(edge.feed(b"", self._limit()))
                if edge.crossing or not await self._trusted(reading):
                    return False
            return True
        finally:
            with contextlib.suppress(Misaligned):
                reading.feed(edge.rest())

    def _limit(self) -> bytes:
        return self._successors.first.stamp if self._successors.first else b""

    async def _skips(self, edge: Edge, reading: Reading) -> bool:
        """Whether a stream that went on to a later file left out the one that waits."""
        crossing, expected = edge.crossing, self._successors.first
        if crossing is None or expected is None:
            return False
        await self.check_head()
        left = crossing.leaves(expected, self._rotations.current)
        if left is None:
            await self._successors.drop()
            return False
        line, whole = left
        self._proven = expected.stamp if whole else b""
        edge.drop()
        reading.feed(line)
        return True

    async def follow(self) -> None:
        """One answer that goes on while the container runs, watched for files that it skips.

        Raises:
            Misaligned: See ``read``.
            JobLogError: See ``read``.
        """
        read = self.read(follow=not self.previous)
        try:
            while True:
                try:
                    await self._watched(read)
                except (JobLogError, Misaligned):
                    if not self._successors.first:
                        raise
                if not self._successors.first:
                    return
                read = self._go_on()
        finally:
            await self._successors.close()

    async def _go_on(self) -> None:
        """Read the next file's own stream; behind a gap, if what came before it may not be all."""
        successor = self._successors.pop()
        async with successor.stack:
            known = await asyncio.to_thread(self._window.known)
            reading = Reading(self._text, known, follow=True, proven=self._proven)
            self.ended_well = self.complete = False
            self._sure = True
            await self._take(reading, successor.chunks)

    async def _watched(self, read: Coroutine[Any, Any, None]) -> None:
        reading = asyncio.create_task(read)
        heads = asyncio.create_task(self._check_heads())
        try:
            await asyncio.wait({reading, heads}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (reading, heads):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, JobLogError, Misaligned):
                    await task
        if not reading.cancelled():
            reading.result()

    async def check_head(self) -> bool:
        """Read the head of the current file and judge it; see ``missed``.

        Returns:
            Whether it could be read.
        """
        self._checked_at, self._checked_when = self._window.stamped, time.monotonic()
        try:
            async with self._opened(limit=HEAD_BYTES) as chunks:
                self._rotations.saw(b"".join([chunk async for chunk in chunks]))
        except JobLogError:
            return False  # what is wrong is told by those who read the text
        self._rotations.check()
        return True

    def _opened(
        self, *, follow: bool = False, since: int | None = None, limit: int | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        namespace, pod, container = self._names
        previous = self.previous
        return self._api.open_log(
            pod, container, follow=follow, since=since, previous=previous, limit=limit, namespace=namespace
        )

    async def _trusted(self, reading: Reading) -> bool:
        """Take what is in doubt if it is ours; then wait for room."""
        if reading.in_doubt:
            if self._window.newest and not self._sure:
                await asyncio.sleep(SETTLE_SECONDS)
            if not self._sure and not await self._ours():
                return False
            reading.accept()
        if reading.live:
            self._try, self._proven = 0, b""
        if reading.aligned:
            self.tell("")
        unchecked = self._window.stamped - self._checked_at
        if unchecked > FLOW_BYTES:
            self._flows.set()
        if unchecked > HEAD_AFTER_BYTES:
            self._floods.set()
        self._full = True
        await self._sink.room()
        self._full = False
        return True

    async def _check_heads(self) -> None:
        """While text flows; returns when the stream is stuck on a file that was rotated away."""
        while True:
            self._flows.clear()
            self._floods.clear()
            # Streams that break often must not put it off.
            await wait_for(self._flows, self._checked_when + HEAD_SECONDS - time.monotonic())
            if self._flows.is_set():
                await self._flow_pauses()
            elif self._open:
                self.tell("")
            size = self.size
            if self._window.stamped in {0, self._checked_at} and not self._full:
                self._checked_when = time.monotonic()
                continue
            if not await self._is_behind(size):
                continue
            await asyncio.sleep(SILENT_SECONDS)
            # The head can be read and the stream is silent: its file is drained, and another one is written.
            if await self._is_behind(size):
                self._proven = self.missed
                return

    async def _flow_pauses(self) -> None:
        """Wait until the text stops to flow, or a look at the head is due anyway."""
        due = self._checked_when + HEAD_SECONDS
        while time.monotonic() < due and not self._floods.is_set():
            size = self.size
            await wait_for(self._floods, QUIET_SECONDS)
            if self.size == size:
                return

    async def _is_behind(self, size: int) -> bool:
        if not await self.check_head() or not self.missed:
            return False
        opened = not self.previous and await self._successors.open(self._rotations.current)
        if not self.missed or (opened and not await self._ours()):
            await self._successors.close()  # the text came so far meanwhile, or it is another start's
        return bool(self.missed) and self.size == size and not self._full
