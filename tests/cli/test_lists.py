# SPDX-License-Identifier: Apache-2.0
"""``joblog ps``, ``files``, ``capabilities`` and ``where`` on a real Covalent server."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from covalent_joblog_plugin.cli.exits import Exit
from covalent_joblog_plugin.cli.wording import clock, size, span
from tests.cli.commands import joblog
from tests.executors.dispatches import wait_for_text
from tests.reading.tasks import run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rigs.covalent_server import CovalentServer


def values(*arguments: object) -> list[dict[str, Any]]:
    done = joblog(*arguments, "-o", "json")
    assert (done.exit_code, done.stderr) == (Exit.DONE, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_ps_says_how_each_node_stands(failed: str) -> None:
    listed = {value["node"]: value for value in values("ps", failed)}
    assert {name: value["state"] for name, value in listed.items() if "inner" not in name} == {
        "good": "COMPLETED",
        "bad": "FAILED",
        "never": "PENDING",
        "below": "COMPLETED",
    }
    assert listed["bad"]["last_line"] == "ValueError: no such thing"
    assert listed["good"]["elapsed"] > 0
    assert listed["never"]["elapsed"] is None
    assert listed["below/inner#0"]["last_line"] == "inner 7"
    assert listed["good"]["executor"] == "joblog_local"


def test_ps_is_a_table_for_people(failed: str) -> None:
    heads, *rows = joblog("ps", failed).stdout.splitlines()
    assert heads.split("  ")[0] == "NODE"
    assert "LIMIT" not in heads
    row = next(row for row in rows if " bad " in row)
    assert row.index("FAILED") == heads.index("STATE")
    assert row.endswith("ValueError: no such thing")
    assert any(row.endswith("it was never started") for row in rows)


def test_ps_of_a_running_node_goes_on(covalent_server: CovalentServer, tmp_path: Path) -> None:
    body = "import os, time\nprint('\\x1b[31mred\\x07')\nwhile not os.path.exists(gate): time.sleep(0.02)"
    dispatch_id = run(covalent_server, body, gate=str(tmp_path / "gate"))
    wait_for_text(covalent_server, dispatch_id, 0, lambda text: b"red" in text)
    (first,) = values("ps")
    assert (first["dispatch_id"], first["state"]) == (dispatch_id, "RUNNING")
    (later,) = values("ps", dispatch_id, "task")
    assert later["elapsed"] > first["elapsed"] > 0
    assert later["output_age"] > first["output_age"] >= 0
    assert "red\\x07" in joblog("ps").stdout
    (tmp_path / "gate").touch()
    covalent_server.completed(dispatch_id)


def test_files_are_listed_by_the_names_that_show_them(failed: str) -> None:
    listed = values("files", failed, "good")
    known = [(file["file"], file["stream"], file["rank"]) for file in listed]
    assert known == [("stdout", "stdout", 0), ("stderr", "stderr", 0)]
    assert listed[0]["size"] == len("good one\n")
    assert [row.split()[-3:] for row in joblog("files", failed, "good").stdout.splitlines()[1:2]] == [
        ["9", "B", "stdout"]
    ]
    assert joblog("logs", failed, "good", "--file", listed[0]["file"]).stdout == "good one\n"


def test_capabilities_are_told_with_reasons(failed: str) -> None:
    (told,) = values("capabilities", failed, "good")
    assert told["capabilities"]["follow"] == {"answer": "yes", "reason": ""}
    rows = joblog("capabilities", failed, "good").stdout.splitlines()
    assert any("complete" in row and row.endswith("does not count and hash what it writes") for row in rows)


def test_where_has_commands_that_work(covalent_server: CovalentServer, tmp_path: Path) -> None:
    body = "import os, time\nprint('here')\nwhile not os.path.exists(gate): time.sleep(0.02)"
    dispatch_id = run(covalent_server, body, gate=str(tmp_path / "gate"))
    wait_for_text(covalent_server, dispatch_id, 0, lambda text: b"here" in text)
    (there,) = values("where", dispatch_id)
    assert (there["host"], there["files"].keys()) == ("server", {"stdout", "stderr"})
    follow = there["commands"]["follow stdout"].replace("tail -F", "tail -n +1")
    shown = subprocess.run(["bash", "-c", follow], capture_output=True, text=True, check=True)
    assert shown.stdout == "here\n"
    text = joblog("where", dispatch_id).stdout
    assert f"  {there['commands']['end it']}\n" in text
    assert f"  curl -OJ '{there['stored']['stdout']}'\n" in text
    subprocess.run(["bash", "-c", there["commands"]["end it"]], check=True)
    assert covalent_server.finished(dispatch_id) == "FAILED"


@pytest.mark.parametrize("command", ["ps", "files", "capabilities", "where"])
def test_what_is_not_there_is_said(failed: str, command: str) -> None:
    done = joblog(command, failed, "nobody")
    assert (done.stdout, done.exit_code) == ("", Exit.NOT_THERE)
    assert "has no node 'nobody'; there is 0 (good)" in done.stderr


def test_help_needs_no_server() -> None:
    done = joblog("--help")
    assert done.exit_code == Exit.DONE
    assert "logs" in done.stdout
    assert joblog("where", "-h").exit_code == Exit.DONE


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (span(0), "0 s"),
        (span(-3), "0 s"),
        (span(59.9), "59 s"),
        (span(3600), "1 h"),
        (span(172_799), "1 d"),
        (clock(7), "0:00:07"),
        (clock(93_784), "26:03:04"),
        (size(999), "999 B"),
        (size(1000), "1.0 kB"),
        (size(999_950), "1.0 MB"),
        (size(4_123_456), "4.1 MB"),
        (size(5e15), "5000.0 TB"),
    ],
)
def test_times_and_sizes_are_said_as_people_say_them(said: str, words: str) -> None:
    assert said == words
