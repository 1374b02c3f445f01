# SPDX-License-Identifier: Apache-2.0
"""What reading costs the server: no time of its event loop, and no more than what is read."""

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.rigs.covalent_server import eventually
from tests.store.scripts import dispatch
from tests.web.events import ROOT, Reader, ask, downloaded, events, path_of, piece


def test_a_reader_that_waits_stops_nothing_else(covalent_server, tmp_path):
    """While the node's lock is held and readers wait for it, the server's event loop runs on."""
    script = f"""
import pathlib
async def run(output, say):
    await say(b"text")
    with output._lock:
        pathlib.Path({str(tmp_path / "held")!r}).touch()
        while not pathlib.Path({str(tmp_path / "gate")!r}).exists():
            await asyncio.sleep(0.01)
"""
    dispatch_id = dispatch(covalent_server, script)
    eventually((tmp_path / "held").exists, 20, "the lock")
    with ThreadPoolExecutor(2) as pool:
        waiting = [
            pool.submit(piece, covalent_server, dispatch_id),
            pool.submit(ask, covalent_server, path_of(dispatch_id)),
        ]
        for _ in range(20):
            ask(covalent_server, f"{ROOT}/health")
        assert not any(future.done() for future in waiting)
        (tmp_path / "gate").touch()
        assert waiting[0].result(60)[1] == b"text"
        assert waiting[1].result(60)["files"][0]["size"] == 4


def test_a_locked_database_keeps_nobody_waiting_who_does_not_need_it(covalent_server):
    finished = dispatch(covalent_server, "async def run(output, say): await say(b'text')")
    covalent_server.completed(finished)
    with ThreadPoolExecutor(1) as pool, sqlite3.connect(covalent_server.database) as held:
        held.execute("BEGIN EXCLUSIVE")
        waiting = pool.submit(ask, covalent_server, path_of(finished))
        began = time.monotonic()
        for _ in range(20):
            ask(covalent_server, f"{ROOT}/health")
        assert not waiting.done()
        assert time.monotonic() - began < 5  # the database is waited for at least so long
        held.rollback()
        assert waiting.result(60)["state"] == "closed"


def test_no_answer_costs_more_than_its_piece(covalent_server):
    script = """
async def run(output, say):
    for n in range(200):
        await say(b"x" * 1_000_000)
"""
    dispatch_id = dispatch(covalent_server, script, max_node_bytes=1 << 20, min_free=0)
    covalent_server.completed(dispatch_id, 120)

    def read_by_the_server():
        return int(Path(f"/proc/{covalent_server.pid}/io").read_text().split()[1])

    piece(covalent_server, dispatch_id, cursor=-1)
    before = read_by_the_server()
    for asked in ({"cursor": -65536}, {"cursor": 99_999_999, "size": 65536}, {"since": 1.0, "size": 65536}):
        answer, data = piece(covalent_server, dispatch_id, **asked)
        assert (len(data), answer["total"]) == (65536, 200_000_000)
    assert read_by_the_server() - before < 3_000_000


def test_a_follower_that_does_not_read_costs_no_memory_and_stops_nobody(covalent_server, tmp_path):
    script = f"""
import pathlib
async def run(output, say):
    while not pathlib.Path({str(tmp_path / "gate")!r}).exists():
        await asyncio.sleep(0.01)
    for n in range(150):
        await say(b"x" * 1_000_000)
"""
    dispatch_id = dispatch(covalent_server, script, min_free=0)
    path = path_of(dispatch_id, what="events")
    stuck = [events(covalent_server, path) for _ in range(5)]
    assert [next(stream).kind for stream in stuck] == ["node"] * 5
    before = _memory(covalent_server)
    (tmp_path / "gate").touch()
    covalent_server.completed(dispatch_id, 120)
    assert Reader(covalent_server, path).to_end().texts == {"stdout": b"x" * 150_000_000}
    assert _memory(covalent_server) - before < 64 << 20
    for stream in stuck:
        stream.close()


def _memory(server):
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) << 10


def test_downloads_are_streamed_and_many_at_once_cost_no_memory(covalent_server):
    script = """
async def run(output, say):
    for n in range(150):
        await say(b"x" * 1_000_000)
"""
    dispatch_id = dispatch(covalent_server, script, min_free=0)
    covalent_server.completed(dispatch_id, 120)

    before, most, sizes = _memory(covalent_server), [0], []
    threads = [
        threading.Thread(target=lambda: sizes.append(len(downloaded(covalent_server, dispatch_id))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        most.append(_memory(covalent_server))
        threads[0].join(0.02)
    assert sizes == [150_000_000] * 4
    assert max(most) - before < 64 << 20
