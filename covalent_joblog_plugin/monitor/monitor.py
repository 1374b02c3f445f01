# SPDX-License-Identifier: Apache-2.0
"""The loop of one endpoint: one round trip a tick for all its nodes.

The source answers when something has grown. While one answer is being stored the next request is already
on its way. A failed read is no information: it backs off, is tried again from the same positions, and never
touches the task.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import AuthenticationError, JobLogError
from covalent_joblog_plugin.model.records import Seam, SeamKind
from covalent_joblog_plugin.store import node_output
from covalent_joblog_plugin.store.items import Reading
from covalent_joblog_plugin.store.node_output import SeamAt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from covalent_joblog_plugin.model.records import Delta, ReadRequest
    from covalent_joblog_plugin.model.source import DeltaSource

    from .lanes import Lane
    from .watch import Pending, Watch

log = logging.getLogger(__name__)

LONG_POLL = 30.0
"""Seconds a source may keep a request before it answers that nothing is new."""
ANSWER_BYTES = 4 * 1024 * 1024
PROBE_PAUSE = 0.1
"""Seconds between two polls that ask whether a file is at its end."""
IDLE_PAUSE = 1.0
"""Seconds between two questions for files while there are none."""
STORE_PAUSE = 1.0
"""Seconds before a node is read again whose text the store could not take."""
FIRST_BACKOFF, LAST_BACKOFF = 1.0, 60.0
FINAL_BACKOFF = 5.0
"""Longest pause in seconds after a failed read while a node's end is read, which does not wait for ever."""

Asked = dict[str, "list[tuple[Watch, Lane]]"]
"""Who gets the answer for a path."""


