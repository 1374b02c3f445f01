# SPDX-License-Identifier: Apache-2.0
"""Stored output of nodes of a real server, read by another process: this one."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from covalent_joblog_plugin.model.errors import OutputNotFound
from covalent_joblog_plugin.store import reading
from covalent_joblog_plugin.store.layout import safe_name
from covalent_joblog_plugin.store.node_output import Append, NodeOutput, NodeState, write
from covalent_joblog_plugin.store.reading import OutputName, StoredNode, find, known_dispatch, will_begin
from covalent_joblog_plugin.store.rows import Dispatch, Node
from tests.rigs.covalent_server import SUBLATTICES_RUN, eventually
from tests.store.scripts import dispatch
from tests.store.test_node_output import GATED

NAMES = ["rank1.stdout", "../../escape", "a\0b", "日本.log", "y" * 300, "%2E", ""]

STOCK = """
import covalent as ct
@ct.electron(executor="local")
def task():
    import sys
    print("said")
    print("complained", file=sys.stderr)
@ct.lattice
def flow(): return task()
answer = ct.dispatch(flow)()
"""

SUBLATTICE = """
import covalent as ct
@ct.electron(executor="local")
def task(): print("inner")
@ct.electron(executor="local")
@ct.lattice
def inner(): return task()
@ct.lattice
def flow(): return inner()
answer = ct.dispatch(flow)()
"""


def text(node, file="stdout"):
    """All that is stored of one output."""
    view = node.snapshot(file).view
    return view.read(0, view.total)


def test_output_of_covalents_own_executors_is_read_as_well(covalent_server):
    dispatch_id = covalent_server.client(STOCK)
    covalent_server.completed(dispatch_id)
    node = find(dispatch_id, 0)
    assert (node.state, node.remembered, list(node.sizes())) == (NodeState.ABSENT, {}, ["stdout", "stderr"])
    assert text(node) == b"said\n"
    assert text(node, "stderr") == b"complained\n"
    assert node.snapshot("rank1.stdout") is None
    assert node.snapshot("stdout").index is None


def test_every_output_of_a_node_is_found_by_its_name_with_its_true_bytes(covalent_server):
    script = f"""
async def run(output, say):
    await say(b"valid \\xff" * 1000)
    await say(b"late", "stderr", 1)
    for n, name in enumerate({NAMES!r}):
        await say(b"%d\\xff" % n, name)
    await output.remember({{"note": "why"}})
