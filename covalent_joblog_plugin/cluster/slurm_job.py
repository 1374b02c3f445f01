# SPDX-License-Identifier: Apache-2.0
"""One Slurm job of ours: what it is made of, what is known of it, how it ended."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.records import FileRef

from .job_script import ScriptSpec
from .slurm_states import (
    REQUEUE_GRACE,
    ExitStatus,
    JobRow,
    Meaning,
    decode_shell_status,
    decode_wait_status,
    meaning,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

MARKER_GRACE = 3.0
"""Seconds in which a record that was written before the job's end must have become visible."""
VANISHED_GRACE = 60.0
"""The same where nothing else tells how the job ended: caches of network file systems take so long."""
UNLISTED_ANSWERS = 3
"""Good answers of squeue without the job before it counts as gone."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job to submit.

    Attributes:
        label: What people call it; begins its name in the queue.
        workdir: Folder on the cluster below which it gets a folder; ``~`` and ``$NAME`` may begin it.
        folder: Names of its own folder below that, such as ``("4f2a…", "0")``; a unique part is added.
        files: The files it needs: name → bytes.
        script: What its batch script does.
        sbatch_options: Argv for sbatch.
        own_output: Whether Slurm's own output goes to ``slurm.log`` in the folder.
        export_environment: Whether it inherits the environment of the ssh session.
    """

    label: str
    workdir: str
    folder: tuple[str, ...]
    files: Mapping[str, bytes]
    script: ScriptSpec = field(default_factory=ScriptSpec)
    sbatch_options: tuple[str, ...] = ()
    own_output: bool = True
    export_environment: bool = False


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended.

    Attributes:
        state: Slurm's state; ``UNKNOWN`` where it left the queue without a trace.
        reason: Slurm's reason; empty for none.
        status: How the batch script ended; None where nobody knows.
        execution: Which start of it that was.
        host: Where that ran; empty when it did not.
        recorded: Whether the job's own record of its end was there.
    """

    state: str
    reason: str = ""
    status: ExitStatus | None = None
    execution: int = 0
    host: str = ""
    recorded: bool = False


@dataclass(slots=True, eq=False)
class Job:
    """A job and what is known of it.

    Attributes:
        spec: What was asked for.
        name: Its unique name in the queue.
        folder: Its folder below ``spec.workdir``.
        path: The absolute path of its folder; empty until it is submitted.
        job_id: Slurm's id; None until it is submitted.
        execution: The newest start of it that is known of.
        started: Records of its starts, by execution.
        exits: Records of its ends, by execution.
        ranks: How many ranks it has, by execution; told by its step.
        row: What squeue said last; None while it has said nothing of it.
        answered: When squeue gave the last good answer after its submission; monotonic seconds.
        unlisted: Good answers in a row without it.
        first: When something was first seen: a final state (by its name), or the job unlisted.
        leaving: Whether it is over and only its way out of the queue is of interest.
    """

    spec: JobSpec
    name: str
    folder: str
    path: str = ""
    job_id: int | None = None
    execution: int = 0
    started: dict[int, dict[str, str]] = field(default_factory=dict)
    exits: dict[int, dict[str, str]] = field(default_factory=dict)
    ranks: dict[int, dict[str, str]] = field(default_factory=dict)
    row: JobRow | None = None
    answered: float = 0.0
    unlisted: int = 0
    first: dict[str, float] = field(default_factory=dict)
    leaving: bool = False

    @classmethod
    def of(cls, spec: JobSpec) -> Job:
        """Name a new job."""
        unique = secrets.token_hex(6)
        label = _UNSAFE.sub("_", spec.label)[:40].strip("_") or "job"
        parts = [_UNSAFE.sub("_", part).lstrip(".") or "_" for part in spec.folder]
        return cls(spec, f"{label}-{unique}", "/".join(parts) + f"-{unique}")

    def handle(self) -> dict[str, Any]:
        """All that is needed to find it again; JSON."""
        return {
            "name": self.name,
            "dir": self.path or f"{self.spec.workdir}/{self.folder}",
            "id": self.job_id,
        }

    def execution_folder(self, execution: int) -> str:
        """Folder of one start."""
        return f"{self.path}/x{execution:03d}"

    def output_files(self) -> list[FileRef]:
        """The files its text is in, of all executions known of; rank 0's are the node's own."""
        files = []
        for execution in range(self.execution + 1):
            box = self.execution_folder(execution)
            files.append(FileRef(f"{box}/stdout", None, "stdout", 0, execution))
            files.append(FileRef(f"{box}/stderr", None, "stderr", 0, execution))
            for rank in range(1, self._tasks(execution)):
                files.append(FileRef(f"{box}/rank{rank}.stdout", None, "stdout", rank, execution))
                files.append(FileRef(f"{box}/rank{rank}.stderr", None, "stderr", rank, execution))
        return [*files, *self._own_logs()]

    def _tasks(self, execution: int) -> int:
        told = self.ranks.get(execution) or self.exits.get(execution) or {}
        return int(told.get("tasks", 1))

    def _own_logs(self) -> list[FileRef]:
        if self.spec.own_output:
            return [FileRef(f"{self.path}/slurm.log", "slurm.log")]
        # The user chose the file: what procfs said inside the job is its real name, whatever the pattern.
        found = {record[name] for record in self.started.values() for name in ("output", "error")}
        return [FileRef(path, path.rpartition("/")[2]) for path in sorted(found) if path.startswith("/")]

    def markers(self) -> dict[str, bool]:
        """Marker files to look for → whether they are to be seen soon."""
        wanted: dict[str, bool] = {}
        current = self.execution_folder(self.execution)
        if self.execution not in self.started:
            wanted[f"{current}/started"] = True
        elif self.execution not in self.exits:
            wanted[f"{current}/exit"] = True
            if self.spec.script.use_srun and self.execution not in self.ranks:
                wanted[f"{current}/ranks"] = True
        wanted[f"{self.execution_folder(self.execution + 1)}/started"] = False
        return wanted

    def saw_marker(self, path: str, record: dict[str, str]) -> None:
        """Take in a marker file."""
        box, _, kind = path.removeprefix(f"{self.path}/x").partition("/")
        execution = int(box)
        {"started": self.started, "exit": self.exits, "ranks": self.ranks}[kind][execution] = record
        self.execution = max(self.execution, execution)

    def saw_row(self, row: JobRow | None, asked: float) -> None:
        """Take in a good answer of squeue, asked at ``asked`` (monotonic seconds); None: not listed."""
        self.answered = asked
        if row is None:
            self.unlisted += 1
            self.first.setdefault("unlisted", asked)
            return
        self.unlisted = 0
        self.first.pop("unlisted", None)
        if self.row is None or (self.row.state, self.row.restarts) != (row.state, row.restarts):
            self.first[row.state] = asked
        self.row = row
        self.execution = max(self.execution, row.restarts)

    @property
    def lost(self) -> bool:
        """Whether it is not listed any more although nothing tells how it ended."""
        return bool(self.unlisted) and self.execution not in self.exits and not self._final

    def saw_accounting(self, row: JobRow, asked: float) -> None:
        """Take in what sacct says of a job that is over."""
        self.row = row
        self.first.setdefault(row.state, asked)

    @property
    def gone(self) -> bool:
        """Whether it has left the queue, and its processes with it."""
        if self.unlisted and (self.row is not None or self.execution in self.exits):
            return True
        return self._final

    @property
    def _final(self) -> bool:
        return self.row is not None and meaning(self.row.state) in (Meaning.FINAL, Meaning.FINAL_LATER)

    def end(self, now: float) -> JobEnd | None:  # noqa: PLR0911 - a table of cases, one a line
        """How it ended, as soon as that is certain; ``now`` in monotonic seconds."""
        record = self.exits.get(self.execution)
        status = decode_shell_status(int(record.get("rc", 1))) if record else None
        if status is not None and not status:
            return self._end("COMPLETED", status)
        if self.unlisted:
            if record:  # unless it was requeued: the next start's record may be a moment behind
                over = now - self.first["unlisted"] >= MARKER_GRACE
                return self._end("FAILED", status) if over else None
            grace = MARKER_GRACE if self._final else VANISHED_GRACE
            over = self.unlisted >= UNLISTED_ANSWERS and now - self.first["unlisted"] >= grace
            return (
                self._end(self.row.state if self.row and self._final else "UNKNOWN", None) if over else None
            )
        if self.row is None or self.row.restarts > self.execution:
            return None
        what, since = meaning(self.row.state), now - self.first[self.row.state]
        if what is Meaning.FINAL_LATER:
            return self._end(self.row.state, status) if since >= REQUEUE_GRACE else None
        if what is not Meaning.FINAL:
            return None
        if record or self.execution not in self.started:
            grace = 0.0 if record or self.row.state != "COMPLETED" else VANISHED_GRACE
        else:
            grace = VANISHED_GRACE if self.row.state == "COMPLETED" else MARKER_GRACE
        return self._end(self.row.state, status) if since >= grace else None

    def _end(self, state: str, status: ExitStatus | None) -> JobEnd:
        row, record = self.row, self.exits.get(self.execution)
        if status is None and row is not None and row.wait_status:
            status = decode_wait_status(row.wait_status)
        host = self.started.get(self.execution, {}).get("host", "") or (row.nodes if row else "")
        reason = row.reason if row is not None and state == row.state else ""
        return JobEnd(state, reason, status, self.execution, host, record is not None)
