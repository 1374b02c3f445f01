# SPDX-License-Identifier: Apache-2.0
"""Checks of a cluster with Kubeflow, made with the executor's options and the server's environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import JobLogError, OptionError

from .findings import Finding, fault, ok, warning

if TYPE_CHECKING:
    from covalent_joblog_plugin.cluster.kubernetes import Kubernetes
    from covalent_joblog_plugin.executors.joblog_kubeflow import KubeflowJobLogExecutor

_NAME = "joblog-doctor"


def has_cluster() -> bool:
    """Whether the environment names a cluster."""
    paths = (os.environ.get("KUBECONFIG") or "~/.kube/config").split(os.pathsep)
    found = any(path and Path(path).expanduser().is_file() for path in paths)
    return found or bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


async def check(executor: KubeflowJobLogExecutor) -> list[Finding]:
    """All of these checks; the API server is asked what it would do, and does nothing."""
    from covalent_joblog_plugin.cluster.kubernetes import Kubernetes
    from covalent_joblog_plugin.executors.kubeflow_cluster import settings

    try:
        executor.check_options()
    except OptionError as error:
        return [fault("options", str(error))]
    api = Kubernetes(settings(executor))
    try:
        await api.connect()
        version = await api.request("GET", "/version")
        where = f"namespace {api.namespace}, Kubernetes {version.get('gitVersion', 'of unknown version')}"
        return [ok("kubeconfig", where), *await _rights(api, executor), await _kubeflow(api, executor)]
    except JobLogError as error:
        return [fault("kubeconfig", str(error))]
    finally:
        await api.close()


async def _rights(api: Kubernetes, executor: KubeflowJobLogExecutor) -> list[Finding]:
    from covalent_joblog_plugin.executors.kubeflow_capabilities import rights

    try:
        held = await rights(api, executor.kind)
    except JobLogError as error:
        return [fault("rights", str(error))]
    found = ok("rights", f"a {executor.kind} may be created, watched and deleted in {held.namespace}")
    if held.logs:
        return [found, ok("logs", "pods/log may be read")]
    text = f"get pods/log is missing in {held.namespace}: jobs run, and nothing is seen of their output"
    step = "an administrator can give it with the Role in the documentation"
    return [found, warning("logs", text, step)]


async def _kubeflow(api: Kubernetes, executor: KubeflowJobLogExecutor) -> Finding:
    """Whether a job would be taken, by a dry run; that tells versions and runtime as well."""
    from covalent_joblog_plugin.cluster.kubeflow import WORKLOADS
    from covalent_joblog_plugin.cluster.workload import WorkloadSpec

    workload = WORKLOADS[executor.kind]()
    spec = WorkloadSpec(
        name=_NAME,
        namespace=api.namespace,
        image=executor.image,
        command=("true",),
        num_nodes=int(executor.num_nodes),
        runtime=executor.runtime,
        runtime_kind=executor.runtime_kind,
        pod_labels=executor.pod_labels,
        queue=executor.queue,
    )
    try:
        await workload.prepare(api, spec)
    except JobLogError as error:
        return fault(executor.kind, str(error))
    served = f"{workload.group}/{workload.version}"
    if executor.kind != "TrainJob":
        return ok(executor.kind, f"{served} is served and would take a job")
    trainer = "2.2 or later" if "runtimePatches" in workload.manifest(spec)["spec"] else "2.1"
    runtime = f"{executor.runtime_kind} {executor.runtime}"
    return ok(executor.kind, f"{served}, Trainer {trainer}, would take a job with {runtime}")
