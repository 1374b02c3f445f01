# SPDX-License-Identifier: Apache-2.0
"""What README's part about the command shows, as it stands, in a shell."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cli.commands import ARGV
from tests.project.tracked import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rigs.covalent_server import CovalentServer

_README = (ROOT / "README.md").read_text()
_PART = _README[_README.index("## The `joblog` command") : _README.index("<!-- written by")]
COMMANDS = re.findall(r"^\$ (.*?) *(?:#.*)?$", _PART, re.MULTILINE)
COMPLETING = re.findall(r"_JOBLOG_COMPLETE=\w+ joblog", _PART)
_SCRIPT = f'joblog() {{ {shlex.join(ARGV)} "$@"; }}\n'
_FLOW = """
import covalent as ct

@ct.electron(executor="joblog_local")
def train(n):
    print("WARNING: loss", n)
    return n

@ct.lattice
def flow():
    return train(1)

answer = ct.dispatch(flow)()
"""


@pytest.fixture(scope="module")
def dispatch_id(covalent_server: CovalentServer) -> str:
    dispatch_id = str(covalent_server.client(_FLOW))
    covalent_server.completed(dispatch_id)
    return dispatch_id


@pytest.mark.parametrize("command", COMMANDS)
def test_it_does_what_it_says(
    covalent_server: CovalentServer, dispatch_id: str, tmp_path: Path, command: str
) -> None:
    script = _SCRIPT + command.replace("8f3c", dispatch_id[:8])
    argv = ["bash", "-c", script]
    done = subprocess.run(
        argv, env=covalent_server.env, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    written = "".join(path.read_text() for path in tmp_path.iterdir())
    assert dispatch_id in done.stdout or "WARNING: loss 1" in done.stdout + written


@pytest.mark.parametrize("command", COMPLETING)
def test_a_shell_is_told_how_to_complete(
    covalent_server: CovalentServer, tmp_path: Path, command: str
) -> None:
    argv = ["bash", "-c", _SCRIPT + command]
    done = subprocess.run(
        argv, env=covalent_server.env, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "_JOBLOG_COMPLETE" in done.stdout
