# SPDX-License-Identifier: Apache-2.0
"""Whatever bytes a Kubeflow job writes are in the node's result, as they are and while they come."""

import re
from pathlib import Path

import tqdm

from tests.executors.dispatches import node
from tests.executors.exact import assert_exact, shown
from tests.executors.kubeflow_tasks import Task
from tests.rigs.covalent_server import eventually

# What a stream gets, piece by piece; the stream is part of the seed.
PIECES = r"""
import random

MARKS = (b"\x1c", b"\x1d", b"\x1e", b"\x1f", b"\n", b"\r", b"@", b"#")
LINES = (b"\x1c@1 2\n", b"\x1c#1/1 00000000 AA==\n")
STAMP = b"2025-01-01T00:00:00.123456789Z "
LENGTHS = (12 * 1024, 16 * 1024, 64 * 1024, 1 << 20)

def pieces(stream):
    rng = random.Random(stream)
    for length in LENGTHS:
        for around in (-1, 0, 1):
            yield rng.randbytes(1).hex().encode()[:1] * (length + around) + b"\n"
    yield b"\n" * 1000 + b"\r\n" * 1000 + b"\0" * 1000 + b"\n\0\n\0\r\n"
    for _ in range(400):
        yield b"".join(rng.choices(MARKS + LINES, k=rng.randrange(100)))
        yield b"\r%3d%%" % rng.randrange(100)
        yield STAMP * rng.randrange(3) + b"\n"[: rng.randrange(2)]
        yield rng.randbytes(rng.randrange(300))
        yield "grün ✓ 𝄞\n".encode() * rng.randrange(4)
    yield rng.randbytes(1 << 20).replace(b"\n", b"")
    yield b"the end has no newline"
"""
# Both streams at once, each piece cut anywhere, with pauses in which unfinished text is shown.
BODY = (
    PIECES
    + """
import os, threading, time

def write(stream):
    rng = random.Random(-stream)
    for piece in pieces(stream):
        while piece:
            size = len(piece) if len(piece) > 1000 else rng.choice((1, 10, 1000))
            piece = piece[os.write(stream, piece[:size]) :]
        if rng.random() < 0.01:
            time.sleep(rng.choice((0.01, 0.6)))

threads = [threading.Thread(target=write, args=(stream,)) for stream in (1, 2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
)


def written(stream):
    """What the task above writes."""
    scope = {}
    exec(PIECES, scope)
    return b"".join(scope["pieces"](stream))


def test_any_bytes_on_both_streams_at_once_come_back(covalent_server, kubeflow_rig):
    task = Task(covalent_server, kubeflow_rig, BODY)
    assert task.completed() == "result"
    expected = written(1), written(2)
    assert_exact(task, *expected)
    result = node(covalent_server, task.id, task.node)
    assert (result["stdout"].encode(), result["stderr"].encode()) == tuple(map(shown, expected))


BAR = """
import sys, time
sys.path.insert(0, "/packages")
from tqdm import tqdm
for _ in tqdm(range(100), ncols=60):
    time.sleep(0.1)
"""


def test_a_tqdm_bar_moves_in_the_nodes_result(covalent_server, kubeflow_rig):
    packages = {"name": "packages", "hostPath": {"path": str(Path(tqdm.__file__).parent)}}
    mount = {"name": "packages", "mountPath": "/packages/tqdm", "readOnly": True}
    task = Task(covalent_server, kubeflow_rig, BAR, volumes=[packages], volume_mounts=[mount])
    seen = set()

    def moved():
        result = node(covalent_server, task.id, task.node)
        assert result["status"] in {"NEW_OBJECT", "PENDING_BACKEND", "RUNNING"}, (seen, result)
        bars = re.findall(r"\r *(\d+)%\|", result["stderr"] or "")
        seen.update(bars[-1:])
        return len(seen) > 3

    eventually(moved, 60, "the bar moves")
    assert task.completed() == "result"
    bars = [int(percent) for percent in re.findall(rb"\r *(\d+)%\|", task.text("stderr"))]
    assert bars == sorted(bars)
    assert bars[-1] == 100
    assert task.text("stderr").endswith(b"\n")
    assert task.capability("complete")["answer"] == "yes"
