# SPDX-License-Identifier: Apache-2.0
"""The store inside a real server: what ``ct.get_result`` and the files endpoint show, and when."""

import hashlib

import pytest

from tests.rigs.covalent_server import eventually
from tests.store.scripts import answer_of, dispatch, index_of, results

SAY_ABC = """
async def run(output, say):
    for text in (b"a\\n", b"b\\n", b"c\\n"):
        await say(text)
"""

GATED = """
import pathlib
async def run(output, say):
    gate = pathlib.Path({gate!r})
    for n in range(5):
        await say(b"line %d\\n" % n)
    while not gate.exists():
        await asyncio.sleep(0.02)
    await say(b"last\\n")
"""


def test_each_delta_follows_the_last_and_survives_the_end(covalent_server):
    dispatch_id = dispatch(covalent_server, SAY_ABC)
    covalent_server.completed(dispatch_id)
    assert results(covalent_server, dispatch_id) == [
        {"status": "COMPLETED", "stdout": "a\nb\nc\n", "stderr": None}
    ]
    assert covalent_server.stdout(dispatch_id, 0) == b"a\nb\nc\n"


def test_a_running_node_shows_what_is_stored(covalent_server, tmp_path):
    gate = tmp_path / "gate"
    dispatch_id = dispatch(covalent_server, GATED.format(gate=str(gate)))
    said = "".join(f"line {n}\n" for n in range(5))
    node = covalent_server.results_dir / dispatch_id / "node_0" / "stdout.log"
    eventually(lambda: node.exists() and node.stat().st_size == len(said), 20, "the first lines")
    (running,) = results(covalent_server, dispatch_id, wait=False)
    assert running == {"status": "RUNNING", "stdout": said, "stderr": None}
    gate.touch()
    covalent_server.completed(dispatch_id)
    (done,) = results(covalent_server, dispatch_id)
    assert done["stdout"] == said + "last\n"
    assert asset_rows(covalent_server, dispatch_id)["stdout"] == (len(said) + 5, None)


def asset_rows(server, dispatch_id, node_id=0):
    """Size and digest in Covalent's rows, by stream."""
    import sqlite3

    query = """SELECT k.key, a.size, a.digest FROM assets a JOIN electron_assets k ON k.asset_id = a.id
        JOIN electrons e ON e.id = k.meta_id JOIN lattices l ON l.id = e.parent_lattice_id
        WHERE l.dispatch_id = ? AND e.transport_graph_node_id = ? AND k.key IN ('stdout', 'stderr')"""
    with sqlite3.connect(server.database) as connection:
        return {
            key: (size, digest) for key, size, digest in connection.execute(query, (dispatch_id, node_id))
        }


def test_a_node_that_writes_nothing_has_empty_files_of_size_zero(covalent_server):
    dispatch_id = dispatch(covalent_server, "async def run(output, say): return 7")
    covalent_server.completed(dispatch_id)
    assert asset_rows(covalent_server, dispatch_id) == {"stdout": (0, None), "stderr": (0, None)}
    assert covalent_server.stdout(dispatch_id, 0) == b""
    assert results(covalent_server, dispatch_id)[0]["stdout"] is None


@pytest.mark.parametrize(
    "source", [b"caf\xe9 ok\n", b"a\0b\r\nc\r", b"\xe2\x82", b"\xed\xa0\x80\n", b"\xff" * 100], ids=repr
)
def test_undecodable_bytes_hurt_neither_the_task_nor_its_result(covalent_server, source):
    script = f"""
async def run(output, say):
    for byte in {source!r}:
        await say(bytes([byte]))
    await say({source!r}, "stderr")
    return output.snapshot("stdout").view.read(0, 1000).hex()
"""
    dispatch_id = dispatch(covalent_server, script)
    covalent_server.completed(dispatch_id)
    shown = source.decode("utf-8", "surrogateescape").encode("utf-8", "replace")
    (node,) = results(covalent_server, dispatch_id)
    assert node == {"status": "COMPLETED", "stdout": shown.decode(), "stderr": shown.decode()}
    assert covalent_server.stdout(dispatch_id, 0) == shown


def test_late_text_after_the_end_is_kept(covalent_server, tmp_path):
    """Covalent refuses any update of a finished node; the text does not go that way."""
    script = f"""
import pathlib
async def later(dispatch_id, node_id):
    while not pathlib.Path({str(tmp_path / "gate")!r}).exists():
        await asyncio.sleep(0.02)
    output = await NodeOutput.open(dispatch_id, node_id)
    await write([(output, Append("stdout", b"tail\\n", 0, time.time()))])
    await output.close()
tasks = []
async def run(output, say):
    for n in range(5):
        await say(b"%d\\n" % n)
    tasks.append(asyncio.create_task(later(output.dispatch_id, output.node_id)))
"""
    dispatch_id = dispatch(covalent_server, script)
    covalent_server.completed(dispatch_id)
    (tmp_path / "gate").touch()
    said = "0\n1\n2\n3\n4\ntail\n"
    eventually(lambda: covalent_server.stdout(dispatch_id, 0) == said.encode(), 10, "the tail")
    eventually(lambda: asset_rows(covalent_server, dispatch_id)["stdout"][0] == len(said), 10, "its size")
    assert results(covalent_server, dispatch_id)[0]["stdout"] == said


