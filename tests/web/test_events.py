# SPDX-License-Identifier: Apache-2.0
"""Following a node's output: exactly the stored bytes, whenever and however often one begins."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.rigs.covalent_server import eventually
from tests.store.scripts import answer_of, dispatch
from tests.store.test_server_end import streaming
from tests.web.events import Reader, ask, downloaded, events, path_of

STEPS = """
import pathlib, random
gates = pathlib.Path({gates!r})
async def gate(name):
    while not (gates / name).exists():
        await asyncio.sleep(0.01)
async def run(output, say):
    await gate("begin")
    source = random.Random(7).randbytes(300_000)
    at = 0
    while at < len(source):
        size = random.choice([1, 2, 3, 100, 20_000])
        await say(source[at:at + size], execution=at // 100_000)
        at += size
        if at > 150_000:
            await gate("middle")
    await write([(output, SeamAt("stdout", Seam(SeamKind.RESTART, "again", 3)))])
    await say(b"err", "stderr")
    await gate("end")
"""
SOURCE = random.Random(7).randbytes(300_000)


@pytest.fixture
def gates(tmp_path):
    """Opens the gates of ``STEPS``."""

    def open_gate(name):
        (tmp_path / name).touch()

    yield open_gate
    for name in ("begin", "middle", "end"):
        open_gate(name)


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as threads:
        yield threads


def known(server, dispatch_id, node_id=0):
    return ask(server, path_of(dispatch_id, node_id))


def test_whoever_begins_whenever_gets_the_stored_bytes_once(covalent_server, gates, pool, tmp_path):
    server = covalent_server
    dispatch_id = dispatch(server, STEPS.format(gates=str(tmp_path)), max_node_bytes=200_001)
    path = path_of(dispatch_id, what="events")
    readers = [
        Reader(server, path),
        Reader(server, path_of(dispatch_id, what="events", file=["stderr", "stdout"])),
    ]
    reading = [pool.submit(reader.to_end) for reader in readers]
    eventually(lambda: all(reader.seen for reader in readers), 20, "the first event")
    assert not readers[0].texts
    gates("begin")
    eventually(lambda: len(readers[0].texts.get("stdout", b"")) > 150_000, 20, "the middle")
    readers += [Reader(server, path), Reader(server, path_of(dispatch_id, what="events", cursor=-1000))]
    reading += [pool.submit(reader.to_end) for reader in readers[2:]]
    eventually(lambda: all(reader.texts for reader in readers), 20, "text for the late ones")
    gates("middle")
    eventually(lambda: readers[1].texts.get("stderr") == b"err", 20, "the last of it")
    gates("end")
    for future in reading:
        future.result(60)
    readers.append(Reader(server, path).to_end())
    server.completed(dispatch_id)
    assert downloaded(server, dispatch_id) == SOURCE
    for reader in readers:
        start = reader.starts["stdout"]
        assert reader.texts["stdout"] == SOURCE[start:]
        assert [(seam["seam"], seam["cursor"]) for seam in reader.seams] == [("restart", len(SOURCE))]
        assert reader.seen[-1].data["state"] == "closed"
        assert reader.connections == 1
    assert [reader.starts["stdout"] == 0 for reader in readers] == [True, True, True, False, True]


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_follower_goes_on_across_a_restart_of_the_server(fresh_covalent_server, pool, end):
    server = fresh_covalent_server
    dispatch_id, asset = streaming(server)
    reader = Reader(server, path_of(dispatch_id, what="events"))
    reading = pool.submit(reader.to_end)
    eventually(lambda: len(reader.texts.get("stdout", b"")) > 1_000_000, 20, "text")
    getattr(server, end)()
    server.start()
    reading.result(60)
    stored = downloaded(server, dispatch_id)
    assert reader.texts == {"stdout": stored}
    assert reader.connections >= 2
    assert stored == asset.read_bytes()[: len(stored)]
    assert (reader.seen[-1].data["state"], reader.seen[-1].data["growing"]) == ("orphaned", False)
    assert Reader(server, reader.path).to_end().texts == {"stdout": stored}


def test_a_server_that_stops_does_not_wait_for_its_followers(fresh_covalent_server):
    server = fresh_covalent_server
    dispatch_id, _ = streaming(server)
    streams = [events(server, path_of(dispatch_id, what="events")) for _ in range(5)]
    assert [next(stream).kind for stream in streams] == ["node"] * 5
    server.term()  # CovalentServer waits for its end
    assert server.pid == 0


@pytest.fixture
def second_of_two(covalent_server, tmp_path):
    """A dispatch whose node 2 waits for node 0, which waits for the gate ``begin``."""
    script = """
import covalent as ct
from covalent import executor
@ct.electron(executor=executor.StoreScriptExecutor(script=first))
def one(n): return n
@ct.electron(executor=executor.StoreScriptExecutor(script=then) if then else "local")
def two(n): print("said"); return n
@ct.lattice
def flow(n): return two(one(n))
answer = ct.dispatch(flow)(1)
"""
    first = f"""
import pathlib
async def run(output, say):
    while not pathlib.Path({str(tmp_path / "begin")!r}).exists():
        await asyncio.sleep(0.01)
"""
    return lambda then: covalent_server.client(script, first=first, then=then)


@pytest.mark.parametrize(
    ("then", "state"), [("async def run(output, say): await say(b'said\\n')", "closed"), ("", "absent")]
)
def test_a_node_can_be_followed_before_it_begins(covalent_server, gates, second_of_two, pool, then, state):
    """Also one of Covalent's own executors, which hand their output over at the end."""
    server = covalent_server
    dispatch_id = second_of_two(then)
    reader = Reader(server, path_of(dispatch_id, 2, "events"))
    reading = pool.submit(reader.to_end)
    eventually(lambda: reader.seen, 20, "the first event")
    waiting = reader.seen[0].data
    assert (waiting["state"], waiting["growing"], waiting["status"]) == ("absent", True, "NEW_OBJECT")
    gates("begin")
    reading.result(60)
    assert reader.texts == {"stdout": b"said\n"}
    assert reader.seen[-1].data["state"] == state
    server.completed(dispatch_id)
    assert known(server, dispatch_id, 2)["growing"] is False


def test_what_changes_about_a_node_is_told(covalent_server, pool, tmp_path, gates):
    server = covalent_server
    script = f"""
import pathlib
async def gate(name):
    while not (pathlib.Path({str(tmp_path)!r}) / name).exists():
        await asyncio.sleep(0.01)
async def run(output, say):
    await gate("begin")
    await output.remember({{"note": "waits for a node", "job": {{"id": 7}}}})
    await gate("middle")
    await say(b"x", "rank1.stdout")
    await gate("end")
    await write([(output, SeamAt("stdout", Seam(SeamKind.LOST, "4 bytes lost", 0, 4)))])
"""
    dispatch_id = dispatch(server, script)
    reader = Reader(server, path_of(dispatch_id, what="events", file=["stdout", "rank1.stdout"]))
    reading = pool.submit(reader.to_end)
    eventually(lambda: reader.seen, 20, "the first event")
    gates("begin")
    eventually(lambda: reader.seen[-1].data["note"] == "waits for a node", 10, "the note")
    assert reader.seen[-1].data["job"] == {"id": 7}
    gates("middle")
    eventually(lambda: reader.seen[-1].data["files"][-1]["name"] == "rank1.stdout", 10, "the new output")
    assert reader.seen[-1].data["files"][-1] == {
        "name": "rank1.stdout",
        "stream": "stdout",
        "rank": 1,
        "size": 1,
    }
    gates("end")
    reading.result(60)
    assert reader.texts == {"rank1.stdout": b"x", "stdout": b""}
    assert [(seam["cursor"], seam["lost"]) for seam in reader.seams] == [(0, 4)]


def test_a_task_of_a_real_executor_is_followed_with_its_source(covalent_server, tmp_path, pool):
    flow = """
import covalent as ct
@ct.electron(executor="joblog_local")
def task(gate):
    import os, time
    print("begun", flush=True)
    while not os.path.exists(gate): time.sleep(0.02)
    print("done")
@ct.lattice
def flow(gate): return task(gate)
answer = ct.dispatch(flow)(gate)
"""
    dispatch_id = covalent_server.client(flow, gate=str(tmp_path / "gate"))
    reader = Reader(covalent_server, path_of(dispatch_id, what="events"))
    reading = pool.submit(reader.to_end)
    eventually(lambda: reader.texts.get("stdout") == b"begun\n", 20, "the first line")
    node = known(covalent_server, dispatch_id)
    assert (node["state"], node["growing"], node["status"]) == ("live", True, "RUNNING")
    assert node["reading"]["at"] > 0
    assert set(node["reading"]["sources"]) >= {"stdout"}
    assert node["capabilities"]["follow"]["answer"] == "yes"
    (tmp_path / "gate").touch()
    reading.result(60)
    assert reader.texts == {"stdout": b"begun\ndone\n"}
    assert reader.seen[-1].data["reading"] is None


def test_the_id_of_an_event_is_where_to_go_on(covalent_server):
    script = "async def run(output, say): await say(b'0123456789'); await say(b'abc', 'stderr')"
    dispatch_id = dispatch(covalent_server, script)
    covalent_server.completed(dispatch_id)
    whole = path_of(dispatch_id, what="events", file=["stderr", "stdout"])
    assert Reader(covalent_server, whole).to_end().last == "3,10"
    for last, texts in (
        ("1,4", {"stderr": b"bc", "stdout": b"456789"}),
        ("3,0", {"stderr": b"", "stdout": b"0123456789"}),
        ("3,10", {"stderr": b"", "stdout": b""}),
    ):
        assert Reader(covalent_server, whole, last).to_end().texts == texts
    one = path_of(dispatch_id, what="events")
    assert Reader(covalent_server, one, "7").to_end().texts == {"stdout": b"789"}
    assert Reader(covalent_server, one, "99").to_end().texts == {"stdout": b""}


@pytest.mark.parametrize(
    ("asked", "last", "says"),
    [
        ({}, "x", "last-event-id"),
        ({}, "1,2", "2 cursors for 1 outputs"),
        ({}, "-1", "last-event-id"),
        ({"file": ["stdout", "stdout"]}, None, "once"),
        ({"cursor": 1, "since": 1}, None, "leave one out"),
        ({"cursor": "x"}, None, "cursor"),
        ({"since": "nan"}, None, "since"),
    ],
)
def test_a_wrong_beginning_is_refused_before_the_stream(covalent_server, asked, last, says):
    dispatch_id = dispatch(covalent_server, "async def run(output, say): pass")
    path = path_of(dispatch_id, what="events", **asked)
    response = covalent_server.get(path, {"Last-Event-ID": last} if last else {})
    assert response.status == 400
    assert says in response.body.decode().lower()


def test_an_output_that_never_was_is_refused_when_the_node_has_ended(covalent_server):
    dispatch_id = dispatch(covalent_server, "async def run(output, say): pass")
    covalent_server.completed(dispatch_id)
    error = ask(covalent_server, path_of(dispatch_id, what="events", file="rank1.stdout"), 404)["error"]
    assert (error["code"], error["exists"]) == ("not_found", ["stdout", "stderr"])


@pytest.mark.usefixtures("gates")
def test_head_opens_no_stream(covalent_server, tmp_path):
    dispatch_id = dispatch(covalent_server, STEPS.format(gates=str(tmp_path)))
    head = covalent_server.get(path_of(dispatch_id, what="events"), method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-type"].startswith("text/event-stream")


@pytest.mark.usefixtures("gates")
def test_followers_that_went_away_leave_nothing_behind(covalent_server, tmp_path):
    dispatch_id = dispatch(covalent_server, STEPS.format(gates=str(tmp_path)))
    for _ in range(20):
        stream = events(covalent_server, path_of(dispatch_id, what="events"))
        assert next(stream).kind == "node"
        stream.close()

    def bells():
        script = """
from covalent_joblog_plugin.store import news
async def run(output, say): return len(news._bells)
"""
        asking = dispatch(covalent_server, script)
        covalent_server.completed(asking)
        return answer_of(covalent_server, asking)

    eventually(lambda: bells() == 0, 30, "no bell")
