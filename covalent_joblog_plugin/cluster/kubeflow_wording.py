# SPDX-License-Identifier: Apache-2.0
"""What to tell the user about a Kubeflow job that gave no result; pure."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from .kubeflow_job import UNSTARTABLE
from .workload import JobPhase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .kubeflow_job import Instance, Job, JobEnd
    from .workload import ContainerInstance, JobState

RANKS = 8
"""Ranks an error text tells of."""
_NO_START = {"StartError", "ContainerCannotRun"}
_STOPPED = {143, 137}
"""Exit codes of a container whose pod was told to go: by SIGTERM, or by SIGKILL when its time was over."""
_JOB = {
    "DeadlineExceeded": "the job reached its deadline: raise it, or the runtime's activeDeadlineSeconds",
    "TrainingRuntimeNotSupported": "this Trainer does not serve that kind of runtime: use another runtime",
    "Deleted": "run the node again, and ask who or what deletes jobs in this namespace",
}
_POD_DELETED = (
    "its pod was deleted, which nothing in it asked for: run the node again, and ask who or what deletes "
    "pods in this namespace"
)
_CONTAINER = {
    "OOMKilled": "the function used more memory than its limit: raise memory in resources",
    "ContainerStatusUnknown": "its machine lost sight of it: the machine may have failed; run the node again",
    "Evicted": "its machine ran short of something: ask for what it needs in resources",
    "Preempting": "a job of higher priority took its place: run it again, or set priority_class",
    "PreemptionByScheduler": "a job of higher priority took its place: run it again, or set priority_class",
    "DeletionByTaintManager": "its machine was taken out of service or failed: run the node again",
    "DeadlineExceeded": "its pod reached its activeDeadlineSeconds: raise it where its template is",
    "DeletionByPodGC": "its machine is gone: run the node again",
    "EvictionByEvictionAPI": "its pod was evicted, as when a machine is drained: run the node again",
    "TerminationByKubelet": "its machine was shut down or ran short of something: run the node again",
    "NodeLost": "its machine does not answer any more: run the node again",
}


def first_failed(end: JobEnd) -> Instance | None:
    """The instance whose failure came first; None where none failed.

    Then come those that vanished before their end was seen: one of them may be why the others were told to
    go, which come last.
    """
    failed = [
        known
        for known in end.ranks.values()
        if known.seen.exit_code or (known.gone and known.seen.exit_code is None)
    ]
    return min(
        failed,
        key=lambda k: (
            _told_to_go(k.seen),
            k.seen.exit_code is None,
            k.seen.finished_at or "~",
            k.seen.rank or 0,
        ),
        default=None,
    )


def _told_to_go(seen: ContainerInstance) -> bool:
    """Whether it ended because its pod was to go; what it exits with is its own choice then."""
    if seen.deleted is None or seen.exit_code is None or seen.reason == "OOMKilled":
        return False
    return seen.exit_code in _STOPPED or (seen.finished_at or "") > seen.deleted


def exit_text(seen: ContainerInstance) -> str:
    """How a container ended, such as ``exit code 3`` or ``signal 11 (SIGSEGV)``."""
    code = seen.exit_code
    if code is None:
        return "no exit code known"
    number = seen.signal or code - 128
    reason = f", {seen.reason}" if seen.reason not in {"", "Error", "Completed"} else ""
    if number in set(signal.Signals):
        return f"signal {number} ({signal.Signals(number).name}){reason}"
    return f"exit code {code}{reason}"


def headline(job: Job, end: JobEnd) -> str:
    """State, reason and exit in a line: ``TrainJob train-1f in namespace ml FAILED: FailedJobs, …``."""
    state = end.phase.name if end.phase else "GONE"
    parts = [end.reason] if end.reason else []
    if first := first_failed(end):
        parts.append(f"rank {first.seen.rank}: {exit_text(first.seen)}")
        if first.execution:
            parts.append(f"after {first.execution} restart{'s' if first.execution > 1 else ''}")
    told = f": {', '.join(parts)}" if parts else ""
    return f"{job.workload.kind} {job.name} in namespace {job.spec.namespace} {state}{told}"


def cure(job: Job, end: JobEnd) -> str:
    """What the end means and what to do; empty where the headline says it all."""
    first = first_failed(end)
    if first is not None:
        seen = first.seen
        if seen.reason in _NO_START:
            return f"{_program(job, seen)} cannot be started{_told(seen.message)}"
        for reason, told in ((seen.reason, ""), (seen.pod_reason, seen.pod_message)):
            if reason in _CONTAINER:
                return f"{_CONTAINER[reason]}{f' ({told.strip()})' if told else ''}"
    if end.reason in _JOB:
        return _JOB[end.reason]
    if first is None:
        return ""
    return _POD_DELETED if _told_to_go(first.seen) or first.seen.exit_code is None else ""


def no_python(job: Job, seen: ContainerInstance) -> str:
    """What to tell where a container ended, and our runner did not say how it went."""
    return (
        f"{_program(job, seen)} ended with {exit_text(seen)} and did not run our runner: it must start "
        "Python 3.8 or later"
    )


def _program(job: Job, seen: ContainerInstance) -> str:
    """What was to start Python, and where."""
    named = f"python={job.spec.command[0]!r}" if job.spec.command else "python="
    return f"{named} in image {seen.image or job.spec.image}"


def _told(message: str) -> str:
    return f": {message.strip()}" if message.strip() else ""


def failure(job: Job, end: JobEnd, own: str, removal: str = "") -> str:
    """All that is known.

    Args:
        job: The job.
        end: How it ended.
        own: What is known of the function itself; may be empty.
        removal: What was done to a job that was given up; empty where nothing was.
    """
    unstarted = end.unstarted if len(end.ranks) < job.spec.num_nodes else ""
    known = cure(job, end)
    lines = [own, headline(job, end), _message(end), "" if known in own else known]
    lines += [*_other_ranks(end), unstarted]
    if end.reason == UNSTARTABLE and unstarted:
        lines.insert(0, lines.pop())
    return "\n".join([line for line in lines if line] + [removal or where_to_look(job)])


def _message(end: JobEnd) -> str:
    """The controller's words, unless they only say that something failed of which more is known."""
    return "" if end.reason == "FailedJobs" and first_failed(end) else end.message


