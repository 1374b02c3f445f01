# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command share."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cli.commands import ARGV
from tests.reading.tasks import run
from tests.rigs.tmux import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.rigs.covalent_server import CovalentServer

_FLOW = """
import covalent as ct
local = ct.executor.LocalJobLogExecutor()

@ct.electron(executor=local)
def good(x):
    import sys
    print("good one")
    print("2026-01-01 00:00:00,1 - t - ERROR - to stderr", file=sys.stderr)
    return x

@ct.electron(executor=local)
def bad(x):
    print("before")
    raise ValueError("no such thing")

@ct.electron(executor=local)
def never(x):
    print("never")

@ct.electron(executor=local)
def inner(x):
    print("inner", x)

@ct.electron
@ct.lattice
def below(x):
    inner(x)
    return inner(x + 1)

@ct.lattice
def flow():
    return never(bad(good(1))), below(7)

answer = ct.dispatch(flow)()
"""


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.close()


@pytest.fixture
def start(covalent_server: CovalentServer) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Begins the command as a process of its own, with pipes; it asks the session's server."""
    begun: list[subprocess.Popen[bytes]] = []

    def start(*arguments: object, **environment: str) -> subprocess.Popen[bytes]:
        argv = [*ARGV, *(str(argument) for argument in arguments)]
        env = {**covalent_server.env, **environment}
        begun.append(subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return begun[-1]

    yield start
    for process in begun:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def failed(covalent_server: CovalentServer) -> str:
    """A dispatch with a node that succeeded, one that failed, one never begun, and a sublattice."""
    dispatch_id = str(covalent_server.client(_FLOW))
    covalent_server.finished(dispatch_id)
    return dispatch_id


@pytest.fixture(scope="session")
def many_lines(covalent_server: CovalentServer) -> str:
    """A dispatch whose one node has printed 15,000 lines."""
    dispatch_id = run(covalent_server, "for n in range(15_000): print('line', n)")
    covalent_server.completed(dispatch_id)
    return dispatch_id
