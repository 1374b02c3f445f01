# SPDX-License-Identifier: Apache-2.0
"""Reading a stored output of 1 GiB, beside what reads the same bytes from a file."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from .figures import Figure

if TYPE_CHECKING:
    from tests.rigs.covalent_server import CovalentServer

SIZE = 1 << 30
RUNS = 5
"""Of what takes no time; the median counts."""
LAST = 100
"""Lines that come seconds after the others."""

_TASK = """
import covalent as ct
from covalent.executor import LocalJobLogExecutor

def speak(size, last):
    import os, time
    from datetime import datetime, timezone

    def lines(first, count):
        at = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        levels = {True: "ERROR - loss is nan", False: "INFO - loss 0.1234"}
        return "".join(
            f"{at} - train - {levels[n % 10_000 == 9_999]} at step {n:08}, 12.3 samples/s\\n"
            for n in range(first, first + count)
        ).encode()

    said = step = 0
    while said < size:
        said += os.write(1, lines(step, 10_000))
        step += 10_000
    time.sleep(3)
    os.write(1, lines(0, last))

local = LocalJobLogExecutor(max_log_bytes=2 * size)
answer = ct.dispatch(ct.lattice(lambda: ct.electron(speak, executor=local)(size, last)))()
"""

_READ = """
import json, resource, time
from covalent_joblog_plugin import logs
begun = time.perf_counter()
text = logs({dispatch!r}, 0, server={url!r}, {asked})
found = {work}
seconds = time.perf_counter() - begun
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([found, seconds, peak]))
"""


class LongOutput:
    """A node's output of ``SIZE`` bytes and a little.

    Args:
        server: Where it is dispatched.
        file: The same bytes; they are there after ``download``.
    """

    def __init__(self, server: CovalentServer, file: Path) -> None:
        self._server = server
        self._file = file
        self._dispatch = server.client(_TASK, size=SIZE, last=LAST)
        server.completed(self._dispatch, 900)
        self.peaks: list[tuple[float, float]] = []

    def download(self) -> float:
        """Get the file; the seconds that takes."""
        return self.ours("", f"text.download({str(self._file)!r}).stat().st_size")[1]

    def ours(self, asked: str, work: str = "sum(1 for _ in text)", runs: int = 1) -> tuple[int, float]:
        """What ``work`` finds of the ``text`` that is ``asked`` for, and its seconds; both are Python."""
        script = _READ.format(dispatch=self._dispatch, url=self._server.url, asked=asked, work=work)
        proc, times = Path(f"/proc/{self._server.pid}"), []
        for _ in range(runs):
            (proc / "clear_refs").write_text("5")
            done = subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.PIPE)
            found, seconds, peak = json.loads(done.stdout)
            times.append(seconds)
            at_server = re.findall(r"VmHWM:\s+(\d+)", (proc / "status").read_text())
            self.peaks.append((peak, int(at_server[0]) / 1024))
        return found, statistics.median(times)

    def theirs(self, *argv: str, runs: int = 1) -> tuple[bytes, float]:
        """What a command says of the file, and its seconds."""
        times = []
        for _ in range(runs):
            begun = time.perf_counter()
            done = subprocess.run([*argv, str(self._file)], check=True, stdout=subprocess.PIPE)
            times.append(time.perf_counter() - begun)
        return done.stdout, statistics.median(times)


def measure(server: CovalentServer, folder: Path) -> list[Figure]:
    """Time beside ``cp``, ``tail``, ``awk`` and ``grep``; memory of client and server."""
    output = LongOutput(server, folder / "output.log")
    download = output.download()
    (folder / "copy").mkdir()
    _, copy = output.theirs("cp", "-t", str(folder / "copy"))
    figures = [_figure("download", download, copy, "cp"), *_ends(output)]
    for what, asked, pattern in (
        ("query, 1 in 10 000 lines", "query='loss is nan'", "loss is nan"),
        ("severity, the same lines", "severity='error'", " - ERROR - "),
    ):
        found, ours = output.ours(asked)
        said, theirs = output.theirs("grep", "-c", pattern)
        assert found == int(said)
        figures.append(_figure(what, ours, theirs, "grep -c"))
    at_client, at_server = (max(peaks) for peaks in zip(*output.peaks, strict=True))
    figures.append(Figure("most memory of a client meanwhile", at_client, "MiB"))
    return [*figures, Figure("most memory of the server meanwhile", at_server, "MiB")]


def _ends(output: LongOutput) -> list[Figure]:
    """The last lines, by their number and by their time."""
    found, ours = output.ours("tail=20", runs=RUNS)
    said, theirs = output.theirs("tail", "-n", "20", runs=RUNS)
    assert found == said.count(b"\n") == 20
    figures = [_figure("tail=20", ours, theirs, "tail -n 20")]
    said, _ = output.theirs("tail", "-n", str(LAST))
    stamp = said.split(b" ", 1)[0].decode()
    arrived = datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
    said, theirs = output.theirs("awk", f'$0 >= "{stamp}"')
    found, ours = output.ours(f"since=f'{{time.time() - {arrived - 1}:.3f}}s'", runs=RUNS)
    assert found == said.count(b"\n") == LAST
    return [*figures, _figure("since, the last 100 lines", ours, theirs, "awk, by the stamps")]


def _figure(what: str, ours: float, theirs: float, peer: str) -> Figure:
    return Figure(f"1 GiB: {what}", ours * 1000, "ms", theirs * 1000, peer)
