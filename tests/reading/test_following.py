# SPDX-License-Identifier: Apache-2.0
"""Following outputs: whenever it begins, whatever comes between, exactly what is stored is given once."""

import asyncio
import signal
import subprocess
import sys

import pytest

from covalent_joblog_plugin import logs
from covalent_joblog_plugin.model.errors import BadSelection, OutputNotFound
from tests.reading.tasks import Following, gated, lines_of, run
from tests.rigs.covalent_server import eventually
from tests.rigs.cutting_proxy import CuttingProxy
from tests.store.scripts import dispatch


def test_followers_from_before_the_first_byte_the_middle_and_the_end_get_the_same(covalent_server, tmp_path):
    dispatch_id = dispatch(covalent_server, gated(tmp_path, 20))
    followers = [Following(dispatch_id, 0)]
    (tmp_path / "0").touch()
    eventually(lambda: len(followers[0].lines) >= 10, 30, "the first lines")
    followers.append(Following(dispatch_id, 0))
    for n in range(1, 20):
        (tmp_path / f"{n}").touch()
    covalent_server.completed(dispatch_id)
    followers.append(Following(dispatch_id, 0))
    stored = list(logs(dispatch_id, 0))
    assert stored == [*lines_of(20), "half"]
    assert [follower.end() for follower in followers] == [stored] * 3


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_follower_lives_through_the_end_of_its_server(fresh_covalent_server, tmp_path, end):
    server = fresh_covalent_server
    dispatch_id = dispatch(server, gated(tmp_path, 3))
    follower = Following(dispatch_id, 0, server=server.url)
    (tmp_path / "0").touch()
    (tmp_path / "1").touch()
    eventually(lambda: len(follower.lines) >= 20, 30, "the first lines")
    getattr(server, end)()
    server.start()
    lines = follower.end()
    assert lines[:20] == lines_of(2)
    assert logs(dispatch_id, 0, server=server.url).raw().decode().splitlines() == lines_of(2)
    assert len(lines) == 21
    assert lines[20].startswith("[joblog: ")
    assert "stopped" in lines[20]


def test_nothing_is_left_out_or_given_twice_over_connections_that_are_cut(covalent_server):
    script = """
async def run(output, say):
    for n in range(30):
        await say(b"".join(b"%d.%05d\\n" % (n, m) for m in range(10_000)))
"""
    dispatch_id = dispatch(covalent_server, script)
    covalent_server.completed(dispatch_id)
    proxy = CuttingProxy(covalent_server.port, lambda _: 600_000)
    try:
        lines = Following(dispatch_id, 0, server=f"http://127.0.0.1:{proxy.port}").end()
    finally:
        proxy.close()
    assert proxy.cuts > 3
    assert lines == [f"{n}.{m:05}" for n in range(30) for m in range(10_000)]


def test_a_tail_comes_first_and_then_what_is_new(covalent_server, tmp_path):
    dispatch_id = dispatch(covalent_server, gated(tmp_path, 2))
    (tmp_path / "0").touch()
    eventually(lambda: list(logs(dispatch_id, 0)) == lines_of(1), 30, "the first lines")
    last_three = Following(dispatch_id, 0, tail=3)
    eventually(lambda: len(last_three.lines) == 3, 30, "the tail")
    (tmp_path / "1").touch()
    assert last_three.end() == [*lines_of(2)[7:], "half"]


def test_filters_apply_while_it_runs_and_a_record_is_not_kept_waiting(covalent_server, tmp_path):
    script = f"""
import pathlib
async def run(output, say):
    await say(b"INFO fine\\nERROR bad\\nTraceback (most recent call last):\\n")
    while not pathlib.Path({str(tmp_path / "gate")!r}).exists():
        await asyncio.sleep(0.02)
    await say(b'  File "x", line 1\\nValueError: bad\\nINFO fine again\\n')
"""
    dispatch_id = dispatch(covalent_server, script)
    follower = Following(dispatch_id, 0, severity="error")
    eventually(lambda: len(follower.lines) == 2, 30, "the record so far")
    (tmp_path / "gate").touch()
    record = ["ERROR bad", "Traceback (most recent call last):", '  File "x", line 1', "ValueError: bad"]
    assert follower.end() == record


def test_ranks_that_come_late_are_followed_from_their_start(covalent_server, tmp_path):
    script = f"""
import pathlib
async def gate(name):
    while not pathlib.Path({str(tmp_path)!r}, name).exists():
        await asyncio.sleep(0.02)
async def run(output, say):
    await say(b"zero\\n")
    await gate("ranks")
    await say(b"one\\n", "rank1.stdout")
    await say(b"two\\n", "rank2.log")
    await gate("end")
"""
    dispatch_id = dispatch(covalent_server, script)
    everybody = Following(dispatch_id, 0, rank="all")
    second = Following(dispatch_id, 0, rank=2)
    eventually(lambda: everybody.lines, 30, "the first line")
    (tmp_path / "ranks").touch()
    eventually(lambda: len(everybody.lines) == 3 and second.lines, 30, "the other ranks")
    (tmp_path / "end").touch()
    assert everybody.end()[0] == "[task stdout] zero"
    assert sorted(everybody.lines[1:]) == ["[task rank1.stdout] one", "[task rank2.log] two"]
    assert second.end() == ["two"]


def test_following_what_never_came_says_so(covalent_server):
    dispatch_id = dispatch(covalent_server, "async def run(output, say): await asyncio.sleep(1)")
    with pytest.raises(OutputNotFound, match=r"train\.csv"):
        Following(dispatch_id, 0, file="train.csv").end()
    with pytest.raises(BadSelection, match="until"):
        logs(dispatch_id, 0, follow=True, until="1h")


async def test_leaving_the_loop_ends_the_watching_and_nothing_else(covalent_server, tmp_path):
    dispatch_id = await asyncio.to_thread(dispatch, covalent_server, gated(tmp_path, 1))
    (tmp_path / "0").touch()
    async for line in logs(dispatch_id, 0, follow=True):
        assert line == "line 0.0 €"
        break
    for line in await asyncio.to_thread(logs, dispatch_id, 0, follow=True):
        assert line == "line 0.0 €"
        break
    await asyncio.to_thread(covalent_server.completed, dispatch_id)


def test_an_interrupt_ends_the_watching_at_once_and_not_the_job(covalent_server, tmp_path):
    body = "import os, time\nprint('first')\nwhile not os.path.exists(gate): time.sleep(0.02)"
    dispatch_id = run(covalent_server, body, gate=str(tmp_path / "gate"))
    script = f"""
from covalent_joblog_plugin import logs
try:
    for line in logs({dispatch_id!r}, 0, follow=True, server={covalent_server.url!r}):
        print(line, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "first\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20)[0] == "interrupted\n"
    assert process.returncode == 0
    assert covalent_server.status(dispatch_id) == "RUNNING"
    (tmp_path / "gate").touch()
    covalent_server.completed(dispatch_id)
