# SPDX-License-Identifier: Apache-2.0
"""``joblog logs`` in a pipe, on a real Covalent server: what is on stdout, what on stderr, how it exits."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from covalent_joblog_plugin.cli.exits import Exit
from tests.cli.commands import joblog
from tests.executors.dispatches import cancel, electron_ids, wait_for_text
from tests.reading.tasks import run
from tests.rigs.covalent_server import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Start = Callable[..., subprocess.Popen[bytes]]

    from tests.rigs.covalent_server import CovalentServer

HOSTILE = "\x1b]0;pwn\x07\x1b[2J\x1b[1;1Hspoof\x1b[8mhid\u009b31mx \x1b[32mgreen\x1b[0m"
ODD = bytes(range(256)) * 3 + "€ \r 10%\r 20%\n".encode() + b"\xe2\x82"
WAITING = """
import os, time
print("begun")
while not os.path.exists(gate): time.sleep(0.02)
print("ended")
"""


def said(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stderr is not None
    return process.stderr.read()


def test_all_nodes_of_a_dispatch_are_shown_each_line_with_its_node(failed: str) -> None:
    done = joblog("logs", failed[:8])
    lines = set(done.stdout.splitlines())
    assert {"[good] good one", "[good] 2026-01-01 00:00:00,1 - t - ERROR - to stderr"} <= lines
    assert {"[bad] before", "[bad] ValueError: no such thing"} <= lines
    assert {"[below/inner#0] inner 7", "[below/inner#2] inner 8"} <= lines
    assert len(lines) == len(done.stdout.splitlines())
    assert "node 2 (bad) FAILED: ValueError: no such thing" in done.stderr
    assert done.exit_code == Exit.DONE


@pytest.mark.parametrize(
    ("node", "status", "text", "said"),
    [
        ("good", Exit.DONE, "good one", "COMPLETED"),
        ("bad", Exit.FAILED, "before", "(bad) FAILED: ValueError: no such thing"),
        ("never", Exit.FAILED, "", "was never started"),
        ("below", Exit.DONE, "inner 8", "COMPLETED"),
        ("inner*", Exit.DONE, "inner 7", "COMPLETED"),
    ],
)
def test_following_what_has_ended_gives_all_and_says_how_it_ended(
    failed: str, node: str, status: Exit, text: str, said: str
) -> None:
    done = joblog("logs", failed, node, "-f")
    assert text in done.stdout
    assert said in done.stderr
    assert done.exit_code == status


def test_following_a_dispatch_ends_as_the_dispatch_did(failed: str) -> None:
    done = joblog("logs", "-f", failed, "--no-prefix")
    assert {"good one", "before", "inner 7", "inner 8"} <= set(done.stdout.splitlines())
    assert f"{failed} (flow) FAILED" in done.stderr
    assert done.exit_code == Exit.FAILED


def test_a_cancelled_job_has_a_status_of_its_own(covalent_server: CovalentServer, tmp_path: Path) -> None:
    dispatch_id = run(covalent_server, WAITING, gate=str(tmp_path / "gate"))
    wait_for_text(covalent_server, dispatch_id, 0, lambda text: b"begun" in text)
    cancel(covalent_server, dispatch_id)
    covalent_server.finished(dispatch_id)
    done = joblog("logs", dispatch_id, 0, "-f")
    assert (done.stdout, done.exit_code) == ("begun\n", Exit.CANCELLED)
    assert "node 0 (task) CANCELLED" in done.stderr


def test_a_node_that_its_server_left_is_said_to_be_orphaned(
    fresh_covalent_server: CovalentServer, tmp_path: Path
) -> None:
    server = fresh_covalent_server
    dispatch_id = run(server, WAITING, gate=str(tmp_path / "gate"))
    wait_for_text(server, dispatch_id, 0, lambda text: b"begun" in text)
    server.kill()
    server.start()
    (tmp_path / "gate").touch()
    done = joblog("logs", "-f", "--server", server.url)
    assert (done.stdout, done.exit_code) == ("[task] begun\n", Exit.ORPHANED)
    assert "the server that ran it was stopped" in done.stderr
    listed = json.loads(joblog("ps", "--server", server.url, "-o", "json").stdout)
    assert (listed["state"], listed["status"], listed["last_line"]) == ("ORPHANED", "RUNNING", "begun")
    assert joblog("logs", "--server", server.url).stdout == "[task] begun\n"


def test_who_follows_is_told_that_the_server_went_away(
    fresh_covalent_server: CovalentServer, start: Start, tmp_path: Path
) -> None:
    server = fresh_covalent_server
    dispatch_id = run(server, WAITING, gate=str(tmp_path / "gate"))
    follower = start("logs", "-f", dispatch_id, "--server", server.url)
    assert follower.stdout is not None
    assert follower.stderr is not None
    assert follower.stdout.readline() == b"[task] begun\n"
    server.kill()
    assert f"no Covalent server at {server.url}".encode() in follower.stderr.readline()
    server.start()
    rest, told = follower.communicate(timeout=120)
    assert (rest, follower.returncode) == (b"", Exit.ORPHANED)
    assert f"`joblog reconnect {dispatch_id}` reads on".encode() in told
    (tmp_path / "gate").touch()


def test_bytes_are_exactly_what_the_job_wrote(
    start: Start, covalent_server: CovalentServer, tmp_path: Path
) -> None:
    """Also of a follower from before the first byte."""
    body = """
