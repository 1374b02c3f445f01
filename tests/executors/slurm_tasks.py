# SPDX-License-Identifier: Apache-2.0
"""Slurm tasks on the rig, and their files on the cluster, which is this machine."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import TYPE_CHECKING, Any

from tests.executors.dispatches import dispatch, electron_ids, snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.slurm import SlurmRig

FLOW = """
import covalent as ct
slurm = ct.executor.SlurmJobLogExecutor(**options)

@ct.electron(executor=slurm)
def task(*values):
    exec(body, {"values": values, **given})
    return "result"

@ct.lattice
def flow():
    return [task(n) for n in range(count)] if count > 1 else task(0)
"""


def options(rig: SlurmRig, workdir: Path, **more: Any) -> dict[str, Any]:
    """Executor options that reach the rig and leave the job's folder in place."""
    return {
        "host": "127.0.0.1",
        "port": rig.ssh_port,
        "username": "root",
        "client_keys": str(rig.client_key),
        "known_hosts": str(rig.known_hosts),
        "ssh_config": False,
        "python": sys.executable,
        "workdir": str(workdir),
        "cleanup": "never",
        **more,
    }


class Tasks:
    """One dispatch of ``count`` electrons with the same body, ``values`` being ``(n,)`` in the n-th."""

    def __init__(
        self, server: CovalentServer, rig: SlurmRig, workdir: Path, body: str, count: int = 1, **more: Any
    ) -> None:
        self.server = server
        self.workdir = workdir
        given = {"gate": str(workdir)}
        self.id = dispatch(
            server, FLOW, body=body, given=given, count=count, options=options(rig, workdir, **more)
        )
        self.nodes = sorted(electron_ids(server, self.id, "task"))

    def finished(self, timeout: float = 120) -> str:
        """Wait for the end; the dispatch's status."""
        return self.server.finished(self.id, timeout)

    def completed(self, timeout: float = 120) -> None:
        """Wait for the end, which must be COMPLETED; the nodes' errors are told otherwise."""
        if self.finished(timeout) != "COMPLETED":
            seen = snapshot(self.server, self.id, *self.nodes)["nodes"]
            raise AssertionError([node["error"] for node in seen])

    def text(self, node: int = 0, stream: str = "stdout") -> bytes:
        """The node's text as served."""
        return self.server.stdout(self.id, node, stream)

    def folder(self, node: int = 0) -> Path:
        """The job's folder on the cluster."""
        (folder,) = (self.workdir / self.id).glob(f"{node}-*")
        return folder

    def on_cluster(self, node: int = 0, stream: str = "stdout", execution: int = 0) -> bytes:
        """What the job wrote there."""
        return (self.folder(node) / f"x{execution:03}" / stream).read_bytes()

    def same(self, node: int = 0, stream: str = "stdout", executions: int = 1) -> bool:
        """Whether the node's text has the sha256 of what the executions wrote, one after the other."""
        there = hashlib.sha256()
        for execution in range(executions):
            there.update(self.on_cluster(node, stream, execution))
        return hashlib.sha256(self.text(node, stream)).digest() == there.digest()

    def stored(self, name: str, node: int = 0) -> bytes:
        """An extra file as stored beside the node."""
        return (self.server.results_dir / self.id / f"node_{node}" / "joblog" / "files" / name).read_bytes()

    def seams(self, node: int = 0) -> list[dict[str, Any]]:
        """The seams of all the node's outputs."""
        index = self.server.results_dir / self.id / f"node_{node}" / "joblog" / "index.jsonl"
        lines = [json.loads(line) for line in index.read_text().splitlines()]
        return [line for line in lines if "seam" in line]
