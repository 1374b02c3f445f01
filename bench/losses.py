# SPDX-License-Identifier: Apache-2.0
"""Lines lost where a node rotates a container's log at 1 MiB, beside a plain follow of the same pod."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.executors.kubeflow_tasks import Task
from tests.rigs.covalent_server import eventually

from .figures import Figure
from .pods import Followed, mounted

if TYPE_CHECKING:
    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.kubeflow import KubeflowRig

LINES = 150_000
WIDTH = 400
"""Bytes of a line: all of them fit into what Covalent's own file of a node takes."""
RATES = (2_000_000, 10_000_000)
"""Bytes a second."""

_WRITE = """
import os, time
print("ready", flush=True)
while not os.path.exists(go):
    time.sleep(0.05)
began, step = time.monotonic(), rate // width // 100
for n in range(0, lines, step):
    time.sleep(max(0, n * width / rate - (time.monotonic() - began)))
    os.write(1, b"".join(b"%07d %s\\n" % (i, b"y" * (width - 9)) for i in range(n, min(n + step, lines))))
value = lines * width / (time.monotonic() - began)
"""


def measure(
    server: CovalentServer,
    rig: KubeflowRig,
    *,
    lines: int = LINES,
    rates: tuple[int, ...] = RATES,
) -> list[Figure]:
    """Two figures of each rate: what is lost, and how much of that the node tells."""
    return [figure for rate in rates for figure in _at(server, rig, lines, rate)]


def _at(server: CovalentServer, rig: KubeflowRig, lines: int, rate: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(dir=rig.folder) as name:
        go = Path(name, "go")
        given = {"go": str(go), "lines": lines, "width": WIDTH, "rate": rate}
        task = Task(server, rig, _WRITE, given=given, **mounted(Path(name)))
        task.seen(lambda text: text == b"ready\n", "the pod is ready")
        with Followed(rig, [task], Path(name)) as peer:
            (file,) = peer.files
            eventually(lambda: b"ready\n" in file.read_bytes(), 30, "the plain follow has begun")
            go.touch()
            written = task.completed(timeout=240)
            peer.ended()
            # The runner's mark for a line that goes on; there is none in what the task writes.
            theirs = _found(file.read_bytes().replace(b"\x1e\n", b""), lines)
        ours = _found(task.text(), lines)
        missing = lines * WIDTH + len(b"ready\n") - len(task.text())
        told = sum(seam["lost"] for seam in task.seams() if seam["file"] == "stdout")
    what = f"of {lines} lines at {written / 1e6:.1f} MB/s, a log file of 1 MiB"
    follow = "plain follow of the same pod"
    return [
        Figure(f"lost {what}", _lost(ours, lines), "%", _lost(theirs, lines), follow, "0 %, else told"),
        Figure(
            f"told of what is missing {what}",
            100 * told / missing if missing else 100,
            "%",
            0,
            follow,
            "100 %",
        ),
    ]


def _found(text: bytes, lines: int) -> int:
    """How many of the lines are there, each counted once."""
    fill = b" " + b"y" * (WIDTH - 9)
    found = {line[:7] for line in text.split(b"\n") if len(line) == WIDTH - 1 and line[7:] == fill}
    return len(found & {b"%07d" % n for n in range(lines)})


def _lost(found: int, lines: int) -> float:
    return 100 * (lines - found) / lines
