# SPDX-License-Identifier: Apache-2.0
"""Whatever fails on the way: no byte lost or doubled, and no task touched."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.executors.dispatches import electron, wait_for_text
from tests.executors.slurm_tasks import Tasks
from tests.rigs.covalent_server import eventually
from tests.rigs.cutting_proxy import CuttingProxy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.slurm import SlurmRig

UNTIL_GO = """
import os, time
n = 0
while not os.path.exists(f"{gate}/go"):
    os.write(1, b"line %d " % n + b"x" * (n % 300) + b"\\n")
    n += 1
    time.sleep(0.002)
print("end")
"""


def lines(text: bytes) -> int:
    return text.count(b"\n")


def survive(
    server: CovalentServer, rig: SlurmRig, workdir: Path, fault: Callable[[], None], **more: object
) -> Tasks:
    """Run a task that writes through ``fault`` until its text goes on afterwards; all of it must be exact."""
    tasks = Tasks(server, rig, workdir, UNTIL_GO, **more)
    wait_for_text(server, tasks.id, 0, lambda text: lines(text) > 20)
    fault()
    seen = lines(tasks.text())
    wait_for_text(server, tasks.id, 0, lambda text: lines(text) > seen + 20, timeout=150)
    assert electron(server, tasks.id, 0)["status"] == "RUNNING"
    (workdir / "go").touch()
    tasks.completed()
    assert tasks.text().endswith(b"end\n")
    assert tasks.same()
    assert tasks.seams() == []
    return tasks


def test_sshd_ended_and_started_again(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    def fault() -> None:
        slurm_rig.stop_sshd()
        slurm_rig.start_sshd()

    survive(covalent_server, slurm_rig, tmp_path, fault)


def test_the_connection_killed_over_and_over(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    def fault() -> None:
        for _ in range(4):
            slurm_rig.cut_connections()
            eventually(slurm_rig.ssh_sessions, 60, "a new connection")

    survive(covalent_server, slurm_rig, tmp_path, fault)


def test_the_readers_process_killed_on_the_login_node(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    def fault() -> None:
        for _ in range(3):
            for pid in slurm_rig.find_command("SystemExit"):
                slurm_rig.daemons.kill([pid])
            eventually(lambda: slurm_rig.find_command("SystemExit"), 60, "a new reader")

    survive(covalent_server, slurm_rig, tmp_path, fault, log_interval=1)


@pytest.mark.parametrize("seed", range(2))
def test_connections_cut_with_bytes_in_flight(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)

    def cut_after(number: int) -> int | None:
        # The first ones die while a burst is on its way, each at another byte.
        return chance.randrange(20_000, 3_000_000) if number < 5 else None

    proxy = CuttingProxy(slurm_rig.ssh_port, cut_after)
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(
        slurm_rig.known_hosts.read_text().replace(f":{slurm_rig.ssh_port}", f":{proxy.port}")
    )
    body = """
import os
for n in range(200):
    os.write(1, (b"%d " % n) * 20_000 + "€".encode() + b"\\n")
"""
    try:
        tasks = Tasks(
            covalent_server, slurm_rig, tmp_path, body, port=proxy.port, known_hosts=str(known_hosts)
        )
        tasks.completed(timeout=240)
    finally:
        proxy.close()
    assert proxy.cuts == 5
    assert len(tasks.text()) > 10_000_000
    assert tasks.same()
    assert tasks.seams() == []


def test_the_controller_away_for_a_minute(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    """Text goes on all the time, and the job is not declared dead."""
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, UNTIL_GO, state_interval=2)
    wait_for_text(covalent_server, tasks.id, 0, lambda text: lines(text) > 20)
    slurm_rig.stop_slurmctld()
    try:
        away_until = time.monotonic() + 60
        while time.monotonic() < away_until:
            seen = lines(tasks.text())
            wait_for_text(covalent_server, tasks.id, 0, lambda text, n=seen: lines(text) > n + 200)
            assert electron(covalent_server, tasks.id, 0)["status"] == "RUNNING"
    finally:
        slurm_rig.start_slurmctld()
    (tmp_path / "go").touch()
    tasks.completed()
    assert tasks.same()


def test_a_job_that_ends_while_the_controller_is_away(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, UNTIL_GO, state_interval=2)
    wait_for_text(covalent_server, tasks.id, 0, lambda text: lines(text) > 20)
    slurm_rig.stop_slurmctld()
    (tmp_path / "go").touch()
    wait_for_text(covalent_server, tasks.id, 0, lambda text: text.endswith(b"end\n"))
    slurm_rig.start_slurmctld()
    tasks.completed()
    assert tasks.same()


def test_a_requeue_keeps_both_executions_with_a_seam_between(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    body = """
import os, sys, time
n = os.environ.get("SLURM_RESTART_COUNT", "0")
print("execution", n, "of the job", flush=True)
print("on stderr", n, file=sys.stderr)
if n == "0":
    time.sleep(300)
"""
    before = set(slurm_rig.jobs())
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, body)
    wait_for_text(covalent_server, tasks.id, 0, lambda text: b"execution 0" in text)
    (job,) = set(slurm_rig.jobs()) - before
    slurm_rig.requeue(job)
    tasks.completed()
    assert tasks.text() == b"execution 0 of the job\nexecution 1 of the job\n"
    assert tasks.same(executions=2)
    assert tasks.same(stream="stderr", executions=2)
    first = len(tasks.on_cluster())
    restarts = [s for s in tasks.seams() if s["seam"] == "restart" and s["file"] == "stdout"]
    assert [(s["cursor"], s["execution"]) for s in restarts] == [(first, 1)]
