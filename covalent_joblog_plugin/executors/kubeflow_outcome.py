# SPDX-License-Identifier: Apache-2.0
"""The result of a Kubeflow job that has ended, or all that is known of why there is none."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.cluster import kubeflow_wording
from covalent_joblog_plugin.cluster.workload import JobPhase
from covalent_joblog_plugin.model.errors import JobFailed, PayloadError
from covalent_joblog_plugin.payload import bundle, object_store, pod_bundle, pod_wording, verdict
from covalent_joblog_plugin.payload.threads import in_own_thread, in_thread
from covalent_joblog_plugin.payload.wording import error_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from covalent_joblog_plugin.cluster.kubeflow_job import Instance, Job, JobEnd
    from covalent_joblog_plugin.model.records import Stream
    from covalent_joblog_plugin.payload.pod_bundle import PodVerdict

log = logging.getLogger(__name__)

STORE_PATIENCE = 30.0
"""Seconds the deletion of an object may hold up a node's end."""


async def result(
    job: Job, end: JobEnd, read_to_end: Callable[[], Awaitable[None]], patience: float, removal: str = ""
) -> Any:
    """Rank 0's value, not unpickled.

    Args:
        job: The job.
        end: How it ended.
        read_to_end: Waits until the logs of all its containers have been read.
        patience: Seconds to wait for that.
        removal: What was done to a job that was given up; empty where nothing was.

    Raises:
        JobFailed: There is none; the text says all that is known.
        PayloadError: The result is damaged, or did not fit where it was to go.
    """
    leader = end.ranks.get(0)
    found = _verdict(leader)
    ended_well = end.phase is JobPhase.COMPLETE and all(i.seen.exit_code == 0 for i in end.ranks.values())
    if leader is None or found is None or found.verdict.kind != "ok" or not ended_well:
        await _wait(read_to_end, patience)
        raise _failure(job, end, removal)
    archive = await _archive(job, leader, found, read_to_end, patience)
    return await in_thread(bundle.load_result, archive, found.verdict)


async def clear_store(job: Job, *, taken: bool) -> None:
    """Delete what an ended job has in its store. A failure is only told.

    Args:
        job: The job.
        taken: Whether nobody wants its results any more; else they stay, for they may be the work of days.
    """
    messages = [known.seen.message for known in job.instances.get(0, ())] if taken else []
    for url in pod_bundle.stored_objects(job.secret, messages):
        try:
            await asyncio.wait_for(in_own_thread(object_store.delete, url), STORE_PATIENCE)
        except PayloadError as error:
            log.warning("%s: an object stays in the store: %s", job.name, error)
        except asyncio.TimeoutError:
            patience = f"{STORE_PATIENCE:g} s"
            shown = object_store.shown(url)
            log.warning(
                "%s: %s stays in the store, which does not answer within %s", job.name, shown, patience
            )


def over_time(job: Job, end: JobEnd, seconds: float) -> JobFailed:
    """The job was ended by us."""
    text = f"it ran longer than time_limit={seconds:g} seconds and was deleted: raise time_limit"
    return JobFailed("\n".join([text, kubeflow_wording.headline(job, end)]))


def _verdict(instance: Instance | None) -> PodVerdict | None:
    if instance is None or not instance.seen.message:
        return None
    try:
        return pod_bundle.parse_pod_verdict(instance.seen.message)
    except PayloadError:
        return None  # the termination message of somebody else: the runner did not get that far


async def _archive(
    job: Job,
    leader: Instance,
    found: PodVerdict,
    read_to_end: Callable[[], Awaitable[None]],
    patience: float,
) -> bytes:
    if found.where == "inline":
        return pod_bundle.inline_result(found)
    if found.where == "store":
        if "store" not in job.secret:
            raise PayloadError(
                f"the result of {found.verdict.size} bytes is in the store that the task was run with: give "
                "the executor the same store="
            )
        return await in_thread(partial(object_store.get, pod_bundle.stored_result(job.secret, found)))
    if found.where == "frames":
        await _wait(read_to_end, patience)
        archive = pod_bundle.frames_result([(f.seq, f.n, f.payload) for f in leader.output.frames])
        if archive is not None:
            return archive
        why = leader.output.problem or "the node's log was rotated or removed before they were read"
        raise PayloadError(
            f"the result of {found.verdict.size} bytes came by the log, and parts of it are missing: {why}; "
            "set store= for results, and run the node again"
        )
    raise PayloadError(pod_wording.overflow_text(found, framing=job.framing))


async def _wait(read_to_end: Callable[[], Awaitable[None]], patience: float) -> None:
    try:
        await asyncio.wait_for(read_to_end(), patience)
    except asyncio.TimeoutError:
        return


def _failure(job: Job, end: JobEnd, removal: str) -> JobFailed:
    first = kubeflow_wording.first_failed(end)
    if first is None and _verdict(end.ranks.get(0)) is not None:
        first = end.ranks[0]  # it ended as if all were well, and left no value
    found = _verdict(first)
    own = ""
    if first is not None and (found is not None or first.seen.exit_code):
        own = _words(job, end, first, found)
    elif end.phase is JobPhase.COMPLETE and not any(_verdict(known) for known in end.ranks.values()):
        own = _ran_elsewhere(job)
    text = kubeflow_wording.failure(job, end, own, removal)
    return verdict.CannotBegin(text) if found and found.verdict.before_user_code else JobFailed(text)


def _words(job: Job, end: JobEnd, first: Instance, found: PodVerdict | None) -> str:
    """What is known of the function on the rank that failed first."""
    seen, spools, status = first.seen, first.output.spools, _status(first)
    cause = kubeflow_wording.cure(job, end)
    if found is None and status > 0 and not cause:
        cause = kubeflow_wording.no_python(job, seen)
    stream: Stream = "stderr" if job.framing else "log"
    tail = spools[stream].tail
    if found is None and not tail:  # what is not our runner's has no mark that says stderr
        tail = spools["stdout" if job.framing else "log"].tail
    whole = f"the node's {'stderr' if job.framing else 'stdout'}"
    if seen.rank:
        whole = f"rank{seen.rank}.{stream} of the node"
    return error_text(found.verdict if found else None, status, tail, cause=cause, whole=whole)


def _ran_elsewhere(job: Job) -> str:
    python = f"python={job.spec.command[0]!r}" if job.spec.command else "python="
    lines = [
        "the job is complete, but none of its nodes tells that it ran the function",
        f"does {python} start Python in the image?",
    ]
    if job.spec.runtime:
        lines.append(
            "a runtime for MPI runs it in a launcher instead, which this executor does not serve: if "
            f"{job.spec.runtime_kind} {job.spec.runtime} is one, use another"
        )
    return "\n".join(lines)


def _status(instance: Instance) -> int:
    """Exit status as ``subprocess`` gives it: -n where signal n ended the process."""
    code = instance.seen.exit_code or 0
    return 128 - code if 128 < code < 128 + 65 else code
