# SPDX-License-Identifier: Apache-2.0
"""An executor that has only ``get_files_to_monitor``, ``poll_file`` and ``run`` gets everything."""

import json
from pathlib import Path

import pytest

from tests.executors.dispatches import dispatch, electron_ids, node, wait_for_text
from tests.rigs.covalent_server import CovalentServer

pytestmark = pytest.mark.covalent

FLOW = """
import covalent as ct
from covalent.executor import _executor_manager
executor = ct.executor.ThreeHooksExecutor(folder=folder, log_interval=0.1)

@ct.electron(executor=executor)
def make(folder):
    return {"folder": folder, "letters": ["a", "b"]}

@ct.electron(executor=executor)
def task(folder, letters, table):
    import os, time
    with open(f"{folder}/out.txt", "a", buffering=1) as out, open(f"{folder}/problems.err", "a") as err:
        out.write("first €\\n")
        err.write("careful\\n")
        while not os.path.exists(f"{folder}/go"): time.sleep(0.02)
        out.write(f"{letters} {table}\\n")
    open(f"{folder}/losses.csv", "w").write("0,1\\n")
    if os.path.exists(f"{folder}/fail"): raise RuntimeError("as asked")
    return len(letters)

@ct.lattice
def flow():
    made = make(folder)
    return task(folder, [made["letters"], "c"], {"k": made["folder"]})
"""


@pytest.mark.parametrize("fails", [False, True])
def test_text_is_live_and_kept_and_files_are_beside_the_node(
    covalent_server: CovalentServer, tmp_path: Path, fails: bool
) -> None:
    if fails:
        (tmp_path / "fail").touch()
    dispatch_id = dispatch(covalent_server, FLOW, folder=str(tmp_path))
    (task,) = electron_ids(covalent_server, dispatch_id, "task")
    wait_for_text(covalent_server, dispatch_id, task, lambda text: "first €\n".encode() in text)
    (tmp_path / "go").touch()
    assert covalent_server.finished(dispatch_id) == ("FAILED" if fails else "COMPLETED")
    found = node(covalent_server, dispatch_id, task)
    assert found["stdout"] == f"first €\n[['a', 'b'], 'c'] {{'k': '{tmp_path}'}}\n"
    assert found["stderr"] == "careful\n"
    assert ("as asked" in (found["error"] or "")) is fails
    folder = covalent_server.results_dir / dispatch_id / f"node_{task}"
    assert [p.read_bytes() for p in folder.rglob("*losses.csv*")] == [b"0,1\n"]
    known = json.loads((folder / "joblog" / "state.json").read_text())["remembered"]["capabilities"]
    assert known["truncation"] == {"answer": "unknown", "reason": "ThreeHooksExecutor has no stat_file"}
