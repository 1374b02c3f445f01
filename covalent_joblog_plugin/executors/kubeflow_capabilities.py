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


def after(job: Job, rights: Rights | None) -> Capabilities:
    """What is known when the job has ended and its output was read."""
    found = before(framing=job.framing, rights=rights)
    if found.complete.answer is Answer.NO or not job.framing:
        return found
    outputs = [instance.output for instances in job.instances.values() for instance in instances]
    if not outputs:
        return replace(found, complete=Capability(Answer.UNKNOWN, "no container was ever started"))
    if any(output.complete is False for output in outputs):
        why = "the job wrote more than could be read: the seams tell where and how much"
        return replace(found, complete=Capability(Answer.NO, why))
    if any(output.complete is None for output in outputs):
        why = "a container was killed before it could say how much it wrote"
        return replace(found, complete=Capability(Answer.UNKNOWN, why))
    return replace(found, complete=YES)
