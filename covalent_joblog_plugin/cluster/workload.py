# SPDX-License-Identifier: Apache-2.0
"""What a kind of Kubeflow job is to us: the few things in which TrainJob and PyTorchJob differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAME_CHARACTERS = 45
"""Longest name of a job: Kubeflow appends ``-node-0-<index>-<5 characters>``, and the sum may have 63."""


class Api(Protocol):
    """The one thing of the API client that is needed here."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """Ask the API server; a refusal raises one of ``kubernetes_errors``, which tells its ``status``."""


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """What is to run; plain data in Kubernetes' own words.

    Attributes:
        name: Of the job; at most 45 characters, see ``NAME_CHARACTERS``.
        namespace: Where it is created.
        labels: Of the job's object, and so not of its pods.
        annotations: Of the job's object.
        image: Container image; None for the runtime's own, which only a TrainJob has.
        command: What the container runs instead of the image's entry point.
        environment: Variable → value, which arrives as it is: Kubernetes' ``$(NAME)`` is not expanded.
        secret_environment: Variable → (name of the Secret, key in it).
        num_nodes: Pods; each has a node rank, 0 to ``num_nodes - 1``.
        resources: ``{"requests": {…}, "limits": {…}}``, or a flat mapping such as ``{"cpu": "4"}`` which is
            then taken for both.
        runtime: Name of the TrainJob's runtime; no other kind has one.
        runtime_kind: ``ClusterTrainingRuntime`` or ``TrainingRuntime``.
        service_account: Of the pods; empty for the namespace's default.
        pod_labels: Of the pods.
        pod_annotations: Of the pods.
        volumes: As in a pod's specification.
        volume_mounts: Of the job's container, as in a pod's specification.
        image_pull_secrets: Names of Secrets.
        node_selector: As in a pod's specification.
        tolerations: As in a pod's specification.
        priority_class: Name of a priority class; empty for none.
        pod_patch: Part of a pod template, ``{"metadata": {…}, "spec": {…}}``, merged over all of the above as
            ``kubectl patch`` would (a strategic merge: containers, volumes and the like by name).
        queue: Name of Kueue's local queue; empty without Kueue. Kueue then decides when the job runs, so
            that ``suspend`` is neither set nor changed by us.
        active_deadline: Seconds after which the cluster ends the job; None for never.
        termination_grace: Seconds between SIGTERM and SIGKILL; None for the runtime's, or Kubernetes' own 30.
        suspend: Whether the job is created suspended and waits for ``Workload.resume``, if its kind can.
    """

    name: str
    namespace: str
    image: str | None
    command: Sequence[str]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    secret_environment: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    num_nodes: int = 1
    resources: Mapping[str, Any] = field(default_factory=dict)
    runtime: str = ""
    runtime_kind: str = "ClusterTrainingRuntime"
    service_account: str = ""
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    volumes: Sequence[Mapping[str, Any]] = ()
    volume_mounts: Sequence[Mapping[str, Any]] = ()
    image_pull_secrets: Sequence[str] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()
    priority_class: str = ""
    pod_patch: Mapping[str, Any] = field(default_factory=dict)
    queue: str = ""
    active_deadline: int | None = None
    termination_grace: int | None = None
    suspend: bool = True


class JobPhase(Enum):
    """Where a job stands, by its own object; what its containers did is told by its pods."""

    SUSPENDED = "suspended"
    PENDING = "pending"
    """Created; nothing of it is known to run."""
    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"

    @property
    def open(self) -> bool:
        """Whether it can still change."""
        return self not in {JobPhase.COMPLETE, JobPhase.FAILED}


@dataclass(frozen=True, slots=True)
class JobState:
    """What a job's object says of the job.

    Attributes:
        phase: Where it stands.
        reason: Of the condition that says so, such as ``DeadlineExceeded``; may be empty.
        message: The same condition in the controller's words; may be empty.
    """

    phase: JobPhase
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ContainerInstance:
    """One start of the container that runs the function, and the pod it is in.

    A pod whose container has not been started has one instance too, without ``container_id``.

    Attributes:
        rank: Node rank; None where the pod's labels do not tell.
        pod: Name of the pod.
        pod_uid: Which pod: names are used again.
        attempt: Of the JobSet (its ``restart-attempt``); 0 for other kinds.
        restart_count: Which start of the container in this pod it is, 0, 1, …
        container_id: Such as ``containerd://…``; empty as long as it was never started.
        state: As Kubernetes says.
        waiting_reason: Such as ``ImagePullBackOff``; empty unless waiting.
        waiting_message: The same in words.
        exit_code: Of the terminated container; 128 + n where signal n ended it.
        signal: Where the container runtime tells it apart; most do not.
        reason: Why it terminated, such as ``OOMKilled`` or ``Error``.
        image: What it runs or is to run; empty where the node has not said so yet.
        message: Its termination message: what it wrote to ``/dev/termination-log``, at most 4096 bytes.
        started_at: RFC 3339; None where unknown.
        finished_at: RFC 3339; None where unknown.
        restart_policy: Of the pod.
        deleted: When the pod was told to go, RFC 3339; None where it was not.
        pod_phase: ``Pending``, ``Running``, ``Succeeded``, ``Failed`` or ``Unknown``.
        pod_reason: Why the pod ended, such as ``Evicted`` or ``DeadlineExceeded``; else empty.
        pod_message: The same in words.
        why_waiting: Why it does not run, and what to do, said of the pod, whose name is not in it; what is
            before the first parenthesis is the kind of trouble. Empty when it runs, ran, or starts as usual.
        unstartable: Whether it will not start unless somebody helps.
    """

    rank: int | None
    pod: str
    pod_uid: str
    attempt: int = 0
    restart_count: int = 0
    container_id: str = ""
    state: Literal["waiting", "running", "terminated"] = "waiting"
    waiting_reason: str = ""
    waiting_message: str = ""
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    image: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    restart_policy: str = "Always"
    deleted: str | None = None
    pod_phase: str = "Pending"
    pod_reason: str = ""
    pod_message: str = ""
    why_waiting: str = ""
    unstartable: bool = False


class Workload(Protocol):
    """A kind of job. An object of it serves one job: ``prepare`` it before asking for a manifest.

    Attributes:
        kind: Such as ``TrainJob``.
        group: API group, such as ``trainer.kubeflow.org``.
        version: Such as ``v1alpha1``.
        plural: As in paths and for ``kubectl``, such as ``trainjobs``.
        container: The container that runs the function.
    """

    kind: str
    group: str
    version: str
    plural: str
    container: str

    async def prepare(self, api: Api, spec: WorkloadSpec) -> None:
        """Find out how the served version wants the job to be written; nothing is created.

        Raises:
            OptionError: The served version cannot take an option.
            SubmissionError: The cluster would refuse the job.
            TransportError: The cluster cannot be reached.
        """

    def manifest(self, spec: WorkloadSpec) -> dict[str, Any]:
        """The object to create (with ``fieldValidation=Strict``).

        Raises:
            OptionError: No such job can be written.
        """

    async def resume(self, api: Api, spec: WorkloadSpec) -> None:
        """Let a job run that was created suspended; nothing is done where Kueue decides that."""

    def path(self, namespace: str, name: str = "") -> str:
        """Of a job at the API server, or of all jobs of a namespace."""

    def state(self, job: Mapping[str, Any]) -> JobState:
        """What its object says of it."""

    def pod_query(self, name: str) -> dict[str, str]:
        """Query that lists its pods, such as ``{"labelSelector": …}``."""

    def rank(self, pod: Mapping[str, Any]) -> int | None:
        """A pod's node rank; None where its labels do not tell."""

    def instances(self, pod: Mapping[str, Any]) -> list[ContainerInstance]:
        """The container's instances that Kubernetes still knows of: the last ended one and the newest."""
