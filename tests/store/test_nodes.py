# SPDX-License-Identifier: Apache-2.0
"""Nodes as the store finds them in Covalent's database, and what it keeps of them between writes."""

import json
import time

from tests.store.scripts import answer_of, dispatch


def test_a_node_is_opened_once_and_unknown_ones_are_named(covalent_server):
    script = """
async def run(output, say):
    said = []
    for node in (output.node_id, 99):
        try:
            await NodeOutput.open(output.dispatch_id, node)
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    said.append(output.snapshot("rank7.stdout"))
    await output.close()
    said.append(await write([(output, Append("stdout", b"too late", 0, time.time()))]))
    said.append(str(output.trouble))
    return said
"""
    dispatch_id = dispatch(covalent_server, script)
    covalent_server.completed(dispatch_id)
    again, unknown, output, taken, trouble = answer_of(covalent_server, dispatch_id)
    assert "is being written already" in again
    assert f"StoreError: dispatch {dispatch_id} has no node 99" in unknown
    assert output is None
    assert taken == [0]
    assert "is closed" in trouble


def test_job_handle_status_and_state_come_from_the_nodes_own_rows(covalent_server):
    script = """
async def run(output, say):
    node = output.dispatch_id, output.node_id
    return [await job_handle(*node), await node_status(*node), await node_state(*node), output.node_name]
"""
    dispatch_id = dispatch(covalent_server, script)
    covalent_server.completed(dispatch_id)
    answer = answer_of(covalent_server, dispatch_id)
    assert answer == [None, "RUNNING", "live", "task"]


def test_opening_a_thousand_nodes_needs_no_descriptor_between_writes(covalent_server):
    """Twelve nodes with three outputs each, all growing: none of their files stays open."""
    script = """
import contextlib, os
async def run(output, say):
    await say(b"x"); await say(b"x", "rank1.stdout"); await say(b"x", "stderr")
    found = 0
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # others open and close theirs meanwhile
            found += str(output.folder.parent) in os.readlink(f"/proc/self/fd/{number}")
    return found
"""
    dispatch_id = dispatch(covalent_server, script, count=12)
    covalent_server.completed(dispatch_id)
    answer = answer_of(covalent_server, dispatch_id)
    assert answer == [0] * 12


def test_remembered_values_lie_beside_the_output(covalent_server):
    script = """
async def run(output, say):
    await output.remember({"job": "12"})
    await output.remember({"folder": "/x"})
    return str(output.folder)
"""
    dispatch_id = dispatch(covalent_server, script)
    covalent_server.completed(dispatch_id)
    path = covalent_server.results_dir / dispatch_id / "node_0" / "joblog" / "state.json"
    state = json.loads(path.read_bytes())
    assert state["remembered"] == {"job": "12", "folder": "/x"}
    assert state["state"] == "closed"
    assert time.time() - path.stat().st_mtime < 600
