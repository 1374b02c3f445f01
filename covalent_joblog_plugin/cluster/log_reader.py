# SPDX-License-Identifier: Apache-2.0
"""Reads the log of one container, answer after answer, so that each byte of its text is taken once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Protocol

from covalent_joblog_plugin.model.errors import JobLogError

from .alignment import TRIES, Misaligned, Reading, Text
from .kubernetes_errors import IdleTimeout
from .pauses import wait_for
from .rotations import HEAD_BYTES, Rotations
from .stamped import Window

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from .kubernetes import Kubernetes

log = logging.getLogger(__name__)

HEAD_SECONDS, HEAD_AFTER_BYTES = 2.0, 4 << 20
"""The head of the current log file is read after so much time or text, when there is text."""
SETTLE_SECONDS = 0.3
"""What a pod's status may lag behind the kubelet's own."""


class LogSink(Protocol):
    """Who wants the text."""

    def text(self, data: bytes) -> None:
        """More of the container's text, without stamps, in order, each byte once."""

    def gap(self, why: str) -> None:
        """Text may be missing right here; where the exact place is known to be earlier, ``why`` tells."""

    def trouble(self, why: str) -> None:
        """Why it cannot be read at the moment; empty when it can again."""

    async def room(self) -> None:
        """Wait until there is room for more."""


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
        aligned: Whether it was then seen to belong where the text ends, or there is no text at all.
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
        self.previous = self.ended_well = self.aligned = False
        self.trouble = ""
        self._window = Window()
        self._text = Text(self._window, sink.text, sink.gap, [])
        self._rotations = Rotations(self._text)
        self._try = 0
        self._proven = b""
        self._open = self._full = False
        self._much = asyncio.Event()
        self._checked_at, self._checked_when = 0, 0.0

    @property
    def size(self) -> int:
        """Bytes of text taken so far."""
        return self._window.size

    @property
    def missed(self) -> str:
        """Which file of the log was begun and its text did not come; empty when none is known."""
        return self._rotations.check().decode()

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
        self.ended_well = self.aligned = False
        window = self._window
        back, candidate = TRIES[self._try]
        since = window.since(back)
        known = await asyncio.to_thread(window.known) if window.newest else None
        reading = Reading(self._text, known, since=since, candidate=candidate, proven=self._proven)
        try:
            async with self._opened(follow=follow, since=since) as chunks:
                self._open = True
                async for chunk in chunks:
                    reading.feed(chunk)
                    if not await self._trusted(reading):
                        return
            reading.end()
        except IdleTimeout:
            reading.end()  # nothing more comes that could tell what to think of the last line
            await self._trusted(reading)
            raise
        except Misaligned as error:
            log.debug("log of %s: %s", self._names[1], error)
            self._try = min(self._try + 1, len(TRIES) - 1)
            raise
        finally:
            self._open = False
        if await self._trusted(reading):
            self.tell(reading.notice.decode("utf-8", "replace").strip())
            self.ended_well = not reading.notice
            self.aligned = self.ended_well and (reading.aligned or not self._window.newest)
            self._try = 0

    async def follow(self) -> None:
        """One answer that goes on while the container runs, watched for files that it skips.

        Raises:
            Misaligned: See ``read``.
            JobLogError: See ``read``.
        """
        reading = asyncio.create_task(self.read(follow=not self.previous))
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

    async def check_head(self) -> bytes:
        """Read the head of the current file and judge it.

        Returns:
            Stamp of the first head that the text has not passed; empty when there is none, or the head could
            not be read.
        """
        self._checked_at, self._checked_when = self.size, time.monotonic()
        try:
            async with self._opened(limit=HEAD_BYTES) as chunks:
                self._rotations.saw(b"".join([chunk async for chunk in chunks]))
        except JobLogError:
            return b""  # what is wrong is told by those who read the text
        return self._rotations.check()

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
            if self._window.newest:
                await asyncio.sleep(SETTLE_SECONDS)
            if not await self._ours():
                return False
            reading.accept()
        if reading.live:
            self._try, self._proven = 0, b""
        if reading.aligned:
            self.tell("")
        if self.size - self._checked_at > HEAD_AFTER_BYTES:
            self._much.set()
        self._full = True
        await self._sink.room()
        self._full = False
        return True

    async def _check_heads(self) -> None:
        """While text flows; returns when the stream is stuck on a file that was rotated away."""
        while True:
            self._much.clear()
            await wait_for(self._much, self._checked_when + HEAD_SECONDS - time.monotonic())
            if self._open and not self._much.is_set():
                self.tell("")
            size = self.size
            if size in {0, self._checked_at} or not await self.check_head() or self._moved(size):
                continue
            await asyncio.sleep(HEAD_SECONDS)
            # The head can be read and the stream is silent: its file is drained, and another one is written.
            if (ahead := await self.check_head()) and not self._moved(size):
                self._proven = ahead
                return

    def _moved(self, size: int) -> bool:
        return self._full or self.size != size
