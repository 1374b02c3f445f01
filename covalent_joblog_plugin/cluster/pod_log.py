# SPDX-License-Identifier: Apache-2.0
"""Follows the log of one container instance from its first byte to its end.

An answer that ends proves nothing: it ends with the container, with the kubelet, and with any proxy between.
So the pod is looked at after each, and a container that ended is read once more.
"""

from __future__ import annotations

import asyncio
import time
from enum import Enum
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import AuthenticationError, JobLogError

from .alignment import Misaligned
from .kubernetes_errors import ApiError, Forbidden, IdleTimeout, NotFound, Refused
from .log_reader import LogReader
from .log_sink import LogSink
from .pauses import back_off

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .kubernetes import Kubernetes

__all__ = ["InstanceState", "LogSink", "PodLog"]

POLL_SECONDS = 2.0
"""Between two reads of a log for which there is no stream left."""
LAST_BACK_OFF = 15.0
REFUSED_PAUSE, REFUSED_LOOK = 300.0, 10.0
"""When we may not read: seconds until the next attempt, and between looks whether that is still of use."""
KEPT_PATIENCE = 60.0
"""Seconds for which the log of an ended container may be missing before it counts as removed."""
UNREAD_ATTEMPTS = 3
"""Answers that do not fit what is known of the log's end, after which that counts as lost."""
LIVED_SECONDS = 10.0
"""A stream that lived so long did not fail."""


class InstanceState(Enum):
    """What is known of a container instance."""

    RUNNING = "running"
    ENDED = "ended"
    """It has terminated."""
    GONE = "gone"
    """Its pod was deleted, or the kubelet does not keep its log any more."""


class PodLog:
    """The log of one container instance.

    Args:
        api: The cluster.
        namespace: Of the pod.
        pod: Its name.
        container: Name of the container.
        look: Asks the cluster for the state of just this instance, and whether it is the previous one of its
            container by now.
        sink: Who wants the text.
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
        self._api, self._look, self._sink = api, look, sink
        self._name = f"{pod} ({container})"
        self._reader = LogReader(api, (namespace, pod, container), sink, self._ours)
        self._failures = 0

    async def follow(self) -> bool:
        """Read until all of it is in the sink; faults of reading are waited out.

        Returns:
            Whether the end was proved: the container has terminated, and a read after that brought nothing
            new. Else its log is gone or may not be read, and what came is all there will be. The sink was
            told of a gap then, unless the last answer had ended by itself: a pod that is deleted lets its
            container's last words through before it goes.
        """
        while True:
            state, self._reader.previous = await self._looked()
            if state is not InstanceState.RUNNING:
                return await self._finish()
            _, pause = await self._attempt(self._while_it_runs)
            await asyncio.sleep(pause)

    async def _while_it_runs(self) -> None:
        if self._api.streams.locked():
            await self._reader.read()
            await self._reader.check_head()
            await asyncio.sleep(POLL_SECONDS)
        else:
            async with self._api.streams:
                await self._reader.follow()

    async def _finish(self) -> bool:
        """The container has terminated: read until there is nothing new."""
        reader, had_all, missing_since, unread = self._reader, self._reader.complete, 0.0, 0
        while True:
            state, reader.previous = await self._looked()
            size = reader.size
            error, pause = await self._attempt(reader.read)
            had_all = had_all or reader.complete
            if state is InstanceState.GONE or isinstance(error, (Forbidden, Refused)):
                return self._give_up(str(error or reader.trouble), had_all)
            # A head that can be read shows that the kubelet was there, and what was begun after the text.
            if reader.ended_well and reader.size == size and await reader.check_head():
                if reader.complete and not reader.missed:
                    return True
                unread += 1
                if unread == UNREAD_ATTEMPTS:
                    return self._give_up("its last file was rotated away", had_all and not reader.missed)
            if isinstance(error, NotFound) or (error is None and not reader.ended_well):
                missing_since = missing_since or time.monotonic()
                if time.monotonic() - missing_since > KEPT_PATIENCE:
                    return self._give_up(str(error or reader.trouble), had_all)
            await asyncio.sleep(pause)

    def _give_up(self, why: str, had_all: bool) -> bool:
        if not had_all:
            why = why or "its pod was deleted, or its container's log was removed"
            self._sink.gap(f"the end of the log of {self._name} cannot be read: {why}")
        return False

    async def _ours(self) -> bool:
        state, previous = await self._looked()
        return state is not InstanceState.GONE and previous == self._reader.previous

    async def _looked(self) -> tuple[InstanceState, bool]:
        failures = 0
        while True:
            try:
                return await self._look()
            except JobLogError as error:
                self._reader.tell(str(error))
            await asyncio.sleep(_back_off(failures))
            failures += 1

    async def _attempt(self, read: Callable[[], Awaitable[None]]) -> tuple[JobLogError | None, float]:
        """Read; what it failed with, and how many seconds to wait before the next attempt."""
        began, size, reader = time.monotonic(), self._reader.size, self._reader
        error: JobLogError | None = None
        try:
            await read()
        except (Misaligned, IdleTimeout):
            pass
        except JobLogError as caught:
            error = caught
            reader.tell(str(error))
        if isinstance(error, (Forbidden, Refused)):
            await self._refused()
            return error, 0.0
        if reader.size > size or time.monotonic() - began > LIVED_SECONDS:
            self._failures = 0
            if error is None:
                return None, 0.0
        pause = _back_off(self._failures)
        self._failures += 1
        if isinstance(error, AuthenticationError):
            pause = LAST_BACK_OFF  # asking often with what was refused looks like an attack
        elif isinstance(error, ApiError) and error.retry_after is not None:
            pause = error.retry_after
        return error, pause

    async def _refused(self) -> None:
        """We may not read: not tried again soon, unless it is the last chance."""
        until = time.monotonic() + REFUSED_PAUSE
        while time.monotonic() < until:
            state, _ = await self._looked()
            if state is not InstanceState.RUNNING:
                return
            await asyncio.sleep(REFUSED_LOOK)


def _back_off(failures: int) -> float:
    return min(LAST_BACK_OFF, back_off(failures) / 2)
