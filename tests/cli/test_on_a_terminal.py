# SPDX-License-Identifier: Apache-2.0
"""``joblog`` on a real terminal: bars that move in place, a row that says how it stands, Ctrl-C."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from covalent_joblog_plugin.cli.exits import Exit
from tests.cli.commands import ARGV
from tests.executors.dispatches import wait_for_text
from tests.reading.tasks import run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.tmux import Terminal

BARS = """
import os, sys, time
print("starts")
for step in range(4):
    sys.stderr.write(f"\\r{25 * step:3}%|{'#' * 8 * step:<24}| {step}/3")
    sys.stderr.flush()
    while not os.path.exists(f"{gate}/{step}"): time.sleep(0.02)
sys.stderr.write("\\n")
print("ends")
"""
TWO = """
import covalent as ct
local = ct.executor.LocalJobLogExecutor()

@ct.electron(executor=local)
def one():
    exec(body, {"gate": gate})

@ct.electron(executor=local)
def other():
    exec(body, {"gate": gate})

@ct.lattice
def flow():
    one(), other()

answer = ct.dispatch(flow)()
"""


class Gates:
    """Steps that tasks wait for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, *steps: int) -> None:
        for step in steps:
            (self.folder / str(step)).touch()


@pytest.fixture
def gates(tmp_path: Path) -> Gates:
    return Gates(tmp_path)


def joblog(*arguments: str) -> list[str]:
    return [*ARGV, *arguments]


def bars(screen: list[str]) -> list[str]:
    return [line for line in screen if "%|" in line]


def test_bars_move_in_place_and_the_last_row_says_how_it_stands(
    covalent_server: CovalentServer, terminal: Terminal, gates: Gates
) -> None:
    dispatch_id = run(covalent_server, BARS, gate=str(gates.folder))
    terminal.run(joblog("logs", "-f", dispatch_id, "task"), covalent_server.env)
    early = terminal.shows(lambda text: "0%|" in text and "live" in text, "the first state of the bar")
    assert early[0] == "starts"
    assert bars(early) == ["  0%|                        | 0/3"]
    assert re.fullmatch(r"live · answered \d+ s ago · last output \d+ s ago · server:\S+", early[-1])
    gates.open(0, 1)
    later = terminal.shows(lambda text: "50%|" in text, "the next state but one")
    assert bars(later) == [" 50%|################        | 2/3"]
    assert later.index(bars(later)[0]) == early.index(bars(early)[0])
    gates.open(2, 3)
    assert terminal.ended() == Exit.DONE
    everything = terminal.everything()
    assert bars(everything.split("\n")) == [" 75%|########################| 3/3"]
    assert "live" not in everything
    assert "ends" in everything
    assert everything.endswith("node 0 (task) COMPLETED")


def test_each_node_has_its_bar(covalent_server: CovalentServer, terminal: Terminal, gates: Gates) -> None:
    dispatch_id = str(covalent_server.client(TWO, body=BARS, gate=str(gates.folder)))
    terminal.run(joblog("logs", "-f", dispatch_id), covalent_server.env)
    terminal.shows(lambda text: len(re.findall(r"\] +0%\|", text)) == 2, "both bars")
    gates.open(0)
    terminal.shows(lambda text: len(re.findall(r"\] +25%\|", text)) == 2, "both bars, moved")
    assert len(bars(terminal.screen())) == 2
    assert terminal.screen()[-1].startswith("2 nodes: 2 RUNNING · last output")
    gates.open(1, 2, 3)
    assert terminal.ended() == Exit.DONE
    assert len(bars(terminal.everything().split("\n"))) == 2


def test_a_terminal_that_becomes_narrower_keeps_one_of_each_bar(
    covalent_server: CovalentServer, terminal: Terminal, gates: Gates
) -> None:
    dispatch_id = run(covalent_server, BARS, gate=str(gates.folder))
    terminal.run(joblog("logs", "-f", dispatch_id, "0"), covalent_server.env)
    terminal.shows(lambda text: "0%|" in text and "live" in text, "the bar")
    terminal.resize(30, 12)
    gates.open(0)
    terminal.shows(lambda text: "25%|" in text, "the bar, moved")
    assert len(bars(terminal.screen())) == 1
    assert "\n".join(terminal.screen()).count("live ·") == 1
    gates.open(1, 2, 3)
    assert terminal.ended() == Exit.DONE


def test_ctrl_c_ends_the_watching_and_says_how_to_return(
    covalent_server: CovalentServer, terminal: Terminal, gates: Gates
) -> None:
    dispatch_id = run(covalent_server, BARS, gate=str(gates.folder))
    argv = joblog("logs", dispatch_id[:8], "ta*", "-f", "-n", "5", "--highlight", "two words")
    terminal.run(argv, covalent_server.env)
    terminal.shows(lambda text: "0%|" in text, "the bar")
    terminal.keys("C-c")
    assert terminal.ended() == Exit.INTERRUPTED
    said = terminal.everything().replace("\n", "")
    assert f"To return: joblog logs {dispatch_id} 'ta*' -f -n 5 --highlight 'two words'" in said
    assert "live" not in said
    assert covalent_server.status(dispatch_id) == "RUNNING"
    gates.open(0, 1, 2, 3)
    covalent_server.completed(dispatch_id)


