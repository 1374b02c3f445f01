# SPDX-License-Identifier: Apache-2.0
"""From a task's write to the moment its bytes are served by Covalent, on one machine and so on one clock."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.rigs.covalent_server import eventually

from .figures import Figure, p50_p95
from .reading import CommandReader, HttpReader, Lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.slurm import SlurmRig

LINES = 200

_STAMP = """
import covalent as ct
from covalent.executor import _executor_manager

def stamp(lines, go):
    import os, random, time
    os.write(1, b"ready\\n")
    deadline = time.time() + 120
    while not os.path.exists(go) and time.time() < deadline:
        time.sleep(0.05)
    for _ in range(lines):
        # Not in step with anybody's intervals.
        time.sleep(random.uniform(0.05, 0.15))
        os.write(1, b"%d\\n" % time.time_ns())
    os.write(1, b"end\\n")

cls = _executor_manager.executor_plugins_map[executor]
electron = ct.electron(stamp, executor=cls(**options))
answer = ct.dispatch(ct.lattice(lambda: electron(lines, go)))()
"""


def stamped(
    server: CovalentServer,
    executor: str,
    options: dict[str, Any],
    peers: Callable[[str], list[list[str]]],
    *,
    lines: int = LINES,
    shared: Path | None = None,
) -> list[Lines]:
    """Our reader first, then one for each of the commands that ``peers`` gives for a dispatch that runs.

    ``shared`` is a folder that the task sees under the same name, if that is not everywhere.
    """
    with (
        tempfile.TemporaryDirectory(prefix="joblog-bench-", dir=shared) as folder,
        contextlib.ExitStack() as stack,
    ):
        go = Path(folder) / "go"
        dispatch_id = server.client(_STAMP, executor=executor, options=options, lines=lines, go=str(go))
        readers: list[Lines] = [stack.enter_context(HttpReader(server.url, dispatch_id))]
        readers[0].wait_for(b"ready")
        readers += [stack.enter_context(CommandReader(argv)) for argv in peers(dispatch_id)]
        for reader in readers:
            reader.wait_for(b"ready")
        go.touch()
        for reader in readers:
            reader.wait_for(b"end")
    server.finished(dispatch_id)
    return readers


def measure_local(server: CovalentServer) -> list[Figure]:
    """The local executor; there is no peer that stores."""
    (ours,) = stamped(server, "joblog_local", {}, lambda _: [])
    p50, p95 = p50_p95(ours.latencies())
    return [
        Figure("write → stored, local, p50", p50, "ms", aim="≤ 75 ms"),
        Figure("write → stored, local, p95", p95, "ms"),
    ]


def measure_slurm(server: CovalentServer, rig: SlurmRig, options: dict[str, Any]) -> list[Figure]:
    """Slurm through the channel, beside ``ssh HOST tail -F`` of the same file at the same time."""
    tail = ["ssh", "-F", str(rig.ssh_config), "login", "tail", "-n", "+1", "-F"]
    # The second is what tail does on shared file systems, where the kernel does not tell of writes.
    names = ("ssh tail -F", "ssh tail -F, not told of writes")

    def peers(dispatch_id: str) -> list[list[str]]:
        jobs = Path(options["workdir"])
        file = eventually(lambda: next(jobs.glob(f"{dispatch_id}/*/x000/stdout"), None), 10, "the file")
        return [[*tail, str(file)], [*tail, "---disable-inotify", str(file)]]

    ours, *others = (p50_p95(lines.latencies()) for lines in stamped(server, "joblog_slurm", options, peers))
    aims = ("≤ 150 ms", "≤ 300 ms")
    return [
        Figure(f"write → stored, Slurm, {part}", ours[i], "ms", other[i], name, aims[i])
        for name, other in zip(names, others, strict=True)
        for i, part in enumerate(("p50", "p95"))
    ]