def why_waiting(job: Job, state: JobState | None, found: Sequence[ContainerInstance], idle: str) -> str:
    """Why a job does not run yet, or no more, and what to do; empty when it does, or that is not known.

    Args:
        job: The job.
        state: What its object says; None where it is gone.
        found: Its container instances.
        idle: Why it has no pods, or its pods no containers, where that is known.
    """
    if state is not None and not state.phase.open:
        return ""
    if state is not None and state.phase is JobPhase.SUSPENDED:
        return _suspended(job)
    return "; ".join(_summaries(job, [seen for seen in found if seen.why_waiting])) or idle


def no_pods(job: Job) -> str:
    """What to tell of a job without pods of which no event says why: Trainer writes it into its log alone."""
    return (
        f"{job.workload.kind} {job.name} has no pods yet, and no event tells why: if it stays so, the log of "
        f"the controller for {job.workload.group} does; values in resources or pod_patch that no pod can "
        "have are refused there"
    )


def _summaries(job: Job, waiting: Sequence[ContainerInstance]) -> list[str]:
    """What pods wait for: once for all that wait for the same, in the words of the one that says most."""
    groups: dict[str, list[ContainerInstance]] = {}
    for seen in waiting:
        groups.setdefault(seen.why_waiting.partition(" (")[0], []).append(seen)
    total = job.spec.num_nodes
    return [
        f"{f'pod {group[0].pod}' if len(group) == 1 else f'{len(group)} of {total} pods'}: "
        f"{max((seen.why_waiting for seen in group), key=len)}"
        for group in groups.values()
    ]


def _suspended(job: Job) -> str:
    kind, spec = job.workload, job.spec
    what = f"{kind.kind} {job.name} is suspended"
    if spec.queue:
        return (
            f"{what} until Kueue's queue {spec.queue} has room for it; kubectl -n {spec.namespace} get "
            "workloads tells more"
        )
    return (
        f"{what}, by somebody or by a queue of the cluster's; it goes on when they resume it (suspend: false "
        f"in kubectl -n {spec.namespace} edit {kind.plural}.{kind.group} {job.name})"
    )


def where_to_look(job: Job) -> str:
    """The commands that show more."""
    kind, namespace = job.workload, job.spec.namespace
    pods = kind.pod_query(job.name)["labelSelector"]
    return (
        f"as long as it is kept: kubectl -n {namespace} describe {kind.plural}.{kind.group} {job.name}; "
        f"kubectl -n {namespace} describe pods -l {pods}"
    )


def _other_ranks(end: JobEnd) -> list[str]:
    first = first_failed(end)
    others = [end.ranks[rank] for rank in sorted(end.ranks) if end.ranks[rank] is not first]
    failed = [
        known for known in others if known.seen.exit_code or (known.gone and known.seen.exit_code is None)
    ]
    lines = [f"rank {known.seen.rank} (pod {known.seen.pod}): {_other(known)}" for known in failed[:RANKS]]
    more = len(failed) - RANKS
    return [*lines, f"… and {more} more ranks"] if more > 0 else lines


def _other(known: Instance) -> str:
    if known.seen.exit_code is None:
        return "its pod was removed before its end was seen"
    return f"{exit_text(known.seen)}{', when its pod was told to go' if _told_to_go(known.seen) else ''}"