"""
    dispatch_id = dispatch(covalent_server, script, max_node_bytes=700)
    covalent_server.completed(dispatch_id)
    node = find(dispatch_id, 0)
    assert isinstance(node, StoredNode)
    assert (node.state, node.remembered) == (NodeState.CLOSED, {"note": "why"})
    assert sorted(node.sizes()) == sorted([*NAMES, "stdout", "stderr"])
    assert text(node) == b"valid \xff" * 1000
    assert [text(node, name) for name in NAMES] == [b"%d\xff" % n for n in range(len(NAMES))]
    index = node.snapshot("stderr").index
    assert [entry["execution"] for _, entry in index.entries("stderr") if "arrival" in entry] == [1]
    assert node.snapshot("stdout.from-6") is None


def test_a_long_name_the_index_lacks_is_known_by_its_files(covalent_server):
    dispatch_id = dispatch(covalent_server, f"async def run(output, say): await say(b'x', {'y' * 300!r})")
    covalent_server.completed(dispatch_id)
    (covalent_server.results_dir / dispatch_id / "node_0" / "joblog" / "index.jsonl").unlink()
    node = find(dispatch_id, 0)
    assert list(node.sizes()) == ["stdout", "stderr", safe_name("y" * 300)]
    assert text(node, safe_name("y" * 300)) == text(node, "y" * 300) == b"x"


def test_what_is_unknown_is_named_with_what_there_is(covalent_server):
    dispatch_id = dispatch(covalent_server, "async def run(output, say): pass", count=3)
    covalent_server.completed(dispatch_id)
    with pytest.raises(OutputNotFound, match="no node 99") as caught:
        find(dispatch_id, 99)
    assert caught.value.exists[:3] == ["0", "1", "2"]
    with pytest.raises(OutputNotFound, match="no dispatch nonsense") as caught:
        find("nonsense", 0)
    assert caught.value.exists[0] == dispatch_id


def test_a_node_that_another_server_writes_shows_what_it_has_so_far(covalent_server, tmp_path):
    gate = tmp_path / "gate"
    dispatch_id = dispatch(covalent_server, GATED.format(gate=str(gate)))
    said = b"".join(b"line %d\n" % n for n in range(5))
    eventually(lambda: text(find(dispatch_id, 0)) == said, 20, "the first lines")
    assert find(dispatch_id, 0).state is NodeState.ORPHANED
    gate.touch()
    covalent_server.completed(dispatch_id)
    node = find(dispatch_id, 0)
    assert (node.state, text(node)) == (NodeState.CLOSED, said + b"last\n")


async def test_a_node_this_process_writes_is_read_from_memory(covalent_server):
    dispatch_id = dispatch(covalent_server, "async def run(output, say): await say(b'old', 'rank1.stdout')")
    covalent_server.completed(dispatch_id)
    node = await NodeOutput.open(dispatch_id, 0, min_free=0)
    await write([(node, Append("stdout", b"now\xe2\x82", 0, 1.0))])
    assert find(dispatch_id, 0) is node
    assert (text(node), text(node, "rank1.stdout")) == (b"now", b"old")
    assert list(node.sizes()) == ["stdout", "stderr", "rank1.stdout"]
    before = node.snapshot("stdout")
    await node.close()
    assert (before.state, before.view.total) == (NodeState.LIVE, 3)
    after = find(dispatch_id, 0)
    assert (after.state, text(after)) == (NodeState.CLOSED, b"now\xe2\x82")


@pytest.mark.parametrize("state", [b"{", b"[]", b"{}", b"\xff"])
def test_a_state_that_cannot_be_read_hides_no_bytes(covalent_server, state):
    dispatch_id = dispatch(covalent_server, "async def run(output, say): await say(b'text')")
    covalent_server.completed(dispatch_id)
    (covalent_server.results_dir / dispatch_id / "node_0" / "joblog" / "state.json").write_bytes(state)
    node = find(dispatch_id, 0)
    assert (node.state, text(node)) == (NodeState.INTERRUPTED, b"text")
    assert "what became of it cannot be read" in node.remembered["note"]


def test_a_folder_exchanged_for_a_link_is_not_followed(covalent_server, tmp_path):
    dispatch_id = dispatch(covalent_server, "async def run(output, say): await say(b'x', 'rank1.stdout')")
    covalent_server.completed(dispatch_id)
    ours = covalent_server.results_dir / dispatch_id / "node_0" / "joblog"
    ours.rename(tmp_path / "moved")
    ours.symlink_to(tmp_path / "moved")
    node = find(dispatch_id, 0)
    assert (list(node.sizes()), node.snapshot("rank1.stdout")) == (["stdout", "stderr"], None)


def test_half_a_line_of_the_index_is_not_read(covalent_server):
    dispatch_id = dispatch(covalent_server, "async def run(output, say): await say(b'text')")
    covalent_server.completed(dispatch_id)
    path = covalent_server.results_dir / dispatch_id / "node_0" / "joblog" / "index.jsonl"
    whole = [json.loads(line) for line in path.read_bytes().splitlines()]
    with path.open("ab") as file:
        file.write(b'{"file": "stdout", "cur')
    index = find(dispatch_id, 0).snapshot("stdout").index
    assert [e for _, e in index.entries("stdout")] == [line for line in whole if line["file"] == "stdout"]
    path.write_bytes(b'{"file')
    assert find(dispatch_id, 0).snapshot("stdout").index is not None


def test_a_sublattice_names_the_dispatch_it_stands_for(covalent_server):
    dispatch_id = covalent_server.client(SUBLATTICE)
    assert covalent_server.finished(dispatch_id) == ("COMPLETED" if SUBLATTICES_RUN else "FAILED")
    outer = known_dispatch(dispatch_id)
    subs = [node.sub_dispatch_id for node in outer.nodes.values() if node.sub_dispatch_id]
    assert len(subs) == SUBLATTICES_RUN
    for sub in subs:
        inner = known_dispatch(sub)
        assert (outer.name, inner.name, inner.status) == ("flow", "inner", "COMPLETED")
        assert text(find(sub, 0)) == b"inner\n"


def test_many_who_wait_ask_the_database_once(covalent_server, monkeypatch):
    dispatch_id = dispatch(covalent_server, "async def run(output, say): pass", count=3)
    asked, real = [], reading.known_dispatch

    def counting(dispatch_id):
        asked.append(dispatch_id)
        return real(dispatch_id)

    monkeypatch.setattr(reading, "known_dispatch", counting)
    monkeypatch.setattr(reading, "FRESH", 600.0)
    with ThreadPoolExecutor(8) as pool:
        known = list(pool.map(lambda _: reading.watched_dispatch(dispatch_id), range(500)))
    assert asked == [dispatch_id]
    assert known[0].nodes.keys() == real(dispatch_id).nodes.keys()
    covalent_server.completed(dispatch_id)
    monkeypatch.setattr(reading, "FRESH", 0.1)
    eventually(lambda: reading.watched_dispatch(dispatch_id).status == "COMPLETED", 10, "news of its end")
    monkeypatch.setattr(reading, "FRESH", -1.0)
    with pytest.raises(OutputNotFound):
        reading.watched_dispatch("nonsense")
    assert reading._watched == {}


@pytest.mark.parametrize(
    ("state", "node", "dispatched", "expected"),
    [
        (NodeState.ABSENT, "RUNNING", "RUNNING", True),
        (NodeState.ABSENT, "NEW_OBJECT", "RUNNING", True),
        (NodeState.ABSENT, "NEW_OBJECT", "NEW_OBJECT", True),
        (NodeState.ABSENT, "NEW_OBJECT", "FAILED", False),
        (NodeState.ABSENT, "RUNNING", "FAILED", True),
        (NodeState.ABSENT, "COMPLETED", "RUNNING", False),
        (NodeState.ORPHANED, "RUNNING", "RUNNING", False),
        (NodeState.CLOSED, "RUNNING", "RUNNING", False),
    ],
)
def test_who_waits_for_output_waits_only_while_some_may_come(state, node, dispatched, expected):
    row = Node(0, "task", node, "local", None)
    assert will_begin(Dispatch("flow", dispatched, 1.0, {0: row}), row, state) is expected


def test_names_say_whose_output_it_is():
    said = [OutputName.of(name) for name in ("stdout", "stderr", "rank12.log", "rank3.stderr")]
    assert [(name.stream, name.rank) for name in said] == [
        ("stdout", 0),
        ("stderr", 0),
        ("log", 12),
        ("stderr", 3),
    ]
    for name in ("rank0.stdout", "rank01.stdout", "train.csv", "rank1.stdout2", "rank٣.stdout", "log"):
        assert OutputName.of(name) == OutputName(None, None)
