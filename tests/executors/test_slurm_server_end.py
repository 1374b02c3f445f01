# SPDX-License-Identifier: Apache-2.0
"""Slurm jobs whose Covalent server ends while they run, and redispatches of their lattices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.executors.dispatches import cancel, node, snapshot, wait_for_text
from tests.executors.slurm_tasks import Tasks
from tests.executors.test_server_end import STATE
from tests.rigs.covalent_server import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.slurm import SlurmRig

ENDLESS = """
import time
n = 0
while True:
    print("line", n, "€", flush=True)
    n += 1
    time.sleep(0.01)
"""


@pytest.mark.parametrize("way", ["stop", "term", "kill"])
def test_the_stored_text_is_a_prefix_and_the_job_ends_where_covalent_gives_the_chance(
    fresh_covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path, way: str
) -> None:
    """On SIGTERM Covalent sometimes asks for the end of what runs, sometimes it has no time to."""
    server, before = fresh_covalent_server, set(slurm_rig.jobs())
    tasks = Tasks(server, slurm_rig, tmp_path, ENDLESS)
    early = wait_for_text(server, tasks.id, 0, lambda text: text.count(b"\n") > 20)
    (job,) = set(slurm_rig.jobs()) - before
    getattr(server, way)()
    if way == "stop":
        eventually(lambda: slurm_rig.jobs()[job] == "CANCELLED", 10, "end of the job")
    if way == "kill":
        assert slurm_rig.jobs()[job] == "RUNNING"
    server.start()
    text = node(server, tasks.id, 0)["stdout"].encode()
    assert text.startswith(early)
    assert tasks.on_cluster().startswith(text)
    state = server.client(STATE, dispatch_id=tasks.id)
    assert state in ({"orphaned"} if way == "kill" else {"interrupted", "orphaned", "closed"})
    if way != "stop":
        cancel(server, tasks.id)
        eventually(lambda: slurm_rig.jobs()[job] == "CANCELLED", 30, "end of the job left behind")


@pytest.mark.parametrize("reuse", [False, True])
def test_a_redispatch_and_its_original_show_their_own_text(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path, reuse: bool
) -> None:
    body = """
import os
print("run of", values[0], "as", os.environ["SLURM_JOB_ID"])
if values[0] == 1 and not os.path.exists(f"{gate}/cured"):
    raise RuntimeError("not cured yet")
"""
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, body, count=2)
    assert tasks.finished() == "FAILED"
    eventually(lambda: len(_texts(covalent_server, tasks.id, tasks.nodes)) == 2, 30, "both texts")
    old = _texts(covalent_server, tasks.id, tasks.nodes)
    (tmp_path / "cured").touch()
    again = covalent_server.client(
        "import covalent as ct\nanswer = ct.redispatch(dispatch_id, reuse_previous_results=reuse)()",
        dispatch_id=tasks.id,
        reuse=reuse,
    )
    assert covalent_server.finished(again, timeout=120) == "COMPLETED"
    assert _texts(covalent_server, tasks.id, tasks.nodes) == old
    new = _texts(covalent_server, again, tasks.nodes)
    assert [text.split(" as ")[0] for text in new] == [text.split(" as ")[0] for text in old]
    for n, (before, now) in enumerate(zip(old, new, strict=True)):
        assert now.count("\n") == 1
        assert (now == before) is (reuse and n == 0), (old, new)


def _texts(server: CovalentServer, dispatch_id: str, nodes: list[int]) -> list[str]:
    seen = snapshot(server, dispatch_id, *nodes)["nodes"]
    return sorted(n["stdout"] for n in seen if n["stdout"])
