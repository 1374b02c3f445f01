# SPDX-License-Identifier: Apache-2.0
"""Pods of Kubeflow tasks, and the plain follow of them that is the peer."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.executors.kubeflow_tasks import account
from tests.project.tracked import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from typing_extensions import Self

    from tests.executors.kubeflow_tasks import Task
    from tests.rigs.kubeflow import KubeflowRig


def mounted(folder: Path) -> dict[str, Any]:
    """Options with which the pods see a folder of the node, one below the rig's, under its own name."""
    return {
        "volumes": [{"name": "shared", "hostPath": {"path": str(folder)}}],
        "volume_mounts": [{"name": "shared", "mountPath": str(folder)}],
    }


def follow_command(rig: KubeflowRig, folder: str, pods: Sequence[str]) -> list[str]:
    """The plain follow of pods in the namespace of the tasks; see ``plain_follow``."""
    namespace, kubeconfig = account(rig)
    return [sys.executable, "-m", "bench.plain_follow", str(kubeconfig), namespace, folder, *pods]


class Followed:
    """A plain follow of all pods of some tasks into files, in a process of its own.

    Attributes:
        files: What it wrote, one of each pod.
        pid: Its process.
    """

    def __init__(self, rig: KubeflowRig, tasks: Sequence[Task], folder: Path) -> None:
        pods = [str(pod["metadata"]["name"]) for task in tasks for pod in task.pods()]
        self.files = [folder / pod for pod in pods]
        for file in self.files:
            file.touch()
        self._process = subprocess.Popen(follow_command(rig, str(folder), pods), cwd=ROOT)
        self.pid = self._process.pid

    def ended(self, timeout: float = 60) -> None:
        """Wait until all logs have ended."""
        self._process.wait(timeout)

    def __enter__(self) -> Self:
        """Nothing: it runs already."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
