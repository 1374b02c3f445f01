# SPDX-License-Identifier: Apache-2.0
"""The figures of Kubeflow jobs, on one private cluster and one Covalent server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.executors.kubeflow_tasks import account
from tests.rigs.covalent_server import CovalentServer
from tests.rigs.kubeflow import KubeflowRig

from . import completeness, latency, losses, many_pods
from .figures import Figure, p50_p95
from .pods import follow_command, mounted

if TYPE_CHECKING:
    import contextlib
    from pathlib import Path

EXECUTOR = "joblog_kubeflow"


def measure(stack: contextlib.ExitStack, folder: Path) -> list[Figure]:
    """All of them."""
    rig = KubeflowRig(folder / "kubeflow").start()
    stack.callback(rig.stop)
    server = CovalentServer(folder / "for-kubeflow")
    stack.callback(server.close)
    server.start()
    shared = rig.folder / "shared"
    shared.mkdir()
    return [
        *completeness.measure(server, EXECUTOR, _options(rig, shared), shared),
        *measure_latency(server, rig, shared),
        *many_pods.measure(server, rig),
        *losses.measure(server, rig),
    ]


def measure_latency(
    server: CovalentServer, rig: KubeflowRig, shared: Path, lines: int = latency.LINES
) -> list[Figure]:
    """From the write in the pod to the node's result, beside a plain follow of the same pod."""

    def peers(_dispatch_id: str) -> list[list[str]]:
        return [follow_command(rig, "-", [_running_pod(rig)])]

    options = _options(rig, shared)
    ours, theirs = (
        p50_p95(reader.latencies())
        for reader in latency.stamped(server, EXECUTOR, options, peers, lines=lines, shared=shared)
    )
    return [
        Figure(f"write → stored, Kubeflow, {part}", ours[i], "ms", theirs[i], "plain follow", aim)
        for i, (part, aim) in enumerate((("p50", "≤ 150 ms"), ("p95", "≤ 300 ms")))
    ]


def _options(rig: KubeflowRig, shared: Path) -> dict[str, Any]:
    namespace, kubeconfig = account(rig)
    return {
        "kubeconfig": str(kubeconfig),
        "namespace": namespace,
        "runtime": "never",
        "runtime_kind": "TrainingRuntime",
        **mounted(shared),
    }


def _running_pod(rig: KubeflowRig) -> str:
    """The only one."""
    pods = rig.list("Pod", account(rig)[0])
    (name,) = (pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running")
    return str(name)