HOSTILE = "\x1b]0;pwn\x07\x1b[2J\x1b[1;1Hspoof\x1b[8mhidden \x1b[31mred\x1b[0m \u202eevil"


@pytest.mark.parametrize("ending", ["\\n", ""])
def test_nothing_of_a_jobs_text_acts_and_its_colours_pass(
    covalent_server: CovalentServer, terminal: Terminal, ending: str
) -> None:
    """Neither of a whole line nor of one that has no end."""
    dispatch_id = run(covalent_server, f"import sys; sys.stdout.write({HOSTILE!r} + '{ending}')")
    covalent_server.completed(dispatch_id)
    terminal.run(joblog("logs", dispatch_id, "0"), covalent_server.env)
    assert terminal.ended() == Exit.DONE
    first = terminal.everything().split("\n")[0]
    assert first == "\\x1b]0;pwn\\x07\\x1b[2J\\x1b[1;1Hspoof\\x1b[8mhidden red \\u202eevil"
    assert "\x1b[31mred" in terminal.everything(colours=True)
    assert terminal.ask("pane_title") != "pwn"


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_there_is_no_colour_where_none_is_wanted(
    covalent_server: CovalentServer, terminal: Terminal, failed: str, setting: dict[str, str]
) -> None:
    words = [f"{name}={value}" for name, value in setting.items()]
    terminal.run(["env", *words, *joblog("logs", failed, "-q", "before")], covalent_server.env)
    assert terminal.ended() == Exit.DONE
    assert "[bad] before" in terminal.everything(colours=True)
    assert "\x1b[" not in terminal.everything(colours=True)


def test_sources_have_colours_and_what_was_looked_for_is_marked(
    covalent_server: CovalentServer, terminal: Terminal, failed: str
) -> None:
    terminal.run(joblog("logs", failed, "--query", "fore", "--highlight", "be"), covalent_server.env)
    assert terminal.ended() == Exit.DONE
    line = terminal.everything(colours=True).split("\n")[0]
    assert re.match(r"\x1b\[3\dm\[bad\]\x1b\[39m ", line)
    assert "\x1b[7mbe" in line


def test_raw_bytes_are_refused(covalent_server: CovalentServer, terminal: Terminal, failed: str) -> None:
    terminal.run(joblog("logs", failed, "good", "-o", "raw"), covalent_server.env)
    assert terminal.ended() == Exit.USAGE
    assert "write them to a file, or pipe them" in terminal.everything().replace("\n", "")


def test_a_snapshot_of_a_node_that_goes_on_says_how_fresh_it_is(
    covalent_server: CovalentServer, terminal: Terminal, gates: Gates
) -> None:
    dispatch_id = run(covalent_server, BARS, gate=str(gates.folder))
    wait_for_text(covalent_server, dispatch_id, 0, lambda text: b"starts" in text)
    terminal.run(joblog("logs", dispatch_id, "0", "--stream", "stdout"), covalent_server.env)
    assert terminal.ended() == Exit.DONE
    first, said = terminal.everything().split("\n")[:2]
    assert first == "starts"
    assert re.match(r"live · answered \d+ s ago · last output \d+ s ago · server:\S+", said)
    gates.open(0, 1, 2, 3)
    covalent_server.completed(dispatch_id)


@pytest.mark.parametrize(("to", "has_row"), [('> "$0/text"', True), ("| tee", False)])
def test_beside_a_file_there_is_the_row_and_behind_a_pipe_there_is_none(
    covalent_server: CovalentServer, terminal: Terminal, gates: Gates, to: str, has_row: bool
) -> None:
    """What is behind a pipe may write to the same terminal, and is not to be painted over."""
    dispatch_id = run(covalent_server, BARS, gate=str(gates.folder))
    argv = ["sh", "-c", f'"$@" {to}', str(gates.folder), *joblog("logs", "-f", dispatch_id, "0")]
    terminal.run(argv, covalent_server.env)
    if has_row:
        terminal.shows(lambda text: "live" in text, "the row")
    else:
        terminal.shows(lambda text: "starts" in text, "the text")
    gates.open(0, 1, 2, 3)
    covalent_server.completed(dispatch_id)
    terminal.ended()
    everything = terminal.everything()
    assert everything.endswith("node 0 (task) COMPLETED")
    assert "live" not in everything
    shown = (gates.folder / "text").read_text() if has_row else everything
    assert shown.startswith("starts\n")
