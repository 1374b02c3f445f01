# SPDX-License-Identifier: Apache-2.0
"""What is left of a running local task's output when its server ends, in each of the ways it can."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.executors.dispatches import cancel, dispatch, node, wait_for_text
from tests.rigs.covalent_server import CovalentServer, eventually

pytestmark = pytest.mark.covalent

FLOW = """
import covalent as ct

@ct.electron(executor=ct.executor.LocalJobLogExecutor())
def count(folder):
    import os, time
    with open(f"{folder}/pid", "w") as file:
        file.write(str(os.getpid()))
    n = 0
    while True:
        print("line", n, "€")
        n += 1
        time.sleep(0.01)

@ct.lattice
def flow():
    return count(folder)
"""

STATE = """
import asyncio
from covalent_joblog_plugin.store.node_output import node_state
answer = asyncio.run(node_state(dispatch_id, 0)).value
"""


@pytest.mark.parametrize(
    ("way", "states", "task_ends"),
    [
        ("stop", {"interrupted", "orphaned", "closed"}, True),
        ("term", {"interrupted", "orphaned", "closed"}, False),
        ("kill", {"orphaned"}, False),
    ],
)
def test_the_text_up_to_the_servers_end_is_kept_and_readable_afterwards(
    fresh_covalent_server: CovalentServer, tmp_path: Path, way: str, states: set[str], task_ends: bool
) -> None:
    server = fresh_covalent_server
    dispatch_id = dispatch(server, FLOW, folder=str(tmp_path))
    before = wait_for_text(server, dispatch_id, 0, lambda text: text.count(b"\n") > 20)
    pid = (tmp_path / "pid").read_text()
    try:
        getattr(server, way)()
        if task_ends:
            eventually(lambda: not Path(f"/proc/{pid}/environ").exists(), 10, "end of the task")
        server.start()
        text = node(server, dispatch_id, 0)["stdout"]
        assert text.encode().startswith(before)
        lines = text.split("\n")
        assert lines[:-1] == [f"line {n} €" for n in range(len(lines) - 1)]
        assert re.fullmatch(r"(line? ?(\d+( €?)?)?|l?i?n?)?", lines[-1])
        assert server.client(STATE, dispatch_id=dispatch_id) in states
        assert server.stdout(dispatch_id, 0).decode() == text
    finally:
        if Path(f"/proc/{pid}").exists():
            os.kill(int(pid), signal.SIGKILL)


def test_a_node_that_an_earlier_server_left_running_can_be_cancelled(
    fresh_covalent_server: CovalentServer, tmp_path: Path
) -> None:
    server = fresh_covalent_server
    dispatch_id = dispatch(server, FLOW, folder=str(tmp_path))
    wait_for_text(server, dispatch_id, 0, lambda text: b"line 3" in text)
    pid = (tmp_path / "pid").read_text()
    server.kill()
    assert Path(f"/proc/{pid}").exists()
    server.start()
    cancel(server, dispatch_id)
    eventually(lambda: not Path(f"/proc/{pid}/environ").exists(), 20, "end of the task")
