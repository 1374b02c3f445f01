# SPDX-License-Identifier: Apache-2.0
"""Pods that write, and what ``PodLog`` makes of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalent_joblog_plugin.cluster.kubernetes_errors import NotFound
from covalent_joblog_plugin.cluster.pod_log import InstanceState, PodLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalent_joblog_plugin.cluster.kubernetes import Kubernetes
    from tests.rigs.kubeflow import KubeflowRig

CONTAINER = "node"


@dataclass
class Taken:
    """A sink that keeps what it is given."""

    data: bytearray = field(default_factory=bytearray)
    gaps: list[tuple[int, str]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def text(self, data: bytes) -> None:
        self.data += data
        self.news.set()

    def gap(self, why: str) -> None:
        self.gaps.append((len(self.data), why))
        self.news.set()

    def trouble(self, why: str) -> None:
        self.troubles.append(why)
        self.news.set()

    async def room(self) -> None:
        pass

    async def until(self, what: Callable[[Taken], object], timeout: float = 60.0) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(timeout):
            while not what(self):
                self.news.clear()
                await self.news.wait()


@dataclass
class Instance:
    """One start of a pod's container, and the log of it.

    ``look`` is what the executor does: it finds this instance among those Kubernetes knows.
    """

    api: Kubernetes
    namespace: str
    pod: str
    uid: str
    restart: int = 0
    taken: Taken = field(default_factory=Taken)
    looks: list[tuple[InstanceState, bool]] = field(default_factory=list)

    async def look(self) -> tuple[InstanceState, bool]:
        self.looks.append(await self._look())
        return self.looks[-1]

    async def _look(self) -> tuple[InstanceState, bool]:
        status = await pod_status(self.api, self.namespace, self.pod, self.uid)
        if status is None or (restarts := status["restartCount"]) > self.restart + 1:
            return InstanceState.GONE, False
        if restarts == self.restart + 1:
            return InstanceState.ENDED, True
        running = "running" in status["state"]
        return (InstanceState.RUNNING if running else InstanceState.ENDED), False

    async def seen_as(self, state: tuple[InstanceState, bool]) -> None:
        """Wait until the cluster says so."""
        async with asyncio.timeout(60):
            while await self.look() != state:  # noqa: ASYNC110 - it is another program's state
                await asyncio.sleep(0.1)

    def log(self) -> PodLog:
        return PodLog(self.api, self.namespace, self.pod, CONTAINER, self.look, self.taken)


async def pod_status(api: Kubernetes, namespace: str, pod: str, uid: str) -> dict | None:
    """Status of the pod's container; None when the pod is gone."""
    try:
        found = await api.request("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}")
    except NotFound:
        return None
    if found["metadata"]["uid"] != uid:
        return None
    return found["status"]["containerStatuses"][0]


async def start(
    rig: KubeflowRig,
    api: Kubernetes,
    namespace: str,
    name: str,
    code: str,
    *,
    restart: str = "Never",
    grace: int = 1,
) -> Instance:
    """Start a pod that runs Python code; returns when its container has started."""
    container = {"name": CONTAINER, "image": rig.image, "command": ["python3", "-uc", code]}
    spec = {"restartPolicy": restart, "terminationGracePeriodSeconds": grace, "containers": [container]}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**spec, "automountServiceAccountToken": False},
    }
    made = await api.request("POST", f"/api/v1/namespaces/{namespace}/pods", body=body)
    uid = made["metadata"]["uid"]
    async with asyncio.timeout(60):
        while not await _has_started(api, namespace, name):  # noqa: ASYNC110 - it is another program's state
            await asyncio.sleep(0.05)
    return Instance(api, namespace, name, uid)


async def _has_started(api: Kubernetes, namespace: str, name: str) -> bool:
    found = await api.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
    statuses = found["status"].get("containerStatuses") or [{"state": {}}]
    return bool(statuses[0].get("containerID"))