def test_the_asset_ends_at_the_cap_and_the_rest_is_kept(covalent_server):
    script = """
import hashlib
async def run(output, say):
    line = "0123456789 \\u65e5\\u672c\\n".encode()
    for _ in range(300):
        await say(line * 100)
    view = output.snapshot("stdout").view
    got = b"".join(view.read(at, 65536) for at in range(0, view.total, 65536))
    return [view.total, hashlib.sha256(got).hexdigest()]
"""
    dispatch_id = dispatch(covalent_server, script, max_node_bytes=100_001)
    covalent_server.completed(dispatch_id)
    line = "0123456789 日本\n".encode()
    answer = answer_of(covalent_server, dispatch_id)
    assert answer == [30_000 * len(line), hashlib.sha256(line * 30_000).hexdigest()]
    (node,) = results(covalent_server, dispatch_id)
    text = node["stdout"].encode()
    assert 100_001 - 3 < len(text) <= 100_001
    assert (line * 30_000).startswith(text)


def test_other_outputs_lie_beside_and_never_outside(covalent_server):
    names = [
        "rank1.stdout",
        "../../escape",
        "/etc/passwd",
        "a\0b",
        "日本.log",
        "x" * 300,
        "x" * 301,
        ".",
        "..",
        "%2E",
    ]
    script = f"""
async def run(output, say):
    for n, name in enumerate({names!r}):
        await say(b"%d" % n, name)
    return [output.snapshot(name).view.read(0, 10).decode() for name in {names!r}]
"""
    dispatch_id = dispatch(covalent_server, script)
    covalent_server.completed(dispatch_id)
    node = covalent_server.results_dir / dispatch_id / "node_0"
    kept = list((node / "joblog" / "files").iterdir())
    assert sorted(int(path.read_bytes()) for path in kept) == list(range(len(names)))
    assert not list(covalent_server.root.rglob("*escape*")) or all(
        "files" in str(p) for p in node.rglob("*escape*")
    )
    assert {record["file"] for record in index_of(node)} == {*names, "stdout", "stderr"}
    modes = {path.stat().st_mode & 0o777 for path in (node / "joblog").rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert (node / "joblog").stat().st_mode & 0o777 == 0o700
    assert {(node / f"{name}.log").stat().st_mode & 0o777 for name in ("stdout", "stderr")} == {0o600}


def test_the_index_tells_when_what_arrived_and_where_the_seams_are(covalent_server):
    script = """
async def run(output, say):
    items = [
        Append("stdout", b"one\\n", 0, 100.0, 90.0),
        Append("stdout", b"soon\\n", 0, 100.5),
        Append("stdout", b"later\\n", 0, 101.5),
        Append("stdout", b"x" * 70_000, 0, 101.6),
        Append("stdout", b"after much\\n", 0, 101.7),
        SeamAt("stdout", Seam(SeamKind.RESTART, "restart 1", 1)),
        Append("stdout", b"again\\n", 1, 101.8),
        SeamAt("stderr", Seam(SeamKind.LOST, "4 bytes lost", 0, 4)),
    ]
    return await write([(output, item) for item in items])
"""
    dispatch_id = dispatch(covalent_server, script)
    covalent_server.completed(dispatch_id)
    lines = index_of(covalent_server.results_dir / dispatch_id / "node_0")
    arrivals = [(line["cursor"], line["arrival"], line["execution"]) for line in lines if "arrival" in line]
    assert arrivals == [(0, 100.0, 0), (9, 101.5, 0), (70_015, 101.7, 0), (70_026, 101.8, 1)]
    assert lines[0]["source_time"] == 90.0
    seams = [{k: line[k] for k in ("file", "cursor", "seam", "lost")} for line in lines if "seam" in line]
    assert seams == [
        {"file": "stdout", "cursor": 70_026, "seam": "restart", "lost": None},
        {"file": "stderr", "cursor": 0, "seam": "lost", "lost": 4},
    ]
    assert {line["file"]: line["cursor"] for line in lines if "end" in line} == {
        "stdout": 70_032,
        "stderr": 0,
    }


def test_hundreds_of_megabytes_cost_neither_memory_nor_more_time_at_the_end(covalent_server):
    script = """
import resource, statistics
def rss():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))
async def run(output, say):
    block, took = b"a line of eighty characters or so, as jobs write them by the million ...\\n" * 10_000, []
    await say(block)
    before = rss()
    for _ in range(400):
        began = time.perf_counter()
        await say(block)
        took.append(time.perf_counter() - began)
    view = output.snapshot("stdout").view
    end, tail = view.total, view.read(view.total - 100, 1000)
    grown = rss() - before
    return [grown, statistics.median(took[:50]), statistics.median(took[-50:]), tail == block[-100:], end]
"""
    dispatch_id = dispatch(covalent_server, script, min_free=0)
    covalent_server.completed(dispatch_id)
    grown, first, last, tail, length = answer_of(covalent_server, dispatch_id)
    assert length > 280e6
    assert grown < 64 << 20
    assert last < 3 * first + 0.01
    assert tail
    assert len(covalent_server.stdout(dispatch_id, 0)) == 64 << 20
