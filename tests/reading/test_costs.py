# SPDX-License-Identifier: Apache-2.0
"""What reading costs, counted in bytes: it depends on what is asked for, not on how much there is."""

import math
import re
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from covalent_joblog_plugin import logs
from covalent_joblog_plugin.reading.client import Server
from tests.store.scripts import dispatch

MIB = 1 << 20
_SCRIPT = """
block = b"".join(b"2024-05-01 12:00:00,000 - train - INFO - step %07d loss 0.1234 accuracy 0.9\\n" % n
                 for n in range(13_000))
async def run(output, say):
    for n in range(mib):
        await say(block)
    await asyncio.sleep(2.5)
    await say(b"ERROR last\\n" * 30)
"""


def long_output(server, mib):
    """A dispatch whose node said so much, and 30 lines seconds later."""
    dispatch_id = dispatch(server, f"mib = {mib}\n{_SCRIPT}")
    server.completed(dispatch_id, 120)
    return dispatch_id


@pytest.fixture(scope="module")
def outputs(covalent_server):
    return [long_output(covalent_server, mib) for mib in (2, 128)]


def read_by(server):
    """Bytes that the server has read from files so far."""
    return int(re.search(r"rchar: (\d+)", Path(f"/proc/{server.pid}/io").read_text())[1])


def highest(pid):
    """The most memory that a process has held so far, in bytes."""
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


def cost(server, monkeypatch, work):
    """The bytes that ``work`` gets from the server, and those that the server reads meanwhile, at best."""
    got, read = [], []
    ask = Server.piece

    async def counted(*args, **options):
        piece = await ask(*args, **options)
        got[-1] += len(piece.data)
        return piece

    with monkeypatch.context() as patch:
        patch.setattr(Server, "piece", counted)
        for _ in range(5):
            got.append(0)
            before = read_by(server)
            work()
            read.append(read_by(server) - before)
    return min(got), min(read)


def test_a_tail_of_much_touches_little(covalent_server, outputs, monkeypatch):
    """The server's database and index are read as well; asking for nothing but the node tells how much."""
    costs = []
    for dispatch_id in outputs:
        _, without = cost(covalent_server, monkeypatch, lambda: logs(dispatch_id, 0))  # noqa: B023
        got, read = cost(covalent_server, monkeypatch, lambda: str(logs(dispatch_id, 0, tail=20)))  # noqa: B023
        costs.append((got, read - without))
        assert str(logs(dispatch_id, 0, tail=20)) == "ERROR last\n" * 20
    for got, read in costs:
        assert got <= 64 * 1024
        assert read <= 64 * 1024 + 3 * 64 * 1024  # three answers, each with a block of the index
    assert costs[0][0] == costs[1][0]


def test_since_finds_its_place_by_the_index(covalent_server, outputs, monkeypatch):
    """64 KiB before it are read as well: a record may have begun there."""
    for dispatch_id in outputs:
        last = next(logs(dispatch_id, 0, tail=1).lines())

        def read(dispatch_id=dispatch_id, arrival=last.time):
            ago = timedelta(seconds=time.time() - arrival + 0.5)
            assert list(logs(dispatch_id, 0, since=ago)) == ["ERROR last"] * 30

        got, read = cost(covalent_server, monkeypatch, read)
        assert got <= 256 * 1024
        assert read <= 2 * MIB


_HOURS = """
from datetime import datetime, timezone
async def run(output, say):
    for n in range(hours):
        arrival = first + 3600 * n
        at = datetime.fromtimestamp(arrival + ahead, timezone.utc).isoformat().replace("+00:00", "Z")
        text = b"".join(b"%s step %d\\n" % (at.encode() if stamped else b"-", m) for m in range(400))
        await write([(output, Append("stdout", text, 0, arrival))])
"""


@pytest.mark.parametrize("ahead", [0, 120, -120, 5 * 3600, -5 * 3600, None])
def test_since_an_exact_time_reads_what_arrived_about_then(covalent_server, monkeypatch, ahead):
    """Of lines whose clock was ahead or whose zone was wrong, those are wanted that say so themselves."""
    first = 1_714_564_800
    values = {"hours": 400, "first": first, "ahead": ahead or 0, "stamped": ahead is not None}
    script = "".join(f"{name} = {value!r}\n" for name, value in values.items()) + _HOURS
    dispatch_id = dispatch(covalent_server, script)
    covalent_server.completed(dispatch_id)
    since = datetime.fromtimestamp(first + 390 * 3600, timezone.utc).isoformat()
    found = []
    got, _ = cost(covalent_server, monkeypatch, lambda: found.append(list(logs(dispatch_id, 0, since=since))))
    wanted = 10 + math.floor((ahead or 0) / 3600)
    assert len(found[0]) == 400 * wanted
    assert got < MIB


def memory(server, outputs, work):
    """What ``work`` answers of the large output, and by how much client and server grow meanwhile."""
    script = f"""
import resource
from covalent_joblog_plugin import logs
def highest(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
def work(dispatch_id):
    text = logs(dispatch_id, 0, server={server.url!r})
    return {work}
work({outputs[0]!r})
before = highest()
print(work({outputs[1]!r}), highest() - before)
"""
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    before = highest(server.pid)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    answer, grown = map(int, done.stdout.split())
    return answer, grown, highest(server.pid) - before


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("", 128 * 13_000 + 30),
        ("severity='error'", 30),
        ("query='ERROR last'", 30),
        ("query='accuracy'", 128 * 13_000),
        ("follow=True, severity='error'", 30),
    ],
)
def test_reading_much_takes_bounded_memory(covalent_server, outputs, asked, found):
    lines, *grown = memory(covalent_server, outputs, f"sum(1 for _ in text({asked}))")
    assert lines == found
    assert max(grown) < 64 * MIB


def test_a_download_of_much_takes_bounded_memory(covalent_server, outputs, tmp_path):
    work = f"text.download({str(tmp_path)!r}).stat().st_size"
    size, *grown = memory(covalent_server, outputs, work)
    assert size > 128 * 13_000 * 70
    assert max(grown) < 64 * MIB
