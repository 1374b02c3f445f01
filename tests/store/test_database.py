# SPDX-License-Identifier: Apache-2.0
"""Somebody holds the database's write lock for seconds at a time; no text waits for it, none is lost."""

import subprocess
import sys
import threading
import time

import pytest

from covalent_joblog_plugin.store import sizes
from covalent_joblog_plugin.store.sizes import SizeRecorder
from tests.store.scripts import dispatch

NODES = 50
SECONDS = 15

LOCKING = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
print("ready", flush=True)
while True:
    connection.execute("BEGIN IMMEDIATE")
    time.sleep(2)
    connection.execute("COMMIT")
    time.sleep(3)
"""

SAYING = f"""
async def run(output, say):
    slowest = 0
    for n in range({SECONDS}):
        began = time.monotonic()
        await say(b"node %d second %d\\n" % (output.node_id, n))
        took = time.monotonic() - began
        slowest = max(slowest, took)
        await asyncio.sleep(max(0, 1 - took))
    return slowest
"""

ALL = """
import covalent as ct
result = ct.get_result(dispatch_id)
graph = result.lattice.transport_graph
nodes = [n for n in graph._graph.nodes if graph.get_node_value(n, "name") == "task"]
answer = [[n, graph.get_node_value(n, "stdout"), graph.get_node_value(n, "output").get_deserialized()]
          for n in nodes]
"""


@pytest.fixture
def locked_now_and_then(covalent_server):
    """Another process holds the write lock 2 s in every 5."""
    process = subprocess.Popen(
        [sys.executable, "-c", LOCKING, str(covalent_server.database)], stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.communicate()


def test_fifty_nodes_lose_nothing_while_the_database_is_locked_now_and_then(
    covalent_server, locked_now_and_then
):
    dispatch_id = dispatch(covalent_server, SAYING, count=NODES)
    covalent_server.completed(dispatch_id, timeout=240)
    assert locked_now_and_then.poll() is None
    locked_now_and_then.kill()
    answers = covalent_server.client(ALL, dispatch_id=dispatch_id)
    assert len(answers) == NODES
    for node, text, _ in answers:
        assert text == "".join(f"node {node} second {n}\n" for n in range(SECONDS))
        assert covalent_server.stdout(dispatch_id, node).decode() == text
    # What waits for the lock is Covalent's own event loop, never the writing: that takes no lock.
    assert sorted(slowest for _, _, slowest in answers)[NODES // 2] < 6


class Rows:
    """Stands for the database: refuses while ``locked``."""

    def __init__(self):
        self.locked, self.sizes, self.calls = False, {}, []
        self.called = threading.Condition()

    def write(self, pairs):
        with self.called:
            self.calls.append(dict(pairs))
            self.called.notify()
        if self.locked:
            raise RuntimeError("database is locked")
        self.sizes.update(pairs)

    def wait_for(self, condition):
        with self.called:
            assert self.called.wait_for(condition, 10)


@pytest.fixture
def rows():
    return Rows()


def test_the_first_byte_is_recorded_at_once_and_then_now_and_then(rows):
    recorder = SizeRecorder(rows.write)
    recorder.note(1, 1, 0)
    rows.wait_for(lambda: rows.calls == [{1: 1}])
    for length in range(2, 50):
        recorder.note(1, length, 0.3)
    recorder.note(2, 7, 0.3)
    rows.wait_for(lambda: len(rows.calls) == 2)
    assert rows.calls == [{1: 1}, {1: 49, 2: 7}]


def test_a_locked_database_is_tried_again_until_the_last_size_is_there(rows, caplog):
    recorder = SizeRecorder(rows.write)
    rows.locked = True
    recorder.note(1, 10, 0)
    rows.wait_for(lambda: len(rows.calls) == 2)
    settled = recorder.settle(1, 30)
    rows.locked = False
    assert settled.result(10) is None
    assert rows.sizes == {1: 30}
    assert caplog.text.count("cannot be recorded yet") == 1


def test_nobody_waiting_any_more_stops_nothing(rows):
    recorder = SizeRecorder(rows.write)
    rows.locked = True
    settled = recorder.settle(1, 30)
    assert settled.cancel()
    rows.locked = False
    assert recorder.settle(2, 5).result(10) is None
    rows.wait_for(lambda: rows.sizes == {1: 30, 2: 5})


def test_a_write_under_way_does_not_count_as_the_last_size():
    under_way, stored, written = threading.Event(), threading.Event(), []

    def write(sizes):
        under_way.set()
        assert stored.wait(10)
        written.append(dict(sizes))

    class Slow(SizeRecorder):
        def note(self, row, length, delay):
            if under_way.is_set():
                stored.set()  # the write of the size before ends right now
                time.sleep(0.2)
            super().note(row, length, delay)

    recorder = Slow(write)
    recorder.note(1, 10, 0)
    assert under_way.wait(10)
    recorder.settle(1, 30).result(10)
    assert written == [{1: 10}, {1: 30}]


def test_what_is_due_later_is_recorded_when_the_server_ends(rows):
    recorder = SizeRecorder(rows.write)
    recorder.note(1, 10, sizes.EVERY)
    recorder.end()
    assert rows.sizes == {1: 10}


def test_recording_costs_the_writer_little(rows):
    recorder = SizeRecorder(rows.write)
    began = time.perf_counter()
    for n in range(20_000):
        recorder.note(n % 1000, n, sizes.EVERY)
    assert time.perf_counter() - began < 2
