# SPDX-License-Identifier: Apache-2.0
"""What a real Covalent server hands over, carried to a child process and back."""

from __future__ import annotations

import pytest

from tests.executors.dispatches import dispatch, node
from tests.rigs.covalent_server import SUBLATTICES_RUN

pytestmark = pytest.mark.covalent

RESULT = """
import covalent as ct
answer = ct.get_result(dispatch_id, wait=True).result
"""


def result(server, script, **values):
    """The result of the lattice ``flow`` of ``script``."""
    dispatch_id = dispatch(server, script, **values)
    server.completed(dispatch_id)
    return server.client(RESULT, dispatch_id=dispatch_id)


def test_dependencies_context_and_collections_arrive_as_covalent_means_them(covalent_server, tmp_path):
    script = """
import covalent as ct

def fetch(word):
    print("fetched", word)
    return word

@ct.electron(
    executor="joblog_local",
    deps_bash=["echo made by bash > " + folder + "/made"],
    call_before=[ct.DepsCall(fetch, args=["a"], retval_keyword="first")],
    call_after=[ct.DepsCall(fetch, args=["z"])],
)
def train(x, first=None):
    with open(folder + "/made") as file:
        return {"x": x, "first": first, "made": file.read(), "node": ct.get_context().task_id}

@ct.electron(executor="joblog_local")
def collect(items, table):
    return [items, table]

@ct.lattice(executor="joblog_local", workflow_executor="joblog_local")
def flow():
    trained = train(5)
    return collect([trained, 2], {"t": trained})
"""
    trained = {"x": 5, "first": "a", "made": "made by bash\n", "node": 0}

    assert result(covalent_server, script, folder=str(tmp_path)) == [[trained, 2], {"t": trained}]


def test_an_electron_called_by_an_electron_runs(covalent_server):
    script = """
import covalent as ct

@ct.electron(executor="joblog_local")
def double(x):
    return 2 * x

@ct.electron(executor="joblog_local")
def through(x):
    return double(x) + 1

@ct.lattice(executor="joblog_local", workflow_executor="joblog_local")
def flow():
    return through(3)
"""
    assert result(covalent_server, script) == 7


def test_a_sublattice_runs_where_covalent_can_unpack_it(covalent_server):
    script = """
import covalent as ct

@ct.electron(executor="joblog_local")
def double(x):
    return 2 * x

@ct.electron(executor="joblog_local")
@ct.lattice(executor="joblog_local", workflow_executor="joblog_local")
def inner(x):
    return double(x)

@ct.lattice(executor="joblog_local", workflow_executor="joblog_local")
def flow():
    return inner(4)
"""
    if SUBLATTICES_RUN:
        assert result(covalent_server, script) == 8
    else:
        with pytest.raises(AssertionError, match=r"unexpected keyword argument .*filter"):
            result(covalent_server, script)


def test_a_local_module_travels_by_value_to_an_interpreter_without_covalent(
    covalent_server, tmp_path, bare_python
):
    (tmp_path / "mine_alone.py").write_text("FACTOR = 3\ndef times(x):\n    return x * FACTOR\n")
    script = """
import sys
sys.path.insert(0, folder)
import covalent as ct, mine_alone

@ct.electron(
    executor=ct.executor.LocalJobLogExecutor(python=python), deps_module="mine_alone"
)
def train(x):
    return mine_alone.times(x), __import__("sys").executable

@ct.lattice(workflow_executor="joblog_local")
def flow():
    return train(5)
"""
    assert result(covalent_server, script, folder=str(tmp_path), python=bare_python) == [15, bare_python]


def test_the_python_that_counts_is_the_clients_not_the_servers(covalent_server):
    script = """
import platform
import covalent as ct

platform.python_version = lambda: "3.7.1"

@ct.electron(executor="joblog_local")
def train():
    return 1

@ct.lattice(workflow_executor="joblog_local")
def flow():
    return train()
"""
    try:
        dispatch_id = dispatch(covalent_server, script)
    finally:
        covalent_server.client("import importlib, platform\nimportlib.reload(platform)\nanswer = None")
    assert covalent_server.finished(dispatch_id) == "FAILED"

    found = node(covalent_server, dispatch_id, 0)

    assert "the function was pickled by Python 3.7.1 and cannot run by" in found["error"]
    assert not found["stderr"]
