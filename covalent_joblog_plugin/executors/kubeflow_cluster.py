# SPDX-License-Identifier: Apache-2.0
"""Options of ``KubeflowJobLogExecutor`` → the cluster's own words."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.cluster import framing
from covalent_joblog_plugin.cluster.kubeflow import WORKLOADS, KubeflowCluster
from covalent_joblog_plugin.cluster.kubeflow_job import PAYLOAD, Job, job_name
from covalent_joblog_plugin.cluster.kubernetes import KubernetesSettings
from covalent_joblog_plugin.cluster.workload import WorkloadSpec
from covalent_joblog_plugin.payload import bundle, object_store, pod_bundle
from covalent_joblog_plugin.payload.threads import in_thread

if TYPE_CHECKING:
    from covalent_joblog_plugin.payload.bundle import Call

    from .joblog_kubeflow import KubeflowJobLogExecutor

log = logging.getLogger(__name__)

_later: set[asyncio.Task[None]] = set()


def make_cluster(executor: KubeflowJobLogExecutor) -> KubeflowCluster:
    """The cluster of an executor; no I/O."""
    return KubeflowCluster(settings(executor))


def settings(executor: KubeflowJobLogExecutor) -> KubernetesSettings:
    """How its API server is reached."""
    return KubernetesSettings(executor.kubeconfig, executor.context, executor.namespace)


def store_place(executor: KubeflowJobLogExecutor, name: str) -> str:
    """Beginning of the URLs of a job's objects; empty without a store."""
    return f"{executor.store.rstrip('/')}/{name}" if executor.store else ""


async def make_job(
    executor: KubeflowJobLogExecutor, cluster: KubeflowCluster, call: Call, metadata: dict[str, Any]
) -> Job:
    """What to submit for a node.

    Raises:
        PayloadError: Function and arguments are too large for a Secret, or the store cannot take them.
    """
    dispatch_id, node_id = metadata["dispatch_id"], int(metadata["node_id"])
    packed = await in_thread(partial(bundle.pack, call, dispatch_id=dispatch_id, node_id=node_id))
    files = {"bundle": packed, **pod_bundle.sources(), "framing.py": framing.source()}
    name = job_name(call.name, dispatch_id, node_id)
    place = store_place(executor, name)
    payload = await in_thread(partial(pod_bundle.payload, files, place))
    if not place:
        log.info("%s: without store= large results cannot come back", name)
    spec = await _spec(executor, cluster, name, metadata, payload)
    if payload.stored_at:
        await in_thread(partial(object_store.put, payload.stored_at, payload.stored))
    return Job(WORKLOADS[executor.kind](), spec, payload.secret, executor.framing, pod_bundle.stream_counts)


async def _spec(
    executor: KubeflowJobLogExecutor,
    cluster: KubeflowCluster,
    name: str,
    metadata: dict[str, Any],
    payload: pod_bundle.Payload,
) -> WorkloadSpec:
    await cluster.api.connect()
    return WorkloadSpec(
        name=name,
        namespace=cluster.api.namespace,
        labels={
            "app.kubernetes.io/managed-by": "covalent-joblog",
            "covalent-joblog/dispatch-id": metadata["dispatch_id"],
            "covalent-joblog/node-id": str(metadata["node_id"]),
        },
        annotations={PAYLOAD: hashlib.sha256("".join(payload.secret.values()).encode()).hexdigest()},
        image=executor.image,
        command=pod_bundle.container_command(executor.python),
        environment=payload.environment(executor.environment, framing=executor.framing),
        secret_environment={variable: (name, key) for variable, key in payload.secret_variables().items()},
        num_nodes=int(executor.num_nodes),
        resources=executor.resources,
        runtime=executor.runtime,
        runtime_kind=executor.runtime_kind,
        service_account=executor.service_account or cluster.api.service_account or "",
        pod_labels=executor.pod_labels,
        pod_annotations=executor.pod_annotations,
        volumes=executor.volumes,
        volume_mounts=executor.volume_mounts,
        image_pull_secrets=executor.image_pull_secrets,
        node_selector=executor.node_selector,
        tolerations=executor.tolerations,
        priority_class=executor.priority_class,
        pod_patch=executor.pod_patch,
        queue=executor.queue,
    )


def delete_later(executor: KubeflowJobLogExecutor, handle: dict[str, Any], seconds: float) -> None:
    """Remove a failed job after so many seconds; it stays if the server ends before that."""
    task = asyncio.create_task(
        _delete_later(make_cluster(executor), handle, seconds), name="joblog keep_failed"
    )
    _later.add(task)
    task.add_done_callback(_later.discard)


async def _delete_later(cluster: KubeflowCluster, handle: dict[str, Any], seconds: float) -> None:
    try:
        await asyncio.sleep(seconds)
        await cluster.cancel(handle)
    finally:
        await cluster.close()
