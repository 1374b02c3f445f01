# SPDX-License-Identifier: Apache-2.0
"""Jobs and files of one Slurm login node: submit, follow, read, cancel, clean up."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import AuthenticationError, SubmissionError, TransportError
from covalent_joblog_plugin.model.records import ReadRequest

from .job_script import job_script
from .pauses import SUBMIT_PATIENCE, back_off, worth_another
from .reader_source import ReaderSource
from .slurm_far_side import FarCommands
from .slurm_job import Job
from .slurm_states import FIELDS, parse_rows
from .slurm_tracker import JobTracker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from covalent_joblog_plugin.model.records import Delta

    from .reader_source import ReaderMode
    from .shell import Shell
    from .slurm_job import JobEnd, JobSpec
    from .slurm_states import JobRow

log = logging.getLogger(__name__)

SCRIPT = "job.sh"
FETCH_BYTES = 4 * 1024 * 1024
LIMIT_PAUSE = 30.0
_LIMIT = re.compile("MaxSubmit|submit limit|job submit/size limit", re.IGNORECASE)
_OVER = re.compile("invalid job id|already completing or completed", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """How to talk to one Slurm.

    Attributes:
        reader: How files are read: ``auto``, ``channel`` or ``exec``.
        log_interval: Seconds between two reads where nothing stays on the login node.
        state_interval: Seconds between two questions about a job that simply runs.
        slurm_path: Folder to look for Slurm's commands in first; empty for none.
        sbatch_command: What submits.
        clusters: Value of Slurm's ``-M``; empty for none.
    """

    reader: ReaderMode = "auto"
    log_interval: float = 5.0
    state_interval: float = 30.0
    slurm_path: str = ""
    sbatch_command: tuple[str, ...] = ("sbatch",)
    clusters: str = ""


class SlurmCluster:
    """One endpoint; the ``DeltaSource`` of all its jobs."""

    def __init__(self, shell: Shell, settings: SlurmSettings | None = None) -> None:
        self._shell = shell
        self._settings = settings or SlurmSettings()
        self._commands = FarCommands(shell, self._settings.slurm_path, self._settings.clusters)
        self._reader = ReaderSource(shell, self._settings.reader, self._settings.log_interval)
        self._tracker = JobTracker(self._reader, self._commands, self._settings.state_interval)
        self._reached = False

    # -- files ----------------------------------------------------------------------------------------

    async def read_deltas(
        self, requests: Sequence[ReadRequest], wait: float, max_bytes: int
    ) -> Sequence[Delta]:
        """See ``DeltaSource``."""
        return await self._reader.read_deltas(requests, wait, max_bytes)

    async def fetch(self, path: str) -> bytes | None:
        """A whole file that nobody writes to any more; None when it is not there.

        The connection is made again as often as it takes.
        """
        parts: list[bytes] = []
        pos = failures = 0
        with self._reader.slot() as slot:
            while True:
                try:
                    (delta,) = await self._reader.ask(slot, [ReadRequest(path, pos)], 0, FETCH_BYTES)
                except TransportError as error:
                    log.debug("%s: %s", path, error)
                    await asyncio.sleep(back_off(failures))
                    failures += 1
                    continue
                if delta.size is None:
                    return None
                failures = 0
                parts.append(delta.data)
                pos += len(delta.data)
                if pos >= delta.size:
                    return b"".join(parts)

    async def tail(self, path: str, size: int) -> bytes:
        """The last bytes of a file, at most ``size``; empty when it cannot be read."""
        with self._reader.slot() as slot, suppress(TransportError):
            (delta,) = await self._reader.ask(slot, [ReadRequest(path, 0, 1)], 0, FETCH_BYTES)
            start = max(0, (delta.size or 0) - size)
            (delta,) = await self._reader.ask(slot, [ReadRequest(path, start, size)], 0, FETCH_BYTES)
            return delta.data
        return b""

    async def close(self) -> None:
        """See ``DeltaSource``."""
        await self._tracker.close()
        await self._reader.close()
        await self._shell.close()

    # -- jobs -----------------------------------------------------------------------------------------

    def prepare(self, spec: JobSpec) -> Job:
        """Name a job before it is submitted, so that it can be found again whatever happens; no I/O."""
        return Job.of(spec)

    async def submit(self, job: Job, abandoned: Callable[[], bool] = lambda: False) -> None:
        """Make the job's folder and submit it, in one command; then ``path`` and ``job_id`` are known.

        ``job_id`` stays None when ``abandoned()`` turns true before Slurm took the job. Where an attempt may
        still be on its way, its end is waited for: nothing is left in the queue that nobody knows of.

        Where it is not certain whether Slurm took the job, its unique name is looked up before it is
        submitted again.

        Raises:
            SubmissionError: Slurm or the login node refuses it; nothing runs.
            TransportError: The login node cannot be reached.
            AuthenticationError: It refuses us.
        """
        names = {**job.spec.files, SCRIPT: job_script(job.spec.script).encode()}
        task = self._submission(job, {name: len(data) for name, data in names.items()})
        deadline, failures = time.monotonic() + SUBMIT_PATIENCE, 0
        while not abandoned() or failures:
            task["only_adopt"] = abandoned()
            answer = await self._attempt(job, task, list(names.values()), failures, deadline)
            if "id" in answer:
                job.path, job.job_id = answer["dir"], answer["id"]
                if answer["adopted"]:
                    log.info("job %s had been taken as %d already", job.name, job.job_id)
                self._tracker.add(job)
                return
            if answer.get("none"):
                return
            failures += 1
            task["again"] = True
            await asyncio.sleep(answer.get("pause", back_off(failures)))

    async def ended(self, job: Job) -> JobEnd:
        """Wait for the end of a submitted job, however long Slurm does not answer meanwhile."""
        return await self._tracker.ended(job)

    async def left_queue(self, job: Job) -> bool:
        """Whether the job's processes are gone; waits for Slurm's next answer."""
        return await self._tracker.left_queue(job)

    def forget(self, job: Job) -> None:
        """Follow the job no more."""
        self._tracker.drop(job)

    async def row(self, job: Job) -> JobRow | None:
        """What Slurm says of a job now; None when it does not list it.

        Raises:
            TransportError: There is no good answer.
        """
        # A single id that Slurm has forgotten is an error, a list of them is not.
        number = str(job.job_id)
        done = await self._commands.call("squeue", "-h", "-a", "-O", FIELDS, "-j", f"{number},{number}")
        if done.exit_status:
            raise TransportError(f"squeue: {done.err.strip() or 'it said nothing'} (exit {done.exit_status})")
        return parse_rows(done.out).get(job.job_id or 0)

    @property
    def trouble(self) -> str:
        """Why Slurm's states are not known at the moment; empty when they are."""
        return self._tracker.trouble

    async def cancel(self, handle: dict[str, Any]) -> None:
        """End a job known by its handle alone; tried until Slurm has answered.

        Args:
            handle: What ``Job.handle`` gave; ``id`` may be None, then its unique name finds it.
        """
        argv = [str(handle["id"])] if handle.get("id") is not None else ["--name", handle["name"]]
        failures = 0
        while True:
            try:
                done = await self._commands.call("scancel", *argv)
                if not done.exit_status or _OVER.search(done.err):
                    break
                reason = done.err.strip()
            except TransportError as error:
                reason = str(error)
            if not failures:
                log.warning(
                    "job %s cannot be cancelled yet (%s); trying on. By hand: scancel %s",
                    handle["name"], reason, " ".join(argv),
                )  # fmt: skip
            await asyncio.sleep(back_off(failures))
            failures += 1
        self._tracker.hurry(handle["name"])

    async def look(self, task: dict[str, Any]) -> dict[str, Any]:
        """What jobs need on the login node, see ``remote_look``; changes nothing.

        Raises:
            TransportError: The login node cannot be reached.
        """
        return await self._commands.look(task)

    async def remove(self, job: Job) -> list[str]:
        """Remove the job's folder, but nothing in it that is not ours; returns at most 20 names of the rest.

        Raises:
            TransportError: The login node cannot be reached or refuses.
        """
        return await self._commands.remove(job.path)

    def _submission(self, job: Job, files: dict[str, int]) -> dict[str, Any]:
        comment = f"--comment={job.folder}"
        return {
            "workdir": job.spec.workdir,
            "folder": job.folder,
            "name": job.name,
            "files": list(files.items()),
            "sbatch": list(self._settings.sbatch_command),
            "options": [f"--job-name={job.name}", comment, *job.spec.sbatch_options],
            "output": job.spec.own_output,
            "script": SCRIPT,
            "clean": not job.spec.export_environment,
            "again": False,
            "only_adopt": False,
        }

    async def _attempt(
        self, job: Job, task: dict[str, Any], files: list[bytes], failures: int, deadline: float
    ) -> dict[str, Any]:
        """One attempt; an answer without an id means: try again."""
        try:
            answer = await self._commands.submit(task, files)
        except AuthenticationError:
            raise
        except TransportError as error:
            if not worth_another(deadline, failures, reached=self._reached):
                raise
            log.info("job %s: %s", job.name, error)
            return {}
        self._reached = True
        if (refusal := answer.get("refused")) is not None:
            if not _LIMIT.search(refusal):
                raise SubmissionError(f"the job {job.name} was not submitted: {refusal}")
            log.warning("job %s waits to be submitted: %s", job.name, refusal)
            return {"pause": LIMIT_PAUSE}
        if "doubt" in answer:
            log.warning("job %s: %s; looking whether it was taken", job.name, answer["doubt"])
            if time.monotonic() > deadline:
                raise SubmissionError(
                    f"it is not known whether the job {job.name} was submitted: {answer['doubt']}; "
                    f"look with `squeue --name {job.name}`"
                )
        return answer
