# SPDX-License-Identifier: Apache-2.0
"""PyTorchJob of the Training Operator v1 (``kubeflow.org/v1``): one Master, the other nodes Workers.

The pod template is ours, so that every setting is possible. It is never created suspended: to resume it would
take the right to patch, which the documented Role does not give; its pods wait for the Secret instead.

A failed pod of a job with one node stays. With more nodes all pods are deleted when one fails.

A deadline of the job acts only at the next event of one of its pods, and deletes them before it is said that
the job failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import OptionError

from .dry_run import UnknownFields, dry_run, unknown_options
from .manifests import job_metadata, merge, pod_template
from .pod_states import condition, instances
from .workload import JobPhase, JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .workload import Api, ContainerInstance, WorkloadSpec

_LABEL = "training.kubeflow.org/"
_ENDS = {"Failed": JobPhase.FAILED, "Succeeded": JobPhase.COMPLETE}
"""Condition → phase; the first that is true counts. Succeeded only says that the Master has."""
_POD = {"spec": {"automountServiceAccountToken": False}}
"""What pods are given unless ``pod_patch`` says otherwise: the function has no business with the API."""


class PyTorchJob:
    """See ``Workload``."""

    kind = "PyTorchJob"
    group = "kubeflow.org"
    version = "v1"
    plural = "pytorchjobs"
    container = "pytorch"

    async def prepare(self, api: Api, spec: WorkloadSpec) -> None:
        """See ``Workload``."""
        try:
            await dry_run(api, self, spec, self.manifest(spec))
        except UnknownFields as unknown:
            raise unknown_options(spec, unknown.fields, _not_taken) from unknown

    def manifest(self, spec: WorkloadSpec) -> dict[str, Any]:
        """See ``Workload``."""
        if not spec.image:
            raise OptionError("image: a PyTorchJob has no runtime that names one: set image=")
        template = merge(_POD, pod_template(spec, self.container))
        replicas = {"Master": 1, "Worker": spec.num_nodes - 1}
        policy: dict[str, Any] = {"cleanPodPolicy": "None"}
        if spec.num_nodes > 1:
            # Then one failure ends the other nodes, and deletes all pods; else they would wait for it.
            policy["backoffLimit"] = 0
        if spec.active_deadline is not None:
            policy["activeDeadlineSeconds"] = spec.active_deadline
        return {
            "apiVersion": f"{self.group}/{self.version}",
            "kind": self.kind,
            "metadata": job_metadata(spec),
            "spec": {
                "runPolicy": policy,
                "pytorchReplicaSpecs": {
                    replica: {"replicas": count, "restartPolicy": "Never", "template": template}
                    for replica, count in replicas.items()
                    if count
                },
            },
        }

    async def resume(self, api: Api, spec: WorkloadSpec) -> None:
        """Nothing to do."""

    def path(self, namespace: str, name: str = "") -> str:
        """See ``Workload``."""
        jobs = f"/apis/{self.group}/{self.version}/namespaces/{namespace}/{self.plural}"
        return f"{jobs}/{name}" if name else jobs

    def state(self, job: Mapping[str, Any]) -> JobState:
        """See ``Workload``."""
        status = job.get("status") or {}
        for kind, phase in _ENDS.items():
            if found := condition(status, kind):
                return JobState(phase, found.get("reason", ""), found.get("message", ""))
        policy = job.get("spec", {}).get("runPolicy") or {}
        if policy.get("suspend"):  # the condition comes, and goes, later
            return JobState(JobPhase.SUSPENDED)
        return JobState(JobPhase.RUNNING if condition(status, "Running") else JobPhase.PENDING)

    def pod_query(self, name: str) -> dict[str, str]:
        """See ``Workload``."""
        labels = {"job-name": name, "operator-name": "pytorchjob-controller"}
        return {"labelSelector": ",".join(f"{_LABEL}{key}={value}" for key, value in labels.items())}

    def rank(self, pod: Mapping[str, Any]) -> int | None:
        """See ``Workload``."""
        labels = pod["metadata"].get("labels", {})
        index = labels.get(f"{_LABEL}replica-index", "")
        first = {"master": 0, "worker": 1}.get(labels.get(f"{_LABEL}replica-type", ""))
        return first + int(index) if first is not None and index.isdigit() else None

    def instances(self, pod: Mapping[str, Any]) -> list[ContainerInstance]:
        """See ``Workload``."""
        return instances(pod, self.container, self.rank(pod))


def _not_taken(field: str, inside: str) -> str:
    return f"this Training Operator knows no {inside or field}, it is older than that: leave it out"
