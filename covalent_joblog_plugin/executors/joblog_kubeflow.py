# SPDX-License-Identifier: Apache-2.0
"""``KubeflowJobLogExecutor``: the task as a Kubeflow job, its output live."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.web import hook

from . import kubeflow_checks, options
from .base import JobLogExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from covalent_joblog_plugin.cluster.kubeflow import KubeflowCluster
    from covalent_joblog_plugin.model.capabilities import Capabilities
    from covalent_joblog_plugin.model.reader import OutputReader
    from covalent_joblog_plugin.model.records import FileRef

    from .kubeflow_run import KubeflowRun

EXECUTOR_PLUGIN_NAME = "KubeflowJobLogExecutor"


class KubeflowJobLogExecutor(JobLogExecutor):
    """Runs the task as a TrainJob or PyTorchJob; every node (pod) runs the function, rank 0's value counts.

    The image needs Python and what the function imports, nothing of ours.

    Args:
        kubeconfig: File with the cluster's address and credentials; empty for ``KUBECONFIG``, the usual file,
            or the pod Covalent's server runs in.
        context: Context of that file; empty for its current one.
        namespace: Where the job is created; empty for the context's, or the pod's own.
        kind: ``"TrainJob"`` (Trainer v2) or ``"PyTorchJob"`` (Training Operator v1).
        runtime: Name of the TrainJob's runtime.
        runtime_kind: ``"ClusterTrainingRuntime"`` or ``"TrainingRuntime"``.
        image: Container image; None for the runtime's.
        num_nodes: Pods, each of which runs the function.
        resources: Resources of a node, such as ``{"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": 1}``, or
            with ``requests`` and ``limits``.
        environment: Environment variables of the function.
        python: What starts Python in the image, as a word or an argv list.
        service_account: Of the pods; empty for the namespace's default, or in a notebook its own.
        pod_labels: Labels of the pods; by default Istio is told to keep its sidecar out.
        pod_annotations: Annotations of the pods.
        volumes: Volumes of the pods, as in a pod's specification.
        volume_mounts: Where they are mounted in the container.
        image_pull_secrets: Names of Secrets with registry credentials.
        node_selector: Labels of the machines to use.
        tolerations: Tolerations, as in a pod's specification.
        priority_class: Priority class of the pods; a TrainJob has it from its runtime alone.
        pod_patch: Part of a pod template, merged last, such as ``{"spec": {"affinity": {"nodeAffinity":
            {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference":
            {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}]}}}}``. A PyTorchJob
            takes every field of a pod. A TrainJob takes of it ``affinity``, ``schedulingGates``, ``env`` and
            ``volumeMounts`` of containers, since Trainer 2.2 ``securityContext`` and since 2.3
            ``terminationGracePeriodSeconds``; anything else, such as ``hostNetwork``, has to stand in its
            runtime.
        queue: Kueue's local queue.
        store: URL of a folder (fsspec) that server and pods reach, for what is too large for a Secret and for
            the log; empty for none.
        keep_failed: Seconds a failed job stays for inspection. The server removes it then; where that ends
            before, the job stays until somebody deletes it.
        framing: Whether our runner marks what it writes into the log, so that stdout, stderr, progress bars
            and CRLF come back exactly and losses are counted; False leaves the log as the function wrote it.
        log_files: Not available here: Kubernetes shows logs, no files.
        **common: See ``JobLogExecutor``. The time of ``time_limit`` is the one in which a container runs, not
            that of a job that waits or is suspended.
    """

    def __init__(
        self,
        kubeconfig: str = "",
        context: str = "",
        namespace: str = "",
        kind: str = "TrainJob",
        runtime: str = "torch-distributed",
        runtime_kind: str = "ClusterTrainingRuntime",
        image: str | None = None,
        num_nodes: int = 1,
        resources: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        python: str | Sequence[str] = ("python3",),
        service_account: str = "",
        pod_labels: Mapping[str, str] | None = None,
        pod_annotations: Mapping[str, str] | None = None,
        volumes: Sequence[Mapping[str, Any]] = (),
        volume_mounts: Sequence[Mapping[str, Any]] = (),
        image_pull_secrets: str | Sequence[str] = (),
        node_selector: Mapping[str, str] | None = None,
        tolerations: Sequence[Mapping[str, Any]] = (),
        priority_class: str = "",
        pod_patch: Mapping[str, Any] | None = None,
        queue: str = "",
        store: str = "",
        keep_failed: float = 3600,
        framing: bool = True,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.kubeconfig = kubeconfig
        self.context = context
        self.namespace = namespace
        self.kind = kind
        self.runtime = runtime
        self.runtime_kind = runtime_kind
        self.image = image
        self.num_nodes = num_nodes
        self.resources = options.mapping(resources)
        self.environment = options.mapping(environment)
        self.python = options.words(python)
        self.service_account = service_account
        self.pod_labels = (
            dict(kubeflow_checks.POD_LABELS) if pod_labels is None else options.mapping(pod_labels)
        )
        self.pod_annotations = options.mapping(pod_annotations)
        self.volumes = options.words(volumes)
        self.volume_mounts = options.words(volume_mounts)
        self.image_pull_secrets = options.words(image_pull_secrets)
        self.node_selector = options.mapping(node_selector)
        self.tolerations = options.words(tolerations)
        self.priority_class = priority_class
        self.pod_patch = options.mapping(pod_patch)
        self.queue = queue
        self.store = store
        self.keep_failed = keep_failed
        self.framing = framing

    renamed_options = kubeflow_checks.RENAMED
    direct_options = kubeflow_checks.DIRECT_OPTIONS

    def check_options(self) -> None:
        """See ``JobLogExecutor``."""
        super().check_options()
        kubeflow_checks.check(self)

    # -- the endpoint ---------------------------------------------------------------------------------

    def endpoint_key(self) -> str:
        """Every option that changes the connection."""
        return json.dumps([self.kubeconfig, self.context, self.namespace])

    def make_source(self) -> KubeflowCluster:
        """See ``JobLogExecutor``."""
        from .kubeflow_cluster import make_cluster

        return make_cluster(self)

    async def cancel_job(self, handle: Any) -> None:
        """Delete the job; tried until the cluster answers."""
        await self.source.cancel(handle)

    def open_output(self, handle: Any) -> OutputReader:
        """The newest execution's output, as the cluster still has it; see ``OutputReader``."""
        from .kubeflow_direct import open_job

        return open_job(self, handle)

    # -- the node's files -----------------------------------------------------------------------------

    def capabilities(self) -> Capabilities:
        """What can be said before the cluster is asked; ``run`` asks it."""
        from . import kubeflow_capabilities

        return kubeflow_capabilities.before(framing=self.framing)

    def get_files_to_monitor(self, dispatch_id: str, node_id: int) -> Iterable[FileRef | str]:  # noqa: ARG002
        """The streams of every rank and of every start of its container."""
        job = self._run.job if self._run else None
        return job.files() if job is not None else []

    async def writers_gone(self, dispatch_id: str, node_id: int) -> bool:  # noqa: ARG002
        """Whether the log of every container has been read to its end."""
        if self._run and self._run.job is not None:
            await self.source.read_to_end(self._run.job)
        return True

    async def after_final_read(self) -> None:
        """Say whether the output is complete; remove the job, a failed one after ``keep_failed`` seconds."""
        if run := self._run:
            del self.__dict__["_kubeflow_run"]
            await run.close()

    # -- the run --------------------------------------------------------------------------------------

    async def run(
        self,
        function: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
        task_metadata: dict[str, Any],
    ) -> Any:
        """Create the job, wait for its end and return rank 0's value, not unpickled.

        Raises:
            JobFailed: The job gave no result; the text says all that is known.
            TaskCancelledError: The task was cancelled.
            SubmissionError: The cluster refused the job.
            OptionError: The served version of Kubeflow cannot take an option.
            PayloadError: Function and arguments are too large, or the result could not be taken.
            TransportError: The cluster could not be reached before the job was created.
        """
        from .kubeflow_run import KubeflowRun

        made = self.__dict__["_kubeflow_run"] = KubeflowRun(self)
        return await made.value(function, args, kwargs, task_metadata)

    @property
    def _run(self) -> KubeflowRun | None:
        return self.__dict__.get("_kubeflow_run")


_EXECUTOR_PLUGIN_DEFAULTS = options.plugin_defaults(KubeflowJobLogExecutor)

hook.install()
