# SPDX-License-Identifier: Apache-2.0
"""Nodes that a server left behind: another one serves what is there and says that no more comes."""

from tests.rigs.covalent_server import eventually
from tests.web.events import ROOT, Reader, ask, path_of, piece

_FLOW = """
import covalent as ct
from covalent import executor
@ct.electron(executor=executor.StoreScriptExecutor(script=script))
def one(n): return n
@ct.electron(executor=executor.StoreScriptExecutor(script=script))
def two(n): return n
@ct.lattice
def flow(n): return two(one(n))
answer = ct.dispatch(flow)(1)
"""
_WAITS = """
async def run(output, say):
    await output.remember({"note": "waits", "job": {"id": 7}})
    await say(b"begun\\n")
    while True: await asyncio.sleep(1)
"""


def test_what_was_running_or_waiting_is_orphaned_and_ends(fresh_covalent_server):
    server = fresh_covalent_server
    dispatch_id = server.client(_FLOW, script=_WAITS)
    eventually(lambda: ask(server, path_of(dispatch_id))["state"] == "live", 20, "the first node")
    eventually(lambda: piece(server, dispatch_id)[1], 20, "its text")
    assert ask(server, path_of(dispatch_id, 2))["growing"] is True
    server.kill()
    server.start()
    for node_id, known, text in ((0, "RUNNING", b"begun\n"), (2, "NEW_OBJECT", b"")):
        node = ask(server, path_of(dispatch_id, node_id))
        assert (node["state"], node["growing"], node["status"]) == ("orphaned", False, known)
        reader = Reader(server, path_of(dispatch_id, node_id, "events")).to_end()
        assert (reader.connections, reader.seen[-1].data["state"]) == (1, "orphaned")
        assert reader.texts.get("stdout", b"") == text
    node = ask(server, path_of(dispatch_id))
    assert (node["note"], node["job"]) == ("waits", {"id": 7})
    assert ask(server, f"{ROOT}/{dispatch_id}")["status"] == "RUNNING"
    again = server.client(_FLOW, script="async def run(output, say): await say(b'x')")
    server.completed(again)
    assert [ask(server, path_of(again, n))["state"] for n in (0, 2)] == ["closed", "closed"]
