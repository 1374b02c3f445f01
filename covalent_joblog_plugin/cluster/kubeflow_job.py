# SPDX-License-Identifier: Apache-2.0
"""A job on Kubeflow as we know it: what was asked for, and which container instances it has had."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.records import FileRef

from .workload import NAME_CHARACTERS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from covalent_joblog_plugin.model.records import StreamCounts

    from .instance_output import InstanceOutput
    from .workload import ContainerInstance, JobPhase, Workload, WorkloadSpec

PAYLOAD = "covalent-joblog/payload-sha256"
"""Annotation that tells our job of that name from another one."""
UNSTARTABLE, CONTAINER_FAILED = "Unstartable", "ContainerFailed"
GIVEN_UP = {UNSTARTABLE, CONTAINER_FAILED}
"""Reasons of our own for ending the wait for a job that Kubernetes does not call ended."""


def job_name(label: str, dispatch_id: str, node_id: int) -> str:
    """The name of a node's job: the same whenever it is asked for, so that a create can be repeated."""
    slug = re.sub("[^a-z0-9]+", "-", label.lower()).strip("-") or "task"
    mark = hashlib.sha256(f"{dispatch_id}/{node_id}".encode()).hexdigest()[:10]
    tail = f"-{node_id}-{mark}"
    slug = slug[: NAME_CHARACTERS - len(tail)].strip("-")
    # RFC 1035: it begins with a letter.
    return (slug if slug[:1].isalpha() else f"j{slug}"[: NAME_CHARACTERS - len(tail)]) + tail


@dataclass(slots=True, eq=False)
class Instance:
    """One container instance of a rank.

    Attributes:
        seen: What Kubernetes said of it last.
        execution: Which start of the rank it is.
        output: Where its log goes.
        reading: The task that reads it.
        superseded: Whether a later instance of the same pod runs, so that this one is the previous.
        gone: Whether Kubernetes does not know it any more.
    """

    seen: ContainerInstance
    execution: int
    output: InstanceOutput
    reading: asyncio.Task[None] | None = None
    superseded: bool = False
    gone: bool = False

    @property
    def ended(self) -> bool:
        """Whether it has terminated, or is gone."""
        return self.gone or self.seen.state == "terminated"

    @property
    def succeeded(self) -> bool:
        """Whether it ended well by itself: one that was told to go may have to do it all again."""
        return self.seen.exit_code == 0 and self.seen.deleted is None

    def path(self, stream: str) -> str:
        """What the stream is called at the endpoint."""
        return f"{self.seen.pod_uid}/{self.seen.container_id}/{stream}"


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended.

    Attributes:
        phase: Of the job's object; None where it is gone.
        reason: Its reason, such as ``ReachedMaxRestarts``, or why it was given up.
        message: The same in words.
        ranks: The last instance of every rank that had one.
        unstarted: Why ranks without one did not start; empty when that is not known.
    """

    phase: JobPhase | None
    reason: str
    message: str
    ranks: Mapping[int, Instance]
    unstarted: str = ""

    @property
    def given_up(self) -> bool:
        """Whether its end was not waited for: as long as the job is there, it may run, or run on."""
        return self.reason in GIVEN_UP


@dataclass(slots=True, eq=False)
class Job:
    """A job, known before it is created.

    Attributes:
        workload: Its kind.
        spec: What is to be created.
        secret: Payload: key → text.
        framing: Whether our runner frames its output.
        counts: Reads the runner's counts out of a termination message.
        instances: Rank → its container instances in the order of their starts.
        waiting: Why it does not run yet; empty when it does or that is not known.
    """

    workload: Workload
    spec: WorkloadSpec
    secret: Mapping[str, str]
    framing: bool
    counts: Callable[[str], StreamCounts | None]
    uid: str = ""
    instances: dict[int, list[Instance]] = field(default_factory=dict)
    waiting: str = ""

    @property
    def name(self) -> str:
        """Its name, deterministic."""
        return self.spec.name

    def handle(self) -> dict[str, Any]:
        """What finds it again, as JSON."""
        spec = self.spec
        return {
            "kind": self.workload.kind,
            "namespace": spec.namespace,
            "name": spec.name,
            "num_nodes": spec.num_nodes,
        }

    def files(self) -> list[FileRef]:
        """The streams of every rank and execution so far."""
        return [
            FileRef(instance.path(stream), stream=stream, rank=rank, execution=instance.execution)
            for rank, instances in self.instances.items()
            for instance in instances
            for stream in instance.output.spools
        ]
