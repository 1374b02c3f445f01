# SPDX-License-Identifier: Apache-2.0
"""TrainJob of Kubeflow Trainer v2 (``trainer.kubeflow.org/v1alpha1``).

Trainer makes a JobSet of the job and its runtime, the JobSet a batch Job ``<name>-node-0``, that one a pod
for every node. Where settings of pods go differs: 2.1 has ``podTemplateOverrides``, 2.2 and later
``runtimePatches``, and each knows other fields of a pod; which one is served is found out by a dry run. How
often pods are restarted is the runtime's business alone.

Runtimes whose function would run in an MPI launcher are refused: their ``node`` pods only wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import OptionError, SubmissionError

from . import train_runtime
from .dry_run import UnknownFields, dry_run, unknown_options
from .kubernetes_errors import Forbidden, NotFound
from .manifests import job_metadata, pod_template
from .pod_states import condition, instances
from .workload import JobPhase, JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .workload import Api, ContainerInstance, WorkloadSpec

MANAGER = "covalent-joblog/executor"
REPLICATED_JOB = "node"
RESERVED = ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT")
"""Variables that torch runtimes set; 2.1 does not always refuse them."""
INDEX = "batch.kubernetes.io/job-completion-index"
"""Always an annotation of a pod; a label too since Kubernetes 1.28."""
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
_MISSING = "must be created before"
_OF_TRAINER = {"image": "image", "command": "command", "env": "env", "resources": "resourcesPerNode"}
"""Field of the container → field of ``spec.trainer``, where alone it may stand."""


@dataclass(frozen=True, slots=True)
class _PodField:
    """Where a version wants settings of pods: the field of ``spec`` and what is put there."""

    name: str
    write: Callable[[dict[str, Any]], list[dict[str, Any]]]


def _runtime_patches(pod: dict[str, Any]) -> list[dict[str, Any]]:
    job = {"name": REPLICATED_JOB, "template": {"spec": {"template": pod}}}
    jobs = {"template": {"spec": {"replicatedJobs": [job]}}}
    return [{"manager": MANAGER, "trainingRuntimeSpec": jobs}]


def _overrides(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"targetJobs": [{"name": REPLICATED_JOB}], **pod}]


_PATCHES = _PodField("runtimePatches", _runtime_patches)
_OVERRIDES = _PodField("podTemplateOverrides", _overrides)


class TrainJob:
    """See ``Workload``."""

    kind = "TrainJob"
    group = "trainer.kubeflow.org"
    version = "v1alpha1"
    plural = "trainjobs"
    container = "node"

    def __init__(self) -> None:
        self._pod_field = _PATCHES

    async def prepare(self, api: Api, spec: WorkloadSpec) -> None:
        """See ``Workload``."""
        for self._pod_field in (_PATCHES, _OVERRIDES):
            try:
                await dry_run(api, self, spec, self.manifest(spec))
            except UnknownFields as unknown:
                if f"spec.{self._pod_field.name}" not in unknown.fields:
                    not_taken = partial(train_runtime.instead, spec, REPLICATED_JOB)
                    raise unknown_options(spec, unknown.fields, not_taken) from unknown
            except SubmissionError as error:
                if _MISSING in str(error):
                    raise SubmissionError(await self._no_runtime(api, spec)) from error
                raise
            else:
                return await self._check_runtime(api, spec)
        raise SubmissionError("this cluster's Kubeflow Trainer is older than 2.1: ask for a newer one")

    async def _check_runtime(self, api: Api, spec: WorkloadSpec) -> None:
        try:
            found = await api.request("GET", f"{self._runtimes(spec)}/{spec.runtime}")
        except Forbidden as error:
            train_runtime.check_unseen(spec, self.container, str(error))
        else:
            train_runtime.check(found, spec, REPLICATED_JOB, self.container)

    def _runtimes(self, spec: WorkloadSpec) -> str:
        of_namespace = spec.runtime_kind == "TrainingRuntime"
        where = f"namespaces/{spec.namespace}/trainingruntimes" if of_namespace else "clustertrainingruntimes"
        return f"/apis/{self.group}/{self.version}/{where}"

    async def _no_runtime(self, api: Api, spec: WorkloadSpec) -> str:
        text = f"runtime: there is no {spec.runtime_kind} {spec.runtime}; nothing was submitted. "
        path = self._runtimes(spec)
        try:
            answer = await api.request("GET", path)
        except (Forbidden, NotFound):
            flag = f" -n {spec.namespace}" if "namespaces/" in path else ""
            return f"{text}See kubectl get {path.rpartition('/')[2]}.{self.group}{flag}, which we may not"
        names = sorted(item["metadata"]["name"] for item in answer.get("items") or ())
        return f"{text}There {'is' if len(names) == 1 else 'are'}: {', '.join(names) or 'none at all'}"

    def manifest(self, spec: WorkloadSpec) -> dict[str, Any]:
        """See ``Workload``."""
        if reserved := [variable for variable in RESERVED if variable in spec.environment]:
            raise OptionError(f"environment: {', '.join(reserved)}: set by torch runtimes; leave it out")
        pod = pod_template(spec, self.container)
        trainer = {"numNodes": spec.num_nodes, **self._take_trainer(pod)}
        body: dict[str, Any] = {
            "runtimeRef": {"name": spec.runtime, "kind": spec.runtime_kind},
            # Without it torch runtimes give the container none of their variables.
            "trainer": trainer,
        }
        if pod:
            body[self._pod_field.name] = self._pod_field.write(pod)
        if spec.active_deadline is not None:
            body["activeDeadlineSeconds"] = spec.active_deadline
        if spec.suspend and not spec.queue:
            body["suspend"] = True
        own = {"apiVersion": f"{self.group}/{self.version}", "kind": self.kind}
        return {**own, "metadata": job_metadata(spec), "spec": body}

    def _take_trainer(self, pod: dict[str, Any]) -> dict[str, Any]:
        """Take out of a pod template what belongs to ``spec.trainer``, and what is empty afterwards."""
        containers = [dict(item) for item in pod["spec"].pop("containers")]
        own = next(item for item in containers if item.get("name") == self.container)
        trainer = {_OF_TRAINER[key]: own.pop(key) for key in list(own) if key in _OF_TRAINER}
        if left := [item for item in containers if set(item) != {"name"}]:
            pod["spec"]["containers"] = left
        for key in [key for key, value in pod.items() if not value]:
            del pod[key]
        return trainer

    async def resume(self, api: Api, spec: WorkloadSpec) -> None:
        """See ``Workload``."""
        if spec.suspend and not spec.queue:
            patch = {"spec": {"suspend": False}}
            path = self.path(spec.namespace, spec.name)
            await api.request("PATCH", path, body=patch, content_type="application/merge-patch+json")

    def path(self, namespace: str, name: str = "") -> str:
        """See ``Workload``."""
        jobs = f"/apis/{self.group}/{self.version}/namespaces/{namespace}/{self.plural}"
        return f"{jobs}/{name}" if name else jobs

    def state(self, job: Mapping[str, Any]) -> JobState:
        """See ``Workload``."""
        status = job.get("status") or {}
        for kind, phase in (("Failed", JobPhase.FAILED), ("Complete", JobPhase.COMPLETE)):
            if found := condition(status, kind):
                return JobState(phase, found.get("reason", ""), found.get("message", ""))
        if job.get("spec", {}).get("suspend"):  # the condition comes, and goes, later
            return JobState(JobPhase.SUSPENDED)
        ready = any(child.get("ready") for child in status.get("jobsStatus") or ())
        return JobState(JobPhase.RUNNING if ready else JobPhase.PENDING)

    def pod_query(self, name: str) -> dict[str, str]:
        """See ``Workload``."""
        labels = {"jobset-name": name, "replicatedjob-name": REPLICATED_JOB}
        return {
            "labelSelector": ",".join(f"jobset.sigs.k8s.io/{key}={value}" for key, value in labels.items())
        }

    def rank(self, pod: Mapping[str, Any]) -> int | None:
        """See ``Workload``."""
        metadata = pod["metadata"]
        found = {**metadata.get("labels", {}), **metadata.get("annotations", {})}.get(INDEX, "")
        return int(found) if found.isdigit() else None

    def instances(self, pod: Mapping[str, Any]) -> list[ContainerInstance]:
        """See ``Workload``."""
        attempt = pod["metadata"].get("labels", {}).get(ATTEMPT, "")
        return instances(pod, self.container, self.rank(pod), int(attempt) if attempt.isdigit() else 0)
