# SPDX-License-Identifier: Apache-2.0
"""Follows the jobs of one endpoint: marker files through the reader, states by one squeue for all.

Neither a failed read nor a failed query says anything about a job.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import JobLogError, TransportError
from covalent_joblog_plugin.model.records import ReadRequest

from .pauses import back_off, wait_for
from .reader_source import MARKERS
from .slurm_states import (
    ACCOUNTING_FIELDS,
    FIELDS,
    parse_accounting,
    parse_record,
    parse_rows,
    parse_shown,
)
from .tracked_job import HURRY, TrackedJob

if TYPE_CHECKING:
    from .reader_source import ReaderSource
    from .slurm_far_side import FarCommands
    from .slurm_job import Job, JobEnd

log = logging.getLogger(__name__)

MARKER_WAIT = 30.0
"""Seconds one long poll for marker files may take."""
MARKER_BYTES = 1 << 20
MARKER_LOOKS = 50.0
"""Looks a second for all marker files."""
FASTEST_MARKERS, SLOWEST_MARKERS = 0.3, 4.8
GATHER = 0.1
"""Seconds in which questions about states are gathered into one."""
IDS_AT_ONCE = 500


class JobTracker:
    """Follows jobs from ``add`` to ``drop``.

    Args:
        reader: Reads the marker files.
        commands: Asks squeue.
        state_interval: Seconds between two questions about a job that simply runs.
    """

    def __init__(self, reader: ReaderSource, commands: FarCommands, state_interval: float) -> None:
        self._reader = reader
        self._commands = commands
        self._interval = state_interval
        self._jobs: dict[Job, TrackedJob] = {}
        self._markers_changed = asyncio.Event()
        self._states_wanted = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._by_user = True
        self.trouble = ""
        """Why Slurm's state is not known at the moment, and since when; empty when it is."""

    def add(self, job: Job) -> None:
        """Follow a submitted job."""
        if job in self._jobs:
            return
        end = asyncio.get_running_loop().create_future()
        self._jobs[job] = TrackedJob(job, end, time.monotonic() + HURRY)
        self._changed()
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._watch_markers(), name="joblog markers"),
                asyncio.create_task(self._ask_states(), name="joblog states"),
            ]

    def drop(self, job: Job) -> None:
        """Follow it no more."""
        if self._jobs.pop(job, None) is not None:
            self._changed()

    async def ended(self, job: Job) -> JobEnd:
        """Wait for the job's end; may be called again."""
        self.add(job)
        return await asyncio.shield(self._jobs[job].end)

    async def left_queue(self, job: Job) -> bool:
        """Whether the job has left the queue; returns after squeue's next answer.

        It may be asked in a loop: the answers come at once at first, then every ``ENDING_PACE`` seconds.
        """
        self.add(job)
        if not job.gone:
            tracked = self._jobs[job]
            if not job.leaving:
                job.leaving = True
                self._soon(tracked)
            tracked.answered.clear()
            await tracked.answered.wait()
        return job.gone

    def hurry(self, name: str) -> None:
        """Something was done to the job of that name: ask for its state soon."""
        for tracked in self._jobs.values():
            if tracked.job.name == name:
                self._soon(tracked)

    async def close(self) -> None:
        """Follow no job any more; who waits for an end is told."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks = []
        for tracked in self._jobs.values():
            if not tracked.end.done():
                tracked.end.set_exception(TransportError(f"job {tracked.job.name} is not followed any more"))
                tracked.end.exception()

    def _complain(self, what: str, error: Exception) -> None:
        expected = isinstance(error, JobLogError)
        log.log(logging.WARNING if expected else logging.ERROR, "%s: %s", what, error, exc_info=not expected)

    def _soon(self, tracked: TrackedJob) -> None:
        tracked.due, tracked.pace = time.monotonic(), HURRY
        self._states_wanted.set()

    def _changed(self) -> None:
        self._markers_changed.set()
        self._states_wanted.set()

    def _judge(self, tracked: TrackedJob) -> None:
        if not tracked.end.done() and (end := tracked.job.end(time.monotonic())) is not None:
            tracked.end.set_result(end)
            self._markers_changed.set()

    # -- marker files ---------------------------------------------------------------------------------

    async def _watch_markers(self) -> None:
        failures = 0
        while True:
            self._markers_changed.clear()
            owners, pace = self._wanted_markers()
            if not owners:
                await self._markers_changed.wait()
                continue
            try:
                await self._read_markers(owners, pace)
                failures = 0
            except Exception as error:  # noqa: BLE001 - without this loop jobs would be waited for for ever
                if not failures:
                    self._complain("jobs run on, but their marker files cannot be read", error)
                await asyncio.sleep(back_off(failures))
                failures += 1

    def _wanted_markers(self) -> tuple[dict[str, TrackedJob], dict[str, float]]:
        owners: dict[str, TrackedJob] = {}
        pace: dict[str, float] = {}
        for tracked in self._jobs.values():
            if tracked.end.done():
                continue
            for path, soon in tracked.job.markers().items():
                owners[path] = tracked
                if soon:
                    pace[path] = 0.0
        return owners, dict.fromkeys(pace, _marker_pace(len(pace)))

    async def _read_markers(self, owners: dict[str, TrackedJob], pace: dict[str, float]) -> None:
        requests = [ReadRequest(path, 0) for path in owners]
        reading = asyncio.ensure_future(self._reader.ask(MARKERS, requests, MARKER_WAIT, MARKER_BYTES, pace))
        changed = asyncio.ensure_future(self._markers_changed.wait())
        try:
            await asyncio.wait([reading, changed], return_when=asyncio.FIRST_COMPLETED)
            deltas = reading.result() if reading.done() else []
        finally:
            reading.cancel()
            changed.cancel()
            await asyncio.wait([reading, changed])
        whole = 0
        for delta in deltas:
            if record := parse_record(delta.data):
                whole += 1
                tracked = owners[delta.path]
                tracked.job.saw_marker(delta.path, record)
                if delta.path.endswith("/started"):
                    self._reader.expect_news({file.path for file in tracked.job.output_files()})
                if tracked.ending:
                    self._soon(tracked)
        # After all of them: the same answer may tell of an execution's end and of the next one's start.
        for path in [delta.path for delta in deltas]:
            self._judge(owners[path])
        if deltas and not whole:
            await asyncio.sleep(HURRY)  # seen half: a network file system will have the rest soon

    # -- states ---------------------------------------------------------------------------------------

    async def _ask_states(self) -> None:
        failures = 0
        while True:
            self._states_wanted.clear()
            due = min((tracked.due for tracked in self._asking()), default=None)
            pause = None if due is None else max(0.0, due - time.monotonic())
            if pause is None or pause > 0:
                await wait_for(self._states_wanted, pause)
                continue
            await asyncio.sleep(GATHER)
            try:
                await self._query()
                failures, self.trouble = 0, ""
            except Exception as error:  # noqa: BLE001 - the same
                if not failures:
                    self.trouble = f"Slurm is not answering since {time.strftime('%H:%M:%S')}: {error}"
                    self._complain("jobs run on, but Slurm is not answering", error)
                await asyncio.sleep(back_off(failures))
                failures += 1

    def _asking(self) -> list[TrackedJob]:
        submitted = [tracked for tracked in self._jobs.values() if tracked.job.job_id is not None]
        return [t for t in submitted if not t.end.done() or (t.job.leaving and not t.job.gone)]

    async def _query(self) -> None:
        """Ask for all jobs at once.

        Raises:
            TransportError: There is no good answer.
        """
        asked = time.monotonic()
        jobs = self._asking()
        rows = {}
        for argv in self._argvs([t.job.job_id for t in jobs if t.job.job_id is not None]):
            # Without -a the jobs of a hidden partition are left out.
            done = await self._commands.call("squeue", "-h", "-a", "-t", "all", "-O", FIELDS, *argv)
            if done.exit_status and self._by_user and "--me" in done.err:
                self._by_user = False
                return
            if done.exit_status:
                raise TransportError(
                    f"squeue: {done.err.strip() or 'it said nothing'} (exit {done.exit_status})"
                )
            rows.update(parse_rows(done.out))
        for tracked in jobs:
            tracked.job.saw_row(rows.get(tracked.job.job_id or 0), asked)
        lost = [tracked.job for tracked in jobs if tracked.job.lost]
        await self._consult_accounting([job for job in lost if not await self._alive(job, asked)], asked)
        for tracked in jobs:
            self._answered(tracked)

    async def _alive(self, job: Job, asked: float) -> bool:
        """Whether the controller still has a job that squeue does not list: some sites' squeue lags."""
        shown = await self._commands.call("scontrol", "-a", "-o", "show", "job", str(job.job_id))
        if (row := parse_shown(shown.out)) is not None:
            job.saw_row(row, asked)
        return row is not None

    async def _consult_accounting(self, lost: list[Job], asked: float) -> None:
        """Ask sacct, which many sites do not have, for jobs that squeue has forgotten."""
        if not lost:
            return
        ids = ",".join(str(job.job_id) for job in lost)
        done = await self._commands.call("sacct", "-n", "-X", "-P", "-j", ids, "-o", ACCOUNTING_FIELDS)
        rows = parse_accounting(done.out) if not done.exit_status else {}
        for job in lost:
            if (row := rows.get(job.job_id or 0)) is not None:
                job.saw_accounting(row, asked)

    def _answered(self, tracked: TrackedJob) -> None:
        job = tracked.job
        tracked.warn_once()
        tracked.pace = tracked.next_pace(self._interval)
        if not tracked.end.done() and job.gone:
            tracked.pace = HURRY
        tracked.due = time.monotonic() + tracked.pace
        tracked.answered.set()
        if job.execution != tracked.execution:
            tracked.execution = job.execution
            self._markers_changed.set()
        self._judge(tracked)

    def _argvs(self, ids: list[int]) -> list[list[str]]:
        if self._by_user:
            return [["--me"]]
        chunks = [ids[at : at + IDS_AT_ONCE] for at in range(0, len(ids), IDS_AT_ONCE)]
        # A single id that Slurm has forgotten is an error, a list of them is not.
        return [["-j", ",".join(map(str, chunk * 2 if len(chunk) == 1 else chunk))] for chunk in chunks]


def _marker_pace(files: int) -> float:
    """Longest time in seconds between two looks at a marker file: half of the looks allowed are for them."""
    pace = FASTEST_MARKERS
    while pace < files / MARKER_LOOKS and pace < SLOWEST_MARKERS:
        pace *= 2
    return pace
