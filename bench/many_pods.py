# SPDX-License-Identifier: Apache-2.0
"""What many pods cost Covalent's server while each writes a line a second, beside plain follows of them."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.executors.kubeflow_tasks import Task
from tests.rigs.covalent_server import eventually

from .figures import Figure
from .pods import Followed, mounted

if TYPE_CHECKING:
    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.kubeflow import KubeflowRig

JOBS, NODES = 4, 16
SECONDS, IDLE_SECONDS = 60.0, 15.0
START_SECONDS = 300.0

_WRITE = """
import os, random, time
print("ready", flush=True)
while not os.path.exists(go):
    time.sleep(0.5)
time.sleep(random.random())
step = 0
while not os.path.exists(end):
    print(f"step {step:6d}  loss {random.random():.6f}  accuracy {random.random():.4f}", flush=True)
    step += 1
    time.sleep(1)
"""


@dataclass(frozen=True, slots=True)
class Use:
    """What a process has used: seconds of a processor, the clock, and bytes in memory now."""

    cpu: float
    when: float
    memory: int

    @classmethod
    def of(cls, pid: int) -> Use:
        """Ask the kernel."""
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return cls(cpu, time.monotonic(), int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))

    def share_since(self, before: Use) -> float:
        """Percent of one core."""
        return 100 * (self.cpu - before.cpu) / (self.when - before.when)


def measure(
    server: CovalentServer,
    rig: KubeflowRig,
    *,
    jobs: int = JOBS,
    nodes: int = NODES,
    seconds: float = SECONDS,
    idle_seconds: float = IDLE_SECONDS,
) -> list[Figure]:
    """Processor and memory, and whether all the text came."""
    before = Use.of(server.pid)
    time.sleep(idle_seconds)  # it is time that is measured
    idle = Use.of(server.pid)
    with tempfile.TemporaryDirectory(dir=rig.folder) as name:
        go, end = Path(name, "go"), Path(name, "end")
        more = {"num_nodes": nodes, "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}}}
        given = {"go": str(go), "end": str(end)}
        tasks = [Task(server, rig, _WRITE, given=given, **more, **mounted(Path(name))) for _ in range(jobs)]
        for task in tasks:
            _wait_for_all(task, nodes)
        with Followed(rig, tasks, Path(name)) as peer:
            for file in peer.files:
                eventually(file.read_bytes, 60, f"the plain follow of {file.name} has begun")
            go.touch()
            began, peer_began = Use.of(server.pid), Use.of(peer.pid)
            time.sleep(seconds)
            ended, peer_ended = Use.of(server.pid), Use.of(peer.pid)
            end.touch()
            for task in tasks:
                task.completed()
            peer.ended()
        whole = [task for task in tasks if task.capability("complete")["answer"] == "yes"]
    what, follow = f"{jobs * nodes} pods, a line a second each", f"{jobs * nodes} plain follows"
    cpu = ended.share_since(began) - idle.share_since(before)
    mine, theirs = (ended.memory - idle.memory) / 2**20, peer_ended.memory / 2**20
    return [
        Figure(f"{what}: more of a core", cpu, "%", peer_ended.share_since(peer_began), follow),
        Figure(f"{what}: more memory", mine, "MiB", theirs, f"{follow}, all of its process", "≤ 64 MiB"),
        Figure(f"{what}: jobs with all their text", 100 * len(whole) / jobs, "%", aim="100 %"),
    ]


def _wait_for_all(task: Task, nodes: int) -> None:
    task.seen(bool, "rank 0 is read", timeout=START_SECONDS)
    for rank in range(1, nodes):
        task.seen(bool, f"rank {rank} is read", name=f"rank{rank}.stdout", timeout=START_SECONDS)
