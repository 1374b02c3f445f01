# SPDX-License-Identifier: Apache-2.0
"""How much of what a task wrote is on its node: while it runs, after it succeeded, after it failed."""

from __future__ import annotations

import http.client
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.rigs.covalent_server import eventually

from .figures import Figure

if TYPE_CHECKING:
    from tests.rigs.covalent_server import CovalentServer

LINES = 2000
LINE = "the quick brown fox jumps over the lazy dog\n"
GRACE = 5.0
"""Seconds after the last write of a running task within which its output must be there."""

_TALK = """
import covalent as ct
from covalent.executor import _executor_manager

def talk(lines, line, said, ended, fails):
    import os, sys, time
    for _ in range(lines):
        sys.stdout.write(line)
    sys.stdout.flush()
    open(said, "w").close()
    deadline = time.time() + 120
    while not os.path.exists(ended) and time.time() < deadline:
        time.sleep(0.05)
    if fails:
        raise RuntimeError("as asked")

cls = _executor_manager.executor_plugins_map[executor]
electron = ct.electron(talk, executor=cls(**options))
answer = ct.dispatch(ct.lattice(lambda: electron(lines, line, said, ended, fails)))()
"""


def _shares(
    server: CovalentServer, executor: str, options: dict[str, Any], fails: bool, shared: Path | None = None
) -> tuple[float, float]:
    """Percent of the bytes on the node while the task runs, and after its end."""
    whole = LINES * len(LINE)
    with tempfile.TemporaryDirectory(prefix="joblog-bench-", dir=shared) as folder:
        said, ended = Path(folder) / "said", Path(folder) / "ended"
        dispatch_id = server.client(
            _TALK,
            executor=executor,
            options=options,
            lines=LINES,
            line=LINE,
            said=str(said),
            ended=str(ended),
            fails=fails,
        )
        eventually(said.exists, 120, f"the task on {executor} has written all")
        # Nothing tells that nothing will come: the peer shows nothing while a task runs.
        deadline = time.monotonic() + GRACE
        while (live := _stored(server, dispatch_id)) < whole and time.monotonic() < deadline:
            time.sleep(0.05)
        ended.touch()
        server.finished(dispatch_id)
    return 100 * live / whole, 100 * _stored(server, dispatch_id) / whole


def _stored(server: CovalentServer, dispatch_id: str) -> int:
    """Bytes of the node's stdout that are served; Covalent answers 500 where it has no file yet."""
    answer = server.get(f"/api/v0/files/{dispatch_id}/node_0/stdout.log")
    return len(answer.body) if answer.status == http.client.OK else 0


def measure(
    server: CovalentServer, executor: str, options: dict[str, Any], shared: Path | None = None
) -> list[Figure]:
    """Three figures of one executor, beside Covalent's own local executor.

    ``shared`` is a folder that the executor's tasks see under the same name, if that is not everywhere.
    """
    ours = (
        *_shares(server, executor, options, fails=False, shared=shared),
        _shares(server, executor, options, fails=True, shared=shared)[1],
    )
    peer = (*_shares(server, "local", {}, fails=False), _shares(server, "local", {}, fails=True)[1])
    moments = ("while it runs", "after success", "after failure")
    return [
        Figure(
            f"output on the node {moment}, {executor}",
            mine,
            "%",
            theirs,
            "Covalent's local executor",
            "100 %",
        )
        for moment, mine, theirs in zip(moments, ours, peer, strict=True)
    ]
