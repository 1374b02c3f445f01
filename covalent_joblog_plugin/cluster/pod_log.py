# SPDX-License-Identifier: Apache-2.0
"""One container instance's log from its first byte to its end, whatever happens on the way.

An answer that ends proves nothing: a stopped kubelet and a finished container look the same. So the pod is
asked, and what was read is read again and compared.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from covalent_joblog_plugin.model.errors import JobLogError, TransportError

from .alignment import TRIES, Log, Misaligned, Reading, Rotations
from .kubernetes_errors import ApiError, Forbidden, IdleTimeout, NotFound, NotStarted, RefusedError
from .pauses import wait_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .kubernetes import Kubernetes

log = logging.getLogger(__name__)

FIRST_PAUSE, LAST_PAUSE = 0.5, 15.0
HEAD_SECONDS = 2.0
HEAD_BYTES = 4096
POLL_SECONDS = 2.0
"""Seconds between two reads of a log for which no stream is free."""
FORBIDDEN_SECONDS = 300.0


class InstanceState(Enum):
    """What became of a container instance."""

    RUNNING = "running"
    ENDED = "ended"
    """It has terminated; its log is there as long as its pod and no later instance has ended."""
    GONE = "gone"
    """Its pod was deleted, or the kubelet does not keep it any more."""


class LogSink(Protocol):
    """Takes what a container wrote."""

    def text(self, data: bytes) -> None:
        """More of it, without Kubernetes' stamps, each byte once and in order."""

    def gap(self, why: str) -> None:
        """Text may be missing right here."""

    def trouble(self, why: str) -> None:
        """Why reading fails at the moment; empty when it works again."""

    async def room(self) -> None:
        """Wait until more may come."""


