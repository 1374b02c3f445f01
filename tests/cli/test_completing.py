# SPDX-License-Identifier: Apache-2.0
"""What a shell completes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.commands import joblog

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from tests.rigs.covalent_server import CovalentServer

    Start = Callable[..., subprocess.Popen[bytes]]


_ODD_NAMES = """
import covalent as ct

def ordinary(n): return n
def odd(n): return n
odd.__name__ = "odd\\x1b[2J\\nname"
ordinary, odd = ct.electron(ordinary), ct.electron(odd)

@ct.lattice
def flow(): return ordinary(1), odd(2)

answer = ct.dispatch(flow)()
"""


def completed(start: Start, *words: str) -> list[str]:
    """What fish is told of, without the explanations."""
    asked = {
        "_JOBLOG_COMPLETE": "fish_complete",
        "COMP_WORDS": " ".join(["joblog", *words]),
        "COMP_CWORD": words[-1],
    }
    shell = start(**asked)
    out, said = shell.communicate(timeout=60)
    assert said == b""
    return [line.split(",", 1)[1].split("\t")[0] for line in out.decode().splitlines()]


def test_dispatches_and_nodes_are_completed(start: Start, failed: str) -> None:
    assert completed(start, "logs", failed[:6]) == [failed]
    assert "latest" in completed(start, "ps", "la")
    assert set(completed(start, "logs", failed, "b")) == {
        "bad",
        "below",
        "below/inner#0",
        "below/inner#2",
    } or ({"bad", "below"} <= set(completed(start, "logs", failed, "b")))


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("l",), ["logs"]),
        (("logs", "--exe"), ["--execution"]),
        (("logs", "--stream", "std"), ["stdout", "stderr"]),
    ],
)
def test_commands_and_options_are_completed(start: Start, words: tuple[str, ...], found: list[str]) -> None:
    assert completed(start, *words) == found


def test_a_server_that_does_not_answer_is_no_fault_of_the_shell(start: Start) -> None:
    assert completed(start, "logs", "--server", "127.0.0.1:1", "l") == ["latest"]


def test_a_name_that_would_act_in_a_terminal_is_not_handed_to_the_shell(
    start: Start, covalent_server: CovalentServer
) -> None:
    dispatch_id = str(covalent_server.client(_ODD_NAMES))
    covalent_server.completed(dispatch_id)
    assert completed(start, "logs", dispatch_id, "o") == ["ordinary"]
    listed = joblog("ps", dispatch_id).stdout
    assert "odd\\x1b[2J\\nname" in listed
    assert "\x1b" not in listed