class Monitor:
    """Reads all nodes of one endpoint, from the first ``add`` until the last ``remove``."""

    def __init__(self, source: DeltaSource) -> None:
        self.source = source
        self.trouble = ""
        """Why reading fails at the moment, and since when; empty when it does not."""
        self.answered: float | None = None
        """When the source answered last, Unix seconds; None before the first answer."""
        self._watches: list[Watch] = []
        self._changed = asyncio.Event()
        self._progress = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self._cut_short = False

    def add(self, watch: Watch) -> None:
        """Begin to read a node."""
        self._watches.append(watch)
        watch.output.reading = lambda: Reading(self.answered, self.trouble, watch.lanes.sources())
        self._changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="joblog monitor")

    def remove(self, watch: Watch) -> None:
        """Stop reading a node; what was read and not yet stored is dropped."""
        if watch in self._watches:
            self._watches.remove(watch)
            watch.output.reading = None
            self._changed.set()

    def files_changed(self, watch: Watch) -> None:
        """Ask now which files a node has: there may be new ones."""
        watch.files_changed()
        self._changed.set()

    async def finish(self, watch: Watch, writers_gone: Callable[[], Awaitable[bool]], timeout: float) -> None:
        """Read a node to its end, after its job is over, and stop reading it.

        Done when the cluster says that nobody writes any more and two reads in a row after that had
        nothing new, or after ``timeout`` seconds; then a seam says that the end may be missing.
        """
        watch.finishing = True
        self.files_changed(watch)
        try:
            await asyncio.wait_for(self._read_to_end(watch, writers_gone), timeout)
            await self._say_unreadable(watch)
        except asyncio.TimeoutError:
            await self._say_incomplete(watch, timeout)
        finally:
            self.remove(watch)

    async def _read_to_end(self, watch: Watch, writers_gone: Callable[[], Awaitable[bool]]) -> None:
        while not await writers_gone():  # noqa: ASYNC110 - it is the cluster that must be asked again
            await asyncio.sleep(PROBE_PAUSE)
        watch.prove_end()
        self._changed.set()
        async with self._progress:
            await self._progress.wait_for(lambda: watch.at_end)

    async def stop(self) -> None:
        """End the loop and close the source."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self.source.close()

    async def _say_incomplete(self, watch: Watch, timeout: float) -> None:
        self.remove(watch)
        reason = self.trouble or str(watch.output.trouble or "") or "the files were still growing"
        message = f"the end of the output may be missing: not read to the end within {timeout:g} s ({reason})"
        lanes = [lane for lane in watch.open_lanes() if not lane.position.empties] or watch.open_lanes()
        seams = [Seam(SeamKind.INCOMPLETE, message, execution=lane.position.ref.execution) for lane in lanes]
        await node_output.write(
            [(watch.output, SeamAt(lane.output, seam)) for lane, seam in zip(lanes, seams, strict=True)]
        )

    async def _say_unreadable(self, watch: Watch) -> None:
        seams = [
            (lane, f"the end of the output may be missing: {position.ref.path}: {position.problem}")
            for lane in watch.open_lanes()
            if (position := lane.position).problem
        ]
        if seams:
            await node_output.write(
                [(watch.output, SeamAt(lane.output, Seam(SeamKind.INCOMPLETE, text))) for lane, text in seams]
            )

    async def _run(self) -> None:
        storing: asyncio.Task[None] | None = None
        while True:
            try:
                asked, deltas = await self._read()
                if storing is not None:
                    stored, storing = storing, None  # should it raise, it does so once
                    await stored
                storing = self._store(asked, deltas)
                self._failures, self.trouble = 0, ""
            except Exception as error:  # noqa: BLE001 - a source may be an author's code: nothing may end the loop
                await self._back_off(error)
            async with self._progress:
                self._progress.notify_all()

    async def _read(self) -> tuple[Asked, Sequence[Delta]]:
        """One round trip; a change of what is watched cuts a long poll short, which loses nothing."""
        while True:
            self._changed.clear()
            requests, asked = self._plan()
            probing = any(watch.probing for watch in self._watches)
            if not requests:
                await self._pause(PROBE_PAUSE if probing else IDLE_PAUSE)
                return {}, []
            # A poll is let be: where nodes come and go all the time, every answer would be given up.
            poll = probing or self._cut_short
            reading = asyncio.ensure_future(
                self.source.read_deltas(requests, 0.0 if poll else LONG_POLL, ANSWER_BYTES)
            )
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait(
                    [reading] if poll else [reading, changed], return_when=asyncio.FIRST_COMPLETED
                )
                self._cut_short = not reading.done()
                if not self._cut_short:
                    deltas = reading.result()
                    self.answered = time.time()
                    if probing and not any(delta.data for delta in deltas):
                        await asyncio.sleep(PROBE_PAUSE)
                    return asked, deltas
            finally:
                changed.cancel()
                reading.cancel()
                await asyncio.wait([reading, changed])

    def _plan(self) -> tuple[list[ReadRequest], Asked]:
        now = asyncio.get_running_loop().time()
        requests: dict[str, ReadRequest] = {}
        asked: Asked = {}
        for watch in self._watches:
            watch.refresh(now)
            if watch.retry_at > now:
                continue
            for request, lane in watch.requests():
                known = requests.get(request.path)
                # Two nodes may read one file; the one that is behind reads alone until they are level.
                if known is None or request.pos < known.pos:
                    requests[request.path], asked[request.path] = request, [(watch, lane)]
                elif request.pos == known.pos:
                    asked[request.path].append((watch, lane))
                    if request.now:
                        requests[request.path] = request
        return list(requests.values()), asked

    async def _pause(self, seconds: float) -> None:
        """Wait, but not when what is watched changes."""
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait([changed], timeout=seconds)
        finally:
            changed.cancel()

    def _store(self, asked: Asked, deltas: Sequence[Delta]) -> asyncio.Task[None] | None:
        work: list[tuple[Watch, Pending]] = []
        for delta in deltas:
            for watch, lane in asked.get(delta.path, ()):
                work.extend((watch, pending) for pending in watch.accept(lane, delta))
        if not work:
            return None
        return asyncio.create_task(self._write(work), name="joblog store")

    async def _write(self, work: list[tuple[Watch, Pending]]) -> None:
        taken = await node_output.write([(watch.output, pending.item) for watch, pending in work])
        retry_at = asyncio.get_running_loop().time() + STORE_PAUSE
        for (watch, pending), size in zip(work, taken, strict=True):
            watch.stored(pending, size, retry_at)
            if watch.output.trouble is not None:
                watch.complain(str(watch.output.trouble))

    async def _back_off(self, error: Exception) -> None:
        if not self._failures:
            since = time.strftime("%H:%M:%S")
            self.trouble = f"not answering since {since}: {error}"
            level = logging.WARNING if isinstance(error, JobLogError) else logging.ERROR
            log.log(
                level, "reading output fails (the tasks go on): %s", error, exc_info=level > logging.WARNING
            )
        delay = min(LAST_BACKOFF, FIRST_BACKOFF * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        await self._hold_off(error, delay * random.uniform(0.5, 1.0))  # noqa: S311 - jitter

    async def _hold_off(self, error: Exception, seconds: float) -> None:
        """Wait, at most ``FINAL_BACKOFF`` where a node's end waits; who refuses us is not hurried."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            self._changed.clear()
            hurry = any(watch.finishing for watch in self._watches)
            most = FINAL_BACKOFF if hurry and not isinstance(error, AuthenticationError) else seconds
            rest = begun + min(seconds, most) - loop.time()
            if rest <= 0:
                return
            await self._pause(rest)
