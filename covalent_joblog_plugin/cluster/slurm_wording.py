# SPDX-License-Identifier: Apache-2.0
"""What to tell the user about a job that gave no result; pure."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .slurm_job import Job, JobEnd

LOG_LINES = 20

_STATES = {
    "OUT_OF_MEMORY": "it used more memory than it had asked for; raise `mem` in sbatch_options",
    "TIMEOUT": "it reached its time limit; raise `time` in sbatch_options",
    "NODE_FAIL": "its node failed; run it again, or set `requeue` in sbatch_options",
    "BOOT_FAIL": "its node could not be started; run it again",
    "PREEMPTED": "another job took its place; run it again, or use a partition without preemption",
    "DEADLINE": "it could not end before its deadline",
    "CANCELLED": "it was cancelled outside of Covalent (scancel, an administrator, or a broken dependency)",
    "REVOKED": "another cluster of the federation has it",
    "UNKNOWN": "it left the queue without a record of its end: its node may have failed, or its folder is "
    "not on a file system that the nodes and the login node share",
}
_LAUNCH = (
    "Slurm could not start it on its node: often `output` or `error` in sbatch_options names a folder that "
    "is not there; else the node's slurmd log says why, which an administrator can read"
)
_UNSEEN = (
    "it left nothing in its folder: workdir is not visible from its node, or private to each node; "
    "use a folder on a file system that the nodes and the login node share"
)
_UNRECORDED = (
    "its batch script left no record of its end: a line of setup_commands or teardown_commands ended it "
    "(exit, exec, set -e), or its folder is full or was removed"
)
_BEGINNING = frozenset({"PENDING", "CONFIGURING"})
_LIMIT = re.compile("Assoc|QOS|Max")
_QUOTA = re.compile("disk quota exceeded|no space left on device", re.IGNORECASE)


_REASONS = {
    "Resources": "it waits for free nodes, cores, memory or GPUs",
    "Priority": "jobs of higher priority go first",
    "Dependency": "it waits for another job",
    "DependencyNeverSatisfied": "the job that it depends on failed, so it will never start: cancel it",
    "BeginTime": "it may not begin before its begin time",
    "Licenses": "it waits for a licence",
    "Reservation": "it waits for its reservation to begin",
    "JobHeldUser": "it is held by its user: `scontrol release` lets it go",
    "JobHeldAdmin": "it is held by an administrator, who can release it",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition starts no jobs at present",
    "PartitionNodeLimit": "it asks for more nodes than its partition allows: change `nodes` or `partition`",
    "PartitionTimeLimit": "it asks for more time than its partition allows: change `time` or `partition`",
    "ReqNodeNotAvail": "a node that it needs is down, drained, or reserved for others",
    "BadConstraints": "no node is as it asks for: change sbatch_options",
    "NodeDown": "a node that it needs is down",
}
"""Slurm's reasons for not starting a job; of other ones the word itself must do."""
_LIVE = {
    "PENDING": "",
    "CONFIGURING": "its nodes are being made ready",
    "SUSPENDED": "it is suspended, and may go on later",
    "STOPPED": "it is stopped, and may go on later",
    "REQUEUED": "it was requeued and will start again",
    "REQUEUE_HOLD": "it was requeued and is held: `scontrol release` lets it go",
    "SPECIAL_EXIT": "it was requeued and is held: `scontrol release` lets it go",
}
_BEFORE_THE_FUNCTION = {
    73: "the job could not use its own folder",
    75: "another job runs in the same folder",
    78: "the setup of the job failed before the function began",
    127: "the Python of the job was not found where it ran; check python, modules and conda_env",
    143: "the job was cancelled before the function began",
}


def script_end(end: JobEnd, stderr: bytes) -> str:
    """Why the batch script ended before it ran the function; empty where it did not."""
    why = _BEFORE_THE_FUNCTION.get(end.status.code, "") if end.recorded and end.status else ""
    last = _last_lines(stderr)
    return "\n".join([why, "stderr ended with:", *last] if why and last else [why])


def waiting(job: Job) -> str:
    """Why a job does not run, as far as Slurm says; empty while it runs."""
    row = job.row
    # Its own sign of life is newer than what squeue said last.
    if row is None or row.state not in _LIVE or (row.state in _BEGINNING and job.execution in job.started):
        return ""
    reason = row.reason.strip("()")
    word = reason.partition(",")[0]
    limit = "a limit of its account, user or QOS is reached" if _LIMIT.match(word) else ""
    why = _LIVE[row.state] or _REASONS.get(word, limit)
    said = f"{why} ({reason})" if why and reason not in {"", "None"} else why or reason
    return f"Slurm job {row.job_id} is {row.state}{f': {said}' if said not in ('', 'None') else ''}"


def headline(job: Job, end: JobEnd) -> str:
    """State, reason and exit in a line, such as ``Slurm job 7 (train-1f) FAILED: exit code 3 on n7``."""
    parts = [str(end.status)] if end.status else []
    if end.reason and end.reason != "NonZeroExitCode":
        parts.append(f"reason {end.reason}")
    if end.execution:
        parts.append(f"after {end.execution} requeue{'s' if end.execution > 1 else ''}")
    if end.host:
        parts.append(f"on {end.host}")
    return f"Slurm job {job.job_id} ({job.name}) {end.state}: {', '.join(parts) or 'no exit code'}"


def cure(end: JobEnd, log: str, *, started: bool) -> str:
    """What the state means and what to do; empty where the headline says it all."""
    if _QUOTA.search(log):
        return "there is no room in workdir: free some, or use another workdir"
    if end.reason == "JobLaunchFailure" and not end.recorded and not (end.status and end.status.signal == 9):
        return _LAUNCH
    if end.reason == "JobLaunchFailure":
        return "its batch script was killed, often by the kernel's out-of-memory killer; raise `mem`"
    if not started and end.host and end.state in {"COMPLETED", "FAILED"}:
        return f"{_UNSEEN}; Slurm ran it on {end.host}"
    if started and not end.recorded and end.state in {"COMPLETED", "FAILED"}:
        return _UNRECORDED
    return _STATES.get(end.state, "")


def failure(job: Job, end: JobEnd, own: str, log: bytes, login: str) -> str:
    """All that is known.

    Args:
        job: The job.
        end: How it ended.
        own: What is known of the function itself; may be empty.
        log: The end of Slurm's own log of the job.
        login: How to reach the login node, such as ``ssh cluster``.
    """
    lines = [own, headline(job, end), cure(end, log.decode("utf-8", "replace"), started=bool(job.started))]
    if last := _last_lines(log):
        lines += ["slurm.log ended with:", *last]
    look = f"ls -l {shlex.quote(job.path)}"
    look = f"{login} {shlex.quote(look)}" if login else look
    lines.append(f"the job's folder, unless cleanup='always': {look}")
    return "\n".join(line for line in lines if line)


def _last_lines(text: bytes) -> list[str]:
    # Not splitlines(): it takes other characters for line ends, too.
    lines = text.decode("utf-8", "replace").split("\n")
    return [line for line in lines if line.strip()][-LOG_LINES:]
