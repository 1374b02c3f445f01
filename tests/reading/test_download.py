# SPDX-License-Identifier: Apache-2.0
"""Output into a file: every byte or no file, and a bar for who watches."""

import os
import subprocess
import sys

import pytest

from covalent_joblog_plugin import logs
from covalent_joblog_plugin.model.errors import BadSelection, OutputGone
from tests.rigs.covalent_server import eventually
from tests.store.scripts import dispatch

SOURCE = bytes(range(256)) * 20_000
SCRIPT = "async def run(output, say): await say(bytes(range(256)) * 20_000, 'all/bytes \x1b[2J.log')"
FILE = "all/bytes \x1b[2J.log"


@pytest.fixture(scope="module")
def finished(covalent_server):
    dispatch_id = dispatch(covalent_server, SCRIPT)
    covalent_server.completed(dispatch_id)
    return dispatch_id


def test_all_bytes_are_in_the_file_and_nothing_else_is_left(finished, tmp_path):
    text = logs(finished, 0, file=FILE)
    target = tmp_path / "out.log"
    target.write_text("what was there before")
    assert text.download(target) == target
    assert target.read_bytes() == SOURCE
    inside = text.download(str(tmp_path))
    assert inside == tmp_path / f"{finished[:8]}-0-all_bytes___2J.log"
    assert inside.read_bytes() == SOURCE
    assert sorted(tmp_path.iterdir()) == sorted([target, inside])
    assert text(tail=2).download(target).read_bytes() == b"\n".join(SOURCE.split(b"\n")[-2:])


def test_of_an_output_that_grows_it_is_what_was_there(covalent_server, tmp_path):
    script = f"""
import pathlib
async def run(output, say):
    await say("one €\\ntwo".encode())
    while not pathlib.Path({str(tmp_path / "gate")!r}).exists():
        await asyncio.sleep(0.02)
    await say(b" and more\\n")
"""
    dispatch_id = dispatch(covalent_server, script)
    eventually(lambda: covalent_server.status(dispatch_id) == "RUNNING", 30, "the node")
    early = eventually(lambda: "two" in (text := logs(dispatch_id, 0)) and text, 30, "the text")
    (tmp_path / "gate").touch()
    covalent_server.completed(dispatch_id)
    assert early.download(tmp_path / "early").read_bytes() == "one €\ntwo".encode()
    assert early().download(tmp_path / "late").read_bytes() == "one €\ntwo and more\n".encode()


def test_a_file_that_would_not_be_complete_does_not_appear(covalent_server, tmp_path):
    dispatch_id = dispatch(covalent_server, "async def run(output, say): await say(b'x' * 5000)")
    covalent_server.completed(dispatch_id)
    text = logs(dispatch_id, 0)
    (stored,) = (covalent_server.results_dir / dispatch_id).glob("node_0/stdout*.log")
    os.truncate(stored, 1000)
    target = tmp_path / "out.log"
    target.write_text("what was there before")
    with pytest.raises(OutputGone):
        text.download(target)
    with pytest.raises(BadSelection, match="only tail goes with it"):
        logs(dispatch_id, 0, query="x").download(target)
    assert target.read_text() == "what was there before"
    assert list(tmp_path.iterdir()) == [target]


def downloading(server, dispatch_id, target, **streams):
    """A process that downloads the output into ``target``."""
    script = (
        "from covalent_joblog_plugin import logs\n"
        f"logs({dispatch_id!r}, 0, file={FILE!r}, server={server.url!r}).download({str(target)!r})"
    )
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    return subprocess.Popen([sys.executable, "-c", script], env=env, **streams)


def all_of(descriptor):
    """What a terminal got until nobody had it open any more."""
    seen = b""
    while True:
        try:
            data = os.read(descriptor, 65536)
        except OSError:  # how a terminal says that it is over
            return seen
        seen += data


def test_a_bar_on_a_terminal_tells_how_far_it_is(covalent_server, finished, tmp_path):
    master, terminal = os.openpty()
    process = downloading(covalent_server, finished, tmp_path / "out", stderr=terminal)
    os.close(terminal)
    seen = all_of(master)
    os.close(master)
    assert process.wait(30) == 0
    assert b"5.1/5.1 MB" in seen
    assert "━".encode() in seen
    assert b"\x1b[2J" not in seen
    assert (tmp_path / "out").read_bytes() == SOURCE


def test_without_a_terminal_there_is_no_bar(covalent_server, finished, tmp_path):
    process = downloading(
        covalent_server, finished, tmp_path / "out", stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 0
    assert (tmp_path / "out").read_bytes() == SOURCE
