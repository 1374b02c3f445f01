# SPDX-License-Identifier: Apache-2.0
"""Cancelling: the right job, its last words kept, whatever the order and the state."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.executors.dispatches import cancel, dispatch, electron_ids, node, snapshot, wait_for_text
from tests.executors.slurm_tasks import Tasks, options
from tests.rigs.covalent_server import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.slurm import SlurmRig

TRAPS = """
import signal, sys, time
def last(*_):
    print("last words of", values[0], flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, last)
print("running", values[0], flush=True)
time.sleep(300)
"""


def gone(rig: SlurmRig, job: int) -> bool:
    return rig.jobs().get(job, "CANCELLED") == "CANCELLED"


def test_a_running_job_ends_within_three_seconds_and_its_last_words_are_kept(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    before = set(slurm_rig.jobs())
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, TRAPS)
    wait_for_text(covalent_server, tasks.id, 0, lambda text: b"running" in text)
    (job,) = set(slurm_rig.jobs()) - before
    cancel(covalent_server, tasks.id, 0)
    asked = time.monotonic()
    eventually(lambda: gone(slurm_rig, job), 10, "end of the job")
    assert time.monotonic() - asked < 3
    tasks.finished()
    found = node(covalent_server, tasks.id, 0)
    assert found["status"] == "CANCELLED"
    assert found["stdout"] == "running 0\nlast words of 0\n"
    assert tasks.same()


def test_a_pending_job_leaves_the_queue(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    before = set(slurm_rig.jobs())
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, "print(1)", sbatch_options={"begin": "now+1hour"})
    eventually(lambda: set(slurm_rig.jobs()) - before, 30, "the pending job")
    (job,) = set(slurm_rig.jobs()) - before
    assert slurm_rig.jobs()[job] == "PENDING"
    cancel(covalent_server, tasks.id)
    tasks.finished()
    assert gone(slurm_rig, job)
    found = node(covalent_server, tasks.id, 0)
    assert (found["status"], found["stdout"] or "") == ("CANCELLED", "")


def test_of_several_nodes_just_those_asked_for_end_in_whatever_order(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    """Covalent gives one node the handle of another when nodes are named out of order."""
    body = TRAPS.replace(
        "time.sleep(300)", "\nimport os\nwhile not os.path.exists(f'{gate}/go'): time.sleep(0.05)"
    )
    for order in ((2, 0), (0, 2)):
        (tmp_path / "go").unlink(missing_ok=True)
        tasks = Tasks(covalent_server, slurm_rig, tmp_path, body, count=3)
        for n in tasks.nodes:
            wait_for_text(covalent_server, tasks.id, n, lambda text: b"running" in text)
        cancel(covalent_server, tasks.id, *(tasks.nodes[n] for n in order))

        def statuses(tasks: Tasks = tasks) -> list[str]:
            return [n["status"] for n in snapshot(covalent_server, tasks.id, *tasks.nodes)["nodes"]]

        eventually(lambda: statuses() == ["CANCELLED", "RUNNING", "CANCELLED"], 30, "two cancelled nodes")
        (tmp_path / "go").touch()
        eventually(lambda: statuses()[1] == "COMPLETED", 30, "the third node's end")
        assert tasks.text(tasks.nodes[0]).endswith(b"last words of 0\n")
        assert b"last words" not in tasks.text(tasks.nodes[1])


CHAIN = """
import covalent as ct
slurm = ct.executor.SlurmJobLogExecutor(**options)

@ct.electron(executor=slurm)
def first():
    print("first")

@ct.electron(executor=slurm)
def second(_):
    import os, time
    print("second", flush=True)
    while not os.path.exists(f"{gate}/go"): time.sleep(0.05)

@ct.electron(executor=slurm)
def third(_):
    print("third")

@ct.lattice
def flow():
    return third(second(first()))
"""


def test_cancelling_finished_and_unstarted_nodes_ends_no_other_job(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    dispatch_id = dispatch(covalent_server, CHAIN, options=options(slurm_rig, tmp_path), gate=str(tmp_path))
    first, second, third = (
        electron_ids(covalent_server, dispatch_id, name)[0] for name in ("first", "second", "third")
    )
    wait_for_text(covalent_server, dispatch_id, second, lambda text: b"second" in text)
    running = [job for job, state in slurm_rig.jobs().items() if state == "RUNNING"]
    cancel(covalent_server, dispatch_id, first, third)
    (tmp_path / "go").touch()
    covalent_server.finished(dispatch_id)
    seen = snapshot(covalent_server, dispatch_id, first, second, third)["nodes"]
    assert [n["status"] for n in seen] == ["COMPLETED", "COMPLETED", "CANCELLED"], seen
    assert [n["stdout"] or "" for n in seen] == ["first\n", "second\n", ""]
    assert [slurm_rig.jobs()[job] for job in running] == ["COMPLETED"]
