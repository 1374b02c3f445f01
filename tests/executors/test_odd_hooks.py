# SPDX-License-Identifier: Apache-2.0
"""Mistakes in an author's hooks: they cost the author's text at most, never the task, never the server."""

from pathlib import Path
from typing import Any

import pytest

from tests.executors.dispatches import dispatch, node
from tests.rigs.covalent_server import CovalentServer

pytestmark = pytest.mark.covalent

FLOW = """
import covalent as ct
executor = ct.executor.OddHooksExecutor(script=hooks, folder=folder, log_interval=0.1, final_read_timeout=5)

@ct.electron(executor=executor)
def task():
    with open(f"{folder}/out.txt", "w") as out: out.write("hello\\n")
    exec(body)

@ct.lattice
def flow():
    return task()
"""


def done(server: CovalentServer, folder: Path, hooks: str, body: str = "") -> dict[str, Any]:
    """The node of one electron run with these hooks, after its end."""
    dispatch_id = dispatch(server, FLOW, hooks=hooks, folder=str(folder), body=body)
    server.finished(dispatch_id, 30)
    return node(server, dispatch_id, 0)


@pytest.mark.parametrize(
    "hooks",
    [
        "async def gone(): raise RuntimeError('broken')",
        "async def after(): raise RuntimeError('broken')",
        "def caps(): raise RuntimeError('broken')",
        "def caps(): return None",
    ],
)
def test_a_broken_hook_beside_the_run_costs_neither_task_nor_text(
    covalent_server: CovalentServer, tmp_path: Path, hooks: str
) -> None:
    found = done(covalent_server, tmp_path, hooks)
    assert (found["status"], found["stdout"], found["error"] or "") == ("COMPLETED", "hello\n", "")


@pytest.mark.parametrize(
    ("hooks", "words"),
    [
        ("async def run(f, a, k): raise SystemExit(3)", "SystemExit(3)"),
        ("async def run(f, a, k): raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("async def run(f, a, k): raise GeneratorExit", "GeneratorExit"),
        ("async def run(f, a, k): raise asyncio.TimeoutError", "TimeoutError"),
        ("async def setup(): raise ValueError", "ValueError"),
        ("async def run(f, a, k): raise ValueError('\\udcff')", "\\udcff"),
        (
            "class Mute(Exception):\n def __str__(self): return 1/0\nasync def run(f, a, k): raise Mute",
            "Mute without a text",
        ),
        ("async def run(f, a, k): raise asyncio.CancelledError", "was cancelled"),
        ("async def run(f, a, k): return 5", "returned a int"),
    ],
)
def test_however_a_run_ends_the_node_ends_with_a_reason(
    covalent_server: CovalentServer, tmp_path: Path, hooks: str, words: str
) -> None:
    found = done(covalent_server, tmp_path, hooks)
    assert found["status"] == "FAILED"
    assert words in found["error"]


def test_a_function_that_exits_in_a_thread_of_the_server_ends_its_task_alone(
    covalent_server: CovalentServer, tmp_path: Path
) -> None:
    found = done(covalent_server, tmp_path, "", "import sys; sys.exit(3)")
    assert (found["status"], found["stdout"]) == ("FAILED", "hello\n")
    assert "SystemExit(3)" in found["error"]
    (tmp_path / "again").mkdir()
    assert done(covalent_server, tmp_path / "again", "")["status"] == "COMPLETED"


HELPERS = """
import covalent as ct
executor = ct.executor.OddHooksExecutor(folder=folder)

@ct.electron(executor=executor)
def make():
    return {"letters": ["a", "b"]}

@ct.electron(executor=executor)
def count(letters):
    return len(letters)

@ct.lattice
def flow():
    return count([make()["letters"], "c"])
"""


def test_helper_nodes_need_no_home_folder_on_the_server(
    fresh_covalent_server: CovalentServer, tmp_path: Path
) -> None:
    (Path(fresh_covalent_server.env["HOME"]) / "covalent").touch()  # no folder can be made there
    fresh_covalent_server.completed(dispatch(fresh_covalent_server, HELPERS, folder=str(tmp_path)))
