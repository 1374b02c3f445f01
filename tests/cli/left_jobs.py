# SPDX-License-Identifier: Apache-2.0
"""Jobs whose Covalent server is killed while they run, and the ``joblog`` command beside what it left."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.executors.dispatches import dispatch, wait_for_text

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rigs.covalent_server import CovalentServer

LOCAL = """
import covalent as ct

@ct.electron(executor=ct.executor.LocalJobLogExecutor(**options))
def count(gate):
    import os, sys, time
    n = 0
    while not os.path.exists(f"{gate}/go"):
        print("line", n, "€", flush=True)
        print("warning", n, file=sys.stderr, flush=True)
        n += 1
        time.sleep(0.01)
    sys.stdout.buffer.write(b"the end \\xff\\n")
    if os.path.exists(f"{gate}/fail"):
        raise ValueError("no luck")
    return {"lines": n}

@ct.lattice
def flow():
    return count(gate)
"""


def joblog(server: CovalentServer, *argv: str) -> subprocess.Popen[bytes]:
    """The command, begun, for the user of a server."""
    script = "from covalent_joblog_plugin.cli.main import joblog; joblog()"
    return subprocess.Popen(
        [sys.executable, "-c", script, *argv],
        env=server.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # communicate() knows nothing of what a reader before it took into its buffer
    )


def run(server: CovalentServer, *argv: str, status: int = 0) -> tuple[bytes, str]:
    """Run it to its end, which must be with ``status``; what it wrote to stdout and to stderr."""
    process = joblog(server, *argv)
    out, err = process.communicate(timeout=120)
    assert process.returncode == status, (process.returncode, out[-2000:], err.decode()[-3000:])
    return out, err.decode()


def begun(server: CovalentServer, gate: Path, **options: Any) -> str:
    """A dispatch of a local task that runs until ``gate/go`` is there."""
    return dispatch(server, LOCAL, gate=str(gate), options=options)


def left_behind(server: CovalentServer, gate: Path, **options: Any) -> str:
    """A dispatch whose local task runs on, its server killed."""
    dispatch_id = begun(server, gate, **options)
    wait_for_text(server, dispatch_id, 0, lambda text: text.count(b"\n") > 20)
    server.kill()
    return dispatch_id
