# SPDX-License-Identifier: Apache-2.0
"""A real disk fills up under a real server: tasks end, the prefix stays, and it goes on with room."""

import json
import subprocess

import pytest

from tests.rigs.covalent_server import CovalentServer, eventually
from tests.store.scripts import answer_of, dispatch, index_of, results

MIB = 1 << 20

WRITING = """
import pathlib
async def run(output, say):
    stopped = pathlib.Path({stopped!r})
    source = b"".join(b"%07d\\n" % n for n in range({lines}))
    pos, refused = 0, 0
    while pos < len(source):
        item = Append("stdout", source[pos:pos + {step}], 0, time.time())
        (taken,) = await write([(output, item)])
        pos += taken
        if taken < len(item.data):
            refused += 1
            stopped.write_text(f"{{pos}} {{output.snapshot('stdout').view.total}} {{output.trouble}}")
            if {give_up}:
                break
            await asyncio.sleep(0.02)
    return [refused, str(output.trouble)]
"""


@pytest.fixture
def small_disk(covalent_database, tmp_path):
    """A server whose results lie on a disk of 16 MiB of their own."""
    server = CovalentServer(tmp_path / "server", covalent_database)
    server.add_executors()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", server.results_dir], check=True)
    try:
        yield server.start()
    finally:
        server.close()
        subprocess.run(["umount", server.results_dir], check=True)


def said(lines):
    return b"".join(b"%07d\n" % n for n in range(lines))


def seams(server, dispatch_id):
    lines = index_of(server.results_dir / dispatch_id / "node_0")
    return [(line["seam"], line["cursor"]) for line in lines if "seam" in line]


def ballast(server, size):
    path = server.results_dir / "ballast"
    path.write_bytes(b"\0" * size)
    return path


def test_at_its_reserve_the_store_waits_and_goes_on_when_there_is_room(small_disk, tmp_path):
    filler = ballast(small_disk, 10 * MIB)
    lines = 4 * MIB // 8
    script = WRITING.format(stopped=str(tmp_path / "stopped"), lines=lines, step=100_000, give_up=False)
    dispatch_id = dispatch(small_disk, script, min_free=4 * MIB)
    eventually((tmp_path / "stopped").exists, 30, "the reserve")
    pos, length, trouble = (tmp_path / "stopped").read_text().split(" ", 2)
    assert pos == length
    assert "kept in reserve" in trouble
    assert small_disk.stdout(dispatch_id, 0) == said(lines)[: int(pos)]
    filler.unlink()
    small_disk.completed(dispatch_id)
    assert small_disk.stdout(dispatch_id, 0) == said(lines)
    assert seams(small_disk, dispatch_id) == [("paused", int(pos)), ("resumed", int(pos))]
    refused, trouble = answer_of(small_disk, dispatch_id)
    assert refused > 1
    assert trouble == "None"
    assert small_disk.log.read_text().count("is not stored") == 1


def test_without_room_the_task_ends_and_the_prefix_stays(small_disk, tmp_path):
    ballast(small_disk, 10 * MIB)
    script = WRITING.format(stopped=str(tmp_path / "stopped"), lines=MIB, step=300_000, give_up=True)
    dispatch_id = dispatch(small_disk, script, min_free=4 * MIB)
    small_disk.completed(dispatch_id)
    body = small_disk.stdout(dispatch_id, 0)
    assert len(body) == int((tmp_path / "stopped").read_text().split()[0])
    assert said(MIB).startswith(body)
    assert results(small_disk, dispatch_id)[0]["stdout"].encode() == body
    assert seams(small_disk, dispatch_id) == [("paused", len(body))]


FILLING = """
import os, pathlib
async def run(output, say):
    stopped = pathlib.Path({stopped!r})
    await say(b"before\\n")
    disk = os.statvfs(output.folder)
    with pathlib.Path({filler!r}).open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, disk.f_bavail * disk.f_frsize - 300_000)
    item = Append("stdout", b"0123456\\n" * 100_000, 0, time.time())
    refused = 0
    while (await write([(output, item)]))[0] == 0:
        refused += 1
        stopped.write_text(str(output.trouble))
        await asyncio.sleep(0.02)
    return refused
"""


def test_a_write_that_a_full_disk_cuts_short_is_neither_lost_nor_doubled(small_disk, tmp_path):
    """No reserve, and room vanishes after it was looked for: the kernel takes a part and refuses the rest."""
    filler = small_disk.results_dir / "filler"
    script = FILLING.format(stopped=str(tmp_path / "stopped"), filler=str(filler))
    dispatch_id = dispatch(small_disk, script, min_free=0)
    eventually((tmp_path / "stopped").exists, 30, "a full disk")
    assert small_disk.stdout(dispatch_id, 0) == b"before\n"
    asset = small_disk.results_dir / dispatch_id / "node_0" / "stdout.log"
    assert asset.stat().st_size == 7
    filler.unlink()
    small_disk.completed(dispatch_id)
    assert asset.read_bytes() == b"before\n" + b"0123456\n" * 100_000
    assert seams(small_disk, dispatch_id) == [("paused", 7), ("resumed", 7)]
    assert "No space left on device" in small_disk.log.read_text()
    state = json.loads((asset.parent / "joblog" / "state.json").read_bytes())
    assert state["state"] == "closed"
