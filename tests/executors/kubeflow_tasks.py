# SPDX-License-Identifier: Apache-2.0
"""Kubeflow tasks on the rig, with the rights of the documented Role and no more."""

from __future__ import annotations

import functools
import itertools
import json
from typing import TYPE_CHECKING, Any

import yaml

from tests.executors.dispatches import dispatch, electron_ids, node
from tests.project.tracked import ROOT
from tests.rigs.covalent_server import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.kubeflow import KubeflowRig

FLOW = """
import covalent as ct
kubeflow = ct.executor.KubeflowJobLogExecutor(**options)

@ct.electron(executor=kubeflow)
def task(*values):
    import os
    rank = int(os.environ.get("JOB_COMPLETION_INDEX", os.environ.get("RANK", "0")))
    scope = {"rank": rank, "values": values, **given}
    exec(body, scope)
    return scope.get("value", "result")

@ct.lattice
def flow():
    return task(0)
"""
_numbers = itertools.count()


def role_rules() -> list[dict[str, Any]]:
    """The rules of the documented Role."""
    return list(yaml.safe_load((ROOT / "examples" / "02-kubeflow" / "role.yaml").read_text())["rules"])


@functools.cache
def account(rig: KubeflowRig) -> tuple[str, Path]:
    """A namespace, and a kubeconfig with exactly the rights of the documented Role there."""
    namespace = rig.namespace(f"tasks-{next(_numbers)}")
    return namespace, rig.service_account(namespace, "covalent", role_rules())


class Task:
    """One dispatch of one electron, the body of which is Python text that may set ``value``."""

    def __init__(
        self,
        server: CovalentServer,
        rig: KubeflowRig,
        body: str,
        given: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        self.server, self.rig = server, rig
        namespace, kubeconfig = account(rig)
        options = {
            "kubeconfig": str(kubeconfig),
            "namespace": namespace,
            "runtime": "never",
            "runtime_kind": "TrainingRuntime",
            "resources": {"requests": {"cpu": "10m"}},
            **more,
        }
        if options.get("kind") == "PyTorchJob":
            options["image"] = rig.image
        self.namespace = options["namespace"]
        self.id = dispatch(server, FLOW, body=body, given=given or {}, options=options)
        (self.node,) = electron_ids(server, self.id, "task")
        self.folder = server.results_dir / self.id / f"node_{self.node}"

    def finished(self, timeout: float = 120) -> str:
        """Wait for the end; the dispatch's status."""
        return self.server.finished(self.id, timeout)

    def completed(self, timeout: float = 120) -> Any:
        """Wait for the end, which must be COMPLETED; the value."""
        if self.finished(timeout) != "COMPLETED":
            raise AssertionError(self.error())
        script = "import covalent as ct\nanswer = ct.get_result(dispatch_id).result"
        return self.server.client(script, dispatch_id=self.id)

    def failed(self, timeout: float = 120) -> str:
        """Wait for the end, which must be FAILED; the error."""
        status = self.finished(timeout)
        assert status == "FAILED", status
        return self.error()

    def error(self) -> str:
        """The node's error text."""
        return str(node(self.server, self.id, self.node)["error"])

    def text(self, stream: str = "stdout") -> bytes:
        """Rank 0's text as served."""
        return self.server.stdout(self.id, self.node, stream)

    def stored(self, name: str) -> bytes:
        """Another rank's text as stored beside the node; empty while there is none."""
        path = self.folder / "joblog" / "files" / name
        return path.read_bytes() if path.exists() else b""

    def state(self) -> dict[str, Any]:
        """What is remembered of the node; nothing before it begins."""
        path = self.folder / "joblog" / "state.json"
        return dict(json.loads(path.read_text())["remembered"]) if path.exists() else {}

    def capability(self, name: str) -> dict[str, str]:
        """One answer and its reason."""
        return dict(self.state()["capabilities"][name])

    def seams(self) -> list[dict[str, Any]]:
        """The seams of all the node's outputs."""
        index = self.folder / "joblog" / "index.jsonl"
        lines = [json.loads(line) for line in index.read_text().splitlines()] if index.exists() else []
        return [line for line in lines if "seam" in line]

    @property
    def job(self) -> str:
        """Name of the job."""
        return str(eventually(lambda: self.state().get("job", {}).get("name"), 60, "the job has a name"))

    def pods(self) -> list[dict[str, Any]]:
        """Its pods, as Kubernetes shows them, oldest first."""
        job = self.job
        found = [
            pod
            for pod in self.rig.list("Pod", self.namespace)
            if pod["metadata"]["name"].startswith(f"{job}-")
        ]
        return sorted(found, key=lambda pod: pod["metadata"]["creationTimestamp"])

    def seen(self, enough: Callable[[bytes], bool], what: str, name: str = "", timeout: float = 60) -> bytes:
        """Wait for text of rank 0's stdout, or of another output of that name."""

        def look() -> bytes | None:
            text = self.stored(name) if name else self._served()
            if not enough(text) and self.server.status(self.id) in {"FAILED", "CANCELLED"}:
                raise AssertionError(f"{what}: not before the end: {self.error()}")
            return text if enough(text) else None

        return bytes(eventually(look, timeout, what))

    def _served(self) -> bytes:
        response = self.server.get(f"/api/v0/files/{self.id}/node_{self.node}/stdout.log")
        return bytes(response.body) if response.status == 200 else b""
