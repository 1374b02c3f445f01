# SPDX-License-Identifier: Apache-2.0
"""A redispatched node's rows point at the old dispatch's files; neither may show the other's text."""

import pytest

from covalent_joblog_plugin.store.node_output import NodeState, node_state
from tests.store.scripts import results

_FLOW = """
import covalent as ct
from covalent import executor
first = executor.StoreScriptExecutor(script=first_script)
second = executor.StoreScriptExecutor(script=second_script)
@ct.electron(executor=first)
def one(n): return n
@ct.electron(executor=second)
def two(n): return n
@ct.lattice
def flow(n): return two(one(n))
"""
_DISPATCH = _FLOW + "answer = ct.dispatch(flow)(1)"
_REDISPATCH = "import covalent as ct\nanswer = ct.redispatch(dispatch_id, reuse_previous_results=reuse)()"


def says(text, fail=False):
    """A script that says ``text`` with the dispatch's own id, and may fail."""
    return f"""
async def run(output, say):
    await say(f"{text} in {{output.dispatch_id}}\\n".encode())
    if {fail}:
        raise RuntimeError("on purpose")
"""


def texts(server, dispatch_id):
    """What nodes 0 and 2 (one, its argument, two) show."""
    nodes = (0, 2)
    shown = [node["stdout"] for node in results(server, dispatch_id, nodes)]
    served = [
        server.stdout(dispatch_id, node).decode() for node in nodes if _has_file(server, dispatch_id, node)
    ]
    return shown, served


def _has_file(server, dispatch_id, node):
    return (server.results_dir / dispatch_id / f"node_{node}" / "stdout.log").exists()


def test_nodes_that_run_again_have_files_of_their_own(covalent_server):
    scripts = {"first_script": says("one"), "second_script": says("two")}
    old = covalent_server.client(_DISPATCH, **scripts)
    covalent_server.completed(old)
    before = texts(covalent_server, old)
    assert before == ([f"one in {old}\n", f"two in {old}\n"],) * 2
    new = covalent_server.client(_REDISPATCH, dispatch_id=old, reuse=False)
    covalent_server.completed(new)
    assert texts(covalent_server, new) == ([f"one in {new}\n", f"two in {new}\n"],) * 2
    assert texts(covalent_server, old) == before


async def test_a_reused_node_keeps_the_old_text_and_a_failed_one_starts_empty(covalent_server):
    broken = {"first_script": says("one"), "second_script": says("two", fail=True)}
    old = covalent_server.client(_DISPATCH, **broken)
    assert covalent_server.finished(old) == "FAILED"
    before = [node["stdout"] for node in results(covalent_server, old, (0, 2))]
    assert before == [f"one in {old}\n", f"two in {old}\n"]
    new = covalent_server.client(_REDISPATCH, dispatch_id=old, reuse=True)
    assert covalent_server.finished(new) == "FAILED"
    assert [node["stdout"] for node in results(covalent_server, new, (0, 2))] == [
        f"one in {old}\n",
        f"two in {new}\n",
    ]
    assert [node["stdout"] for node in results(covalent_server, old, (0, 2))] == before
    assert [await node_state(new, node) for node in (0, 2)] == [NodeState.CLOSED, NodeState.CLOSED]


@pytest.mark.parametrize("reuse", [False, True])
def test_a_redispatch_of_a_redispatch_shows_its_own(covalent_server, reuse):
    scripts = {"first_script": says("one"), "second_script": says("two", fail=True)}
    dispatch_id = covalent_server.client(_DISPATCH, **scripts)
    assert covalent_server.finished(dispatch_id) == "FAILED"
    chain = [dispatch_id]
    for _ in range(2):
        chain.append(covalent_server.client(_REDISPATCH, dispatch_id=chain[-1], reuse=reuse))
        assert covalent_server.finished(chain[-1]) == "FAILED"
    for dispatch_id in chain:
        first, second = results(covalent_server, dispatch_id, (0, 2))
        assert first["stdout"] == f"one in {chain[0] if reuse else dispatch_id}\n"
        assert second["stdout"] == f"two in {dispatch_id}\n"