import os, time
while not os.path.exists(gate): time.sleep(0.02)
for at in range(0, len(odd), 7):
    os.write(1, odd[at:at + 7].encode("latin-1"))
"""
    gate = tmp_path / "gate"
    dispatch_id = run(covalent_server, body, gate=str(gate), odd=ODD.decode("latin-1"))
    eventually(lambda: covalent_server.get(f"/api/v1/joblog/{dispatch_id}/0").status == 200, 30, "the node")
    follower = start("logs", dispatch_id, "-f", "-o", "raw", "0")
    gate.touch()
    out, told = follower.communicate(timeout=120)
    assert (out, follower.returncode) == (ODD, Exit.DONE), told
    assert joblog("logs", dispatch_id, 0, "-o", "raw").stdout_bytes == ODD
    shown = joblog("logs", dispatch_id, 0, "-o", "json").stdout.splitlines()
    assert sum(json.loads(line)["size"] for line in shown) == len(ODD)


def test_following_as_json_gives_the_lines_that_a_later_reader_gets(many_lines: str) -> None:
    followed = joblog("logs", many_lines, "-f", "-o", "json")
    assert followed.stdout == joblog("logs", many_lines, "-o", "json").stdout
    first = json.loads(followed.stdout.splitlines()[0])
    known = {"dispatch_id": many_lines, "node_id": 0, "node": "task", "file": "stdout", "stream": "stdout"}
    known |= {"rank": 0, "execution": 0, "severity": None, "cursor": 0, "size": 7, "text": "line 0"}
    assert first == {**known, "time": first["time"]}


def test_nothing_of_a_jobs_text_acts_in_a_pipe_that_leads_to_a_terminal(
    covalent_server: CovalentServer,
) -> None:
    dispatch_id = run(covalent_server, f"print({HOSTILE!r})")
    covalent_server.completed(dispatch_id)
    shown = joblog("logs", dispatch_id, 0).stdout
    assert shown == "\\x1b]0;pwn\\x07\\x1b[2J\\x1b[1;1Hspoof\\x1b[8mhid\\x9b31mx green\n"
    assert joblog("logs", dispatch_id, 0, "-o", "raw").stdout_bytes == f"{HOSTILE}\n".encode()


@pytest.mark.parametrize(
    ("options", "first", "count"),
    [
        (["-n", "10000"], "line 5000", 10_000),
        (["-n", "1", "-f"], "line 14999", 1),
        (["-q", "line 149", "-q", "7777"], "line 149", 112),
        (["-q", "7$", "--regex"], "line 7", 1500),
        (["--exclude", "1", "--exclude", "0"], "line 2", 4680),
        (["--since", "1h", "--until", "0s", "--rank", "0", "--stream", "stdout"], "line 0", 15_000),
        (["-q", "line 77", "-n", "2"], "line 7798", 2),
    ],
)
def test_lines_are_selected(many_lines: str, options: list[str], first: str, count: int) -> None:
    done = joblog("logs", many_lines, 0, *options)
    lines = done.stdout.splitlines()
    assert (len(lines), lines[0] if lines else done.stderr) == (count, first)


def test_timestamps_are_those_of_the_arrival(many_lines: str) -> None:
    line = joblog("logs", many_lines, 0, "-n", "1", "-t").stdout
    time, text = line.split(" ", 1)
    assert (len(time), time[-1], text) == (len("2026-01-01T00:00:00.000Z"), "Z", "line 14999\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-q", "no such text"], "none of 2 lines passes: query leaves out 2"),
        (["--severity", "CRITICAL"], "severity leaves out"),
        (["-f", "-q", "no such text"], "nothing passes what is asked for"),
        (["--file", "stdout", "--since", "0s"], "since leaves out 1"),
    ],
)
def test_why_there_is_nothing_is_said(failed: str, options: list[str], said: str) -> None:
    done = joblog("logs", failed, "good", *options)
    assert (done.stdout, done.exit_code) == ("", Exit.DONE)
    assert said in done.stderr


def test_where_a_stream_is_empty_the_others_are_named(failed: str) -> None:
    done = joblog("logs", failed, "inner*", "--stream", "stderr")
    assert "2 nodes, 0 of them not started, have written nothing there; inner stdout has" in done.stderr


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (["abcdef0"], Exit.NOT_THERE, "no dispatch begins with 'abcdef0'"),
        (["not-an-id"], Exit.USAGE, "is no dispatch id"),
        (["latest", "nobody"], Exit.NOT_THERE, "has no node 'nobody'"),
        (["--since", "5"], Exit.USAGE, "has no unit"),
        (["--rank", "x"], Exit.USAGE, "'x' is none"),
        (["--file", "a", "--rank", "1"], Exit.USAGE, "leave out stream and rank"),
        (["--severity", "loud"], Exit.USAGE, "take one of DEBUG"),
        (["-q", "[", "--regex"], Exit.USAGE, "query: "),
        (["-f", "--until", "1s"], Exit.USAGE, "following ends when the output does"),
        (["-n", "-1"], Exit.USAGE, "--tail"),
        (["--frob"], Exit.USAGE, "No such option"),
        (["--server", "nowhere:0"], Exit.USAGE, "is no address"),
        (["--server", "127.0.0.1:1"], Exit.UNREACHABLE, "no Covalent server at"),
        (["latest", "-o", "raw"], Exit.USAGE, "several outputs"),
        (["latest", "good", "-o", "raw", "-q", "x"], Exit.USAGE, "only tail goes with it"),
        (["latest", "good", "-f", "-o", "raw", "--since", "1h"], Exit.USAGE, "only tail goes with it"),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_line_and_a_status(
    failed: str, options: list[str], status: Exit, said: str
) -> None:
    words = [failed if word == "latest" else word for word in options]
    done = joblog("logs", *words)
    assert (done.stdout, done.exit_code) == ("", status)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_text_is_looked_for_as_it_is(failed: str) -> None:
    assert joblog("logs", failed, "bad", "-q", "b.fore").stdout == ""
    assert joblog("logs", failed, "bad", "-q", "b.fore", "--regex").stdout == "before\n"


def test_who_waits_for_output_is_told_why_there_is_none(
    start: Start, covalent_server: CovalentServer, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    body = "import os, time\nwhile not os.path.exists(gate): time.sleep(0.02)\nprint('at last')"
    dispatch_id = run(covalent_server, body, gate=str(gate))
    eventually(lambda: electron_ids(covalent_server, dispatch_id, "task"), 30, "the node")
    follower = start("logs", dispatch_id, "0", "-f")
    assert follower.stderr is not None
    assert b"node 0 (task) is RUNNING: it runs and has written nothing yet" in follower.stderr.readline()
    gate.touch()
    assert follower.communicate(timeout=120)[0] == b"at last\n"


@pytest.mark.parametrize("form", ["text", "raw"])
def test_a_reader_that_goes_away_ends_it_quietly_though_the_job_is_silent(
    start: Start, covalent_server: CovalentServer, tmp_path: Path, form: str
) -> None:
    dispatch_id = run(covalent_server, WAITING, gate=str(tmp_path / "gate"))
    follower = start("logs", dispatch_id, "0", "-f", "-o", form)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"begun\n"
    follower.stdout.close()
    assert (follower.wait(60), said(follower)) == (Exit.PIPE_CLOSED, b"")
    (tmp_path / "gate").touch()
    covalent_server.completed(dispatch_id)


def test_a_pipe_that_is_closed_while_there_is_much_to_write_ends_it_quietly(
    start: Start, many_lines: str
) -> None:
    reader = start("logs", many_lines, "0")
    head = subprocess.run(["head", "-n1"], stdin=reader.stdout, capture_output=True, check=True, timeout=60)
    assert reader.stdout is not None
    reader.stdout.close()
    assert head.stdout == b"line 0\n"
    assert (reader.wait(60), said(reader)) == (Exit.PIPE_CLOSED, b"")


def test_a_locale_without_the_characters_does_not_stop_it(
    start: Start, covalent_server: CovalentServer
) -> None:
    dispatch_id = run(covalent_server, "print('5 \\u20ac')")
    covalent_server.completed(dispatch_id)
    reader = start("logs", dispatch_id, "0", PYTHONIOENCODING="ascii")
    assert reader.communicate(timeout=60)[0] == b"5 \\u20ac\n"
