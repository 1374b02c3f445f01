# SPDX-License-Identifier: Apache-2.0
"""``logs()`` on a real Covalent server: what a task printed, while it runs and afterwards."""

import asyncio
from pathlib import Path

import pytest

from covalent_joblog_plugin import logs
from covalent_joblog_plugin.model.errors import BadSelection, OutputNotFound
from tests.executors.dispatches import wait_for_text
from tests.reading.tasks import run
from tests.rigs.covalent_server import CovalentServer

pytestmark = pytest.mark.covalent

GATED = """
import os, time
for n in range(4):
    print("line", n)
    while not os.path.exists(f"{gate}/{n}"): time.sleep(0.02)
print("last", end="")
"""


def test_a_snapshot_is_what_was_there_and_stays_so(covalent_server: CovalentServer, tmp_path: Path) -> None:
    dispatch_id = run(covalent_server, GATED, gate=str(tmp_path))
    wait_for_text(covalent_server, dispatch_id, 0, lambda text: b"line 0\n" in text)
    early = logs(dispatch_id, 0)
    for n in range(4):
        (tmp_path / str(n)).touch()
    covalent_server.completed(dispatch_id)
    assert str(early) == "line 0\n"
    assert str(early()) == "line 0\nline 1\nline 2\nline 3\nlast"


def test_following_gives_each_line_when_it_is_whole_and_the_rest_at_the_end(
    covalent_server: CovalentServer, tmp_path: Path
) -> None:
    dispatch_id = run(covalent_server, GATED, gate=str(tmp_path))
    seen = []
    for line in logs(dispatch_id, 0, follow=True):
        seen.append(line)
        if len(seen) <= 4:
            assert not (tmp_path / str(len(seen) - 1)).exists()
            (tmp_path / str(len(seen) - 1)).touch()
    assert seen == ["line 0", "line 1", "line 2", "line 3", "last"]
    assert list(logs(dispatch_id, 0, follow=True)) == seen


async def test_following_without_blocking_the_loop(covalent_server: CovalentServer, tmp_path: Path) -> None:
    dispatch_id = await asyncio.to_thread(run, covalent_server, GATED, gate=str(tmp_path))
    seen = []
    async for line in logs(dispatch_id, 0, follow=True):
        seen.append(line)
        (tmp_path / str(len(seen) - 1)).touch()
    assert seen == ["line 0", "line 1", "line 2", "line 3", "last"]


def test_a_follower_goes_on_after_the_server_was_started_again(
    fresh_covalent_server: CovalentServer, tmp_path: Path
) -> None:
    server = fresh_covalent_server
    dispatch_id = run(server, GATED, gate=str(tmp_path))
    following = iter(logs(dispatch_id, 0, follow=True, server=server.url))
    seen = [next(following)]
    (tmp_path / "0").touch()
    seen.append(next(following))
    server.stop()
    server.start()
    seen += following
    stored = logs(dispatch_id, 0, server=server.url)
    assert seen[:2] == ["line 0", "line 1"]
    assert stored.raw().decode().splitlines() == seen[:2]
    # Covalent kills the job too: its node is closed if the server lives to see that.
    told = ["[joblog: "] * (stored.nodes[0].state != "closed")
    assert [line[:9] for line in seen[2:]] == told


def test_what_there_is_not_is_named(covalent_server: CovalentServer) -> None:
    dispatch_id = run(covalent_server, "print('here')")
    covalent_server.completed(dispatch_id)
    with pytest.raises(OutputNotFound, match=r"no node 77; there is 0 \(task\)"):
        logs(dispatch_id, 77)
    with pytest.raises(OutputNotFound, match="knows no dispatch"):
        logs("0" * 8 + "-0000-0000-0000-" + "0" * 12, 0)
    with pytest.raises(OutputNotFound, match=r"no stdout of rank 3; it has stdout, stderr"):
        logs(dispatch_id, 0, rank=3)
    with pytest.raises(BadSelection, match="'nosuch' is none; it is one of stdout, stderr, log, all"):
        logs(dispatch_id, 0, stream="nosuch")  # type: ignore[arg-type]
