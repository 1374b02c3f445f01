# SPDX-License-Identifier: Apache-2.0
"""A Kubeflow job's output and result straight from its cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.cluster.kubeflow import WORKLOADS
from covalent_joblog_plugin.cluster.kubeflow_reader import KubeflowReader
from covalent_joblog_plugin.cluster.kubernetes import Kubernetes

from . import kubeflow_cluster, kubeflow_outcome

if TYPE_CHECKING:
    from .joblog_kubeflow import KubeflowJobLogExecutor

PATIENCE = 60.0
"""Seconds the rest of an ended job's logs is waited for."""


class KubeflowJobReader(KubeflowReader):
    """See ``OutputReader``."""

    async def result(self) -> Any:
        """See ``OutputReader``."""
        async with self.ended() as (follower, end):
            return await kubeflow_outcome.result(follower.job, end, follower.reading_done, PATIENCE)


def open_job(executor: KubeflowJobLogExecutor, handle: dict[str, Any]) -> KubeflowJobReader:
    """A reader of one job; no I/O."""
    return KubeflowJobReader(
        Kubernetes(kubeflow_cluster.settings(executor)),
        WORKLOADS[handle["kind"]](),
        handle,
        framing=executor.framing,
        place=kubeflow_cluster.store_place(executor, handle["name"]),
    )