class PodLog:
    """Reads one container instance's log.

    Args:
        api: The cluster.
        namespace: Of the pod.
        pod: Its name.
        container: Name of the container in it.
        look: Asks the cluster for the state of this very instance, and whether it is the previous one of its
            pod by now.
        sink: Takes the text.
    """

    def __init__(
        self,
        api: Kubernetes,
        namespace: str,
        pod: str,
        container: str,
        look: Callable[[], Awaitable[tuple[InstanceState, bool]]],
        sink: LogSink,
    ) -> None:
        self._api = api
        self._where = (pod, container, namespace)
        self._look = look
        self._sink = sink
        self._log = Log(sink)
        self._previous = False
        self._attempt = 0
        self._proven = b""
        self._reading: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    async def follow(self) -> bool:
        """Read to the end; True where the end was seen, False where the log was gone before.

        No fault of reading ends it, only the container's end or cancellation.
        """
        heads = asyncio.create_task(self._watch_heads(), name="joblog log heads")
        try:
            return await self._follow(heads)
        finally:
            heads.cancel()
            if self._reading is not None:
                self._reading.cancel()
            await asyncio.wait([task for task in (heads, self._reading) if task])

    async def _follow(self, heads: asyncio.Task[None]) -> bool:
        failures = 0
        while True:
            size = self._log.window.size
            error = await self._read_once(follow=True)
            state = await self._state()
            if state is InstanceState.GONE:
                return False
            if state is InstanceState.ENDED:
                heads.cancel()
                return await self._finish()
            if error is None or self._log.window.size > size or isinstance(error, (IdleTimeout, Misaligned)):
                failures = 0
            await wait_for(self._hurry, self._pause(error, failures))
            self._hurry.clear()
            failures += 1

    async def _finish(self) -> bool:
        """The container has ended: read what there is until a read brings nothing new."""
        failures = 0
        while True:
            size = self._log.window.size
            error = await self._read_once(follow=False)
            if error is None and self._log.window.size == size:
                return True
            if error is not None:
                if await self._state() is InstanceState.GONE or isinstance(error, Forbidden):
                    return False
                await asyncio.sleep(min(self._pause(error, failures), LAST_PAUSE))
                failures += 1

    def _pause(self, error: Exception | None, failures: int) -> float:
        if error is None or isinstance(error, Misaligned):
            return FIRST_PAUSE / 5 if failures < 3 else FIRST_PAUSE
        if isinstance(error, Forbidden):
            return FORBIDDEN_SECONDS
        asked = getattr(error, "retry_after", None) or 0.0
        return float(max(asked, min(LAST_PAUSE, FIRST_PAUSE * 2 ** min(failures, 5))))

    async def _state(self) -> InstanceState:
        failures = 0
        while True:
            try:
                state, self._previous = await self._look()
            except JobLogError as error:
                self._sink.trouble(str(error))
                await asyncio.sleep(min(LAST_PAUSE, FIRST_PAUSE * 2 ** min(failures, 5)))
                failures += 1
            else:
                return state

    async def _read_once(self, *, follow: bool) -> Exception | None:
        """One read; why it failed, or None."""
        self._reading = asyncio.create_task(self._read(follow=follow), name="joblog log read")
        try:
            await asyncio.wait([self._reading])
        except asyncio.CancelledError:
            self._reading.cancel()
            raise
        if self._reading.cancelled():
            return IdleTimeout("it waited on a log file that had been rotated")
        error = self._reading.exception()
        if isinstance(error, Misaligned):
            self._attempt = min(self._attempt + 1, len(TRIES) - 1)
            return error
        if error is None or isinstance(error, IdleTimeout):
            self._sink.trouble("")
        elif isinstance(error, (TransportError, RefusedError)):
            self._sink.trouble(str(error))
        else:
            raise error
        return error if isinstance(error, Exception) else None

    async def _read(self, *, follow: bool) -> None:
        back, candidate = TRIES[self._attempt]
        last = self._attempt == len(TRIES) - 1
        proven, self._proven = self._proven, b""
        since = self._log.window.since(back)
        follow = follow and not self._api.streams.locked()
        pod, container, namespace = self._where
        self._log.notice = b""
        async with (
            self._slot(follow=follow),
            self._api.open_log(
                pod, container, follow=follow, since=since, previous=self._previous, namespace=namespace
            ) as chunks,
        ):
            await self._still_ours()
            reading = Reading(self._log, back, candidate, last_try=last, proven=proven)
            async for chunk in chunks:
                reading.feed(chunk)
                await self._sink.room()
            reading.end()
        self._attempt = 0
        if self._log.notice:
            raise ApiError(self._log.notice.decode("utf-8", "replace").strip())

    async def _still_ours(self) -> None:
        """Make sure that an open answer is of this instance: names are used again, and instances follow.

        Raises:
            ApiError: It may be another one's.
        """
        state, previous = await self._look()
        if state is InstanceState.GONE or previous != self._previous:
            self._previous = previous
            raise ApiError("another instance of the container has taken its place")

    def _slot(self, *, follow: bool) -> asyncio.Semaphore:
        return self._api.streams if follow else asyncio.Semaphore()

    # -- rotations ------------------------------------------------------------------------------------

    async def _watch_heads(self) -> None:
        """See that no file of the log is skipped; only while text flows does the kubelet rotate."""
        rotations = Rotations(self._log)
        looked_at = -1
        while True:
            await asyncio.sleep(HEAD_SECONDS)
            size = self._log.window.size
            if not size or (size == looked_at and not rotations.ahead):
                continue
            stuck = size == looked_at
            with suppress(TransportError, RefusedError, NotStarted, NotFound):
                rotations.saw(await self._head())
            if rotations.missed():
                self._sink.gap("the log was rotated faster than it was read")
            if rotations.ahead and stuck and self._log.window.size == size and self._reading is not None:
                # It waits on a file that is drained: what follows on it is the next file's first line.
                self._proven = rotations.ahead
                self._reading.cancel()
                self._hurry.set()
            looked_at = size

    async def _head(self) -> bytes:
        pod, container, namespace = self._where
        head = b""
        async with self._api.open_log(
            pod, container, follow=False, limit=HEAD_BYTES, namespace=namespace
        ) as chunks:
            async for chunk in chunks:
                head += chunk
        return head
