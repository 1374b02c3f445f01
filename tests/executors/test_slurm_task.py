# SPDX-License-Identifier: Apache-2.0
"""``SlurmJobLogExecutor`` on a real Covalent server, a real sshd and a real Slurm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.executors.dispatches import dispatch, node, wait_for_text

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.slurm import SlurmRig

pytestmark = [pytest.mark.covalent, pytest.mark.slurm]

FLOW = """
import covalent as ct
slurm = ct.executor.SlurmJobLogExecutor(**options)

@ct.electron(executor=slurm)
def task(*values):
    exec(body, {"values": values, **given})
    return "result"

@ct.lattice
def flow():
    return task(1)
"""


def options(rig: SlurmRig, **more: Any) -> dict[str, Any]:
    """Executor options for the rig."""
    return {
        "host": "127.0.0.1",
        "port": rig.ssh_port,
        "username": "root",
        "client_keys": str(rig.client_key),
        "known_hosts": str(rig.known_hosts),
        "ssh_config": False,
        "python": PYTHON,
        **more,
    }


PYTHON = __import__("sys").executable


def run(
    server: CovalentServer, rig: SlurmRig, body: str, given: dict[str, Any] | None = None, **more: Any
) -> str:
    """Dispatch one electron with that body; the dispatch's id."""
    return dispatch(server, FLOW, body=body, options=options(rig, **more), given=given or {})


def done(server: CovalentServer, rig: SlurmRig, body: str, **more: Any) -> dict[str, Any]:
    """The node of one electron with that body, after its end."""
    dispatch_id = run(server, rig, body, **more)
    server.finished(dispatch_id)
    return node(server, dispatch_id, 0)


def test_each_line_is_in_the_node_result_while_the_job_runs(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    body = """
import os, time
for n in range(4):
    print("line", n)
    while not os.path.exists(f"{gate}/{n}"): time.sleep(0.02)
"""
    dispatch_id = run(covalent_server, slurm_rig, body, {"gate": str(tmp_path)})
    for n in range(4):
        wait_for_text(covalent_server, dispatch_id, 0, lambda text, n=n: b"line %d\n" % n in text)
        seen = node(covalent_server, dispatch_id, 0)
        assert seen["status"] == "RUNNING"
        assert seen["stdout"] == "".join(f"line {m}\n" for m in range(n + 1))
        (tmp_path / str(n)).touch()
    covalent_server.finished(dispatch_id)
    seen = node(covalent_server, dispatch_id, 0)
    assert seen["status"] == "COMPLETED", seen
    assert seen["stdout"] == "line 0\nline 1\nline 2\nline 3\n"


def test_a_failing_job_keeps_its_text_and_says_all_that_is_known(
    covalent_server: CovalentServer, slurm_rig: SlurmRig
) -> None:
    seen = done(covalent_server, slurm_rig, "print('before'); raise ValueError('too bad')")
    assert seen["status"] == "FAILED"
    assert seen["stdout"] == "before\n"
    assert "ValueError: too bad" in seen["stderr"]
    for part in ("ValueError: too bad", "Slurm job ", "FAILED", "exit code 1", "covalent-joblog/", "ssh -p"):
        assert part in seen["error"]
