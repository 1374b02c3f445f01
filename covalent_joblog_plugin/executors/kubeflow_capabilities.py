# SPDX-License-Identifier: Apache-2.0
"""What can be done with the output of a Kubeflow job, and which rights decide it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.capabilities import YES, Answer, Capabilities, Capability
from covalent_joblog_plugin.model.errors import SubmissionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalent_joblog_plugin.cluster.kubeflow_job import Job
    from covalent_joblog_plugin.cluster.kubernetes import Kubernetes

log = logging.getLogger(__name__)

GROUPS = {"TrainJob": ("trainer.kubeflow.org", "trainjobs"), "PyTorchJob": ("kubeflow.org", "pytorchjobs")}
_NOT_SPLIT = "framing=False leaves the log as it is, and the log API of Kubernetes merges both streams"
_NOT_COUNTED = (
    "framing=False: nobody counts, containerd drops the CR of CRLF, and an unfinished line shows when it ends"
)


@dataclass(frozen=True, slots=True)
class Rights:
    """What we may do in the job's namespace.

    Attributes:
        logs: Whether logs may be read.
        namespace: Where.
    """

    logs: bool
    namespace: str


async def rights(api: Kubernetes, kind: str) -> Rights:
    """Ask what we may do, before anything runs.

    Raises:
        SubmissionError: A right is missing without which no job can be run; all that are missing are named.
        TransportError: The cluster cannot be reached.
    """
    group, plural = GROUPS[kind]
    verbs = ["create", "get", "delete", *(["patch"] if kind == "TrainJob" else [])]
    needed = [
        *((verb, group, plural) for verb in verbs),
        ("list", "", "pods"),
        ("create", "", "secrets"),
    ]
    logs, *may = await asyncio.gather(
        api.can_i("get", "", "pods", "log"), *(api.can_i(*right) for right in needed)
    )
    missing = [
        f"{verb} {resource}{'.' + of if of else ''}"
        for (verb, of, resource), held in zip(needed, may, strict=True)
        if not held
    ]
    if missing:
        raise SubmissionError(
            f"these rights are missing in namespace {api.namespace}: {', '.join(missing)}; an administrator "
            f"can give them with kubectl apply -n {api.namespace} -f examples/02-kubeflow/role.yaml and a "
            "RoleBinding. Nothing was submitted"
        )
    return Rights(logs, api.namespace)


def before(*, framing: bool, rights: Rights | None = None) -> Capabilities:
    """What is known before the job runs.

    Args:
        framing: Whether our runner frames the output.
        rights: What we may do; None while that is not known.
    """
    unknown = Capability(Answer.UNKNOWN, "the cluster has not been asked yet")
    found = Capabilities(read=unknown, follow=unknown, retained=YES)
    if not framing:
        found = replace(
            found,
            split_streams=Capability(Answer.NO, _NOT_SPLIT),
            complete=Capability(Answer.UNKNOWN, _NOT_COUNTED),
        )
    else:
        found = replace(found, complete=Capability(Answer.UNKNOWN, "it is counted when the job has ended"))
    if rights is None:
        return found
    if rights.logs:
        return replace(found, read=YES, follow=YES)
    refused = Capability(Answer.NO, f"needs get pods/log in namespace {rights.namespace}")
    return replace(found, read=refused, follow=refused, retained=refused, complete=refused)


def _stored(job: Job, stored: Mapping[str, int]) -> bool:
    return all(
        stored.get(instance.path(stream), 0) >= spool.size
        for instances in job.instances.values()
        for instance in instances
        for stream, spool in instance.output.spools.items()
    )


def _completeness(job: Job, stored: Mapping[str, int]) -> Capability:
    outputs = [instance.output for instances in job.instances.values() for instance in instances]
    no, unknown = Answer.NO, Answer.UNKNOWN
    for applies, answer, why in (
        (not outputs, unknown, "no container was ever started"),
        (
            any(output.complete is False for output in outputs),
            no,
            "what was read is not what the job wrote: the seams tell where and how much is missing",
        ),
        (not _stored(job, stored), no, "not all that was read is stored: the seams tell why, and where"),
        (
            not all(spool.ended for output in outputs for spool in output.spools.values()),
            unknown,
            "the output was not read to its end within final_read_timeout",
        ),
        (
            any(output.complete is None for output in outputs),
            unknown,
            "a container was killed before it could say how much it wrote",
        ),
    ):
        if applies:
            return Capability(answer, why)
    return YES


def after(job: Job, rights: Rights | None, stored: Mapping[str, int]) -> Capabilities:
    """What is known when the job has ended and its output was read.

    Args:
        job: The job.
        rights: What we may do; None where that was not asked.
        stored: Path of each of the job's files → bytes of it that are stored.
    """
    found = before(framing=job.framing, rights=rights)
    if found.complete.answer is Answer.NO or not job.framing:
        return found
    return replace(found, complete=_completeness(job, stored))
