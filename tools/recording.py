# SPDX-License-Identifier: Apache-2.0
"""Two moments of a terminal in which two tasks' progress bars move: python -m tools.recording [FOLDER].

It starts a Covalent server of its own and a private tmux, and follows a dispatch there. What stands on the
screen at both moments goes into ``FOLDER/moment-1.txt`` and ``moment-2.txt``, what the terminal holds in
the end into ``end.txt``; without a folder it is only shown.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.rigs.covalent_server import CovalentServer
from tests.rigs.tmux import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable

_COMMAND = "from covalent_joblog_plugin.cli.main import joblog; joblog(prog_name='joblog')"
_FLOW = """
import covalent as ct
local = ct.executor.LocalJobLogExecutor()

@ct.electron(executor=local)
def train(rate):
    import os, time
    from tqdm import tqdm
    print(f"rate {rate}: starts", flush=True)
    for step in tqdm(range(4), desc=f"rate {rate}", ncols=70, mininterval=0):
        while not os.path.exists(f"{gates}/{step}"):
            time.sleep(0.02)
    print(f"rate {rate}: loss {1 / rate}", flush=True)

@ct.lattice
def flow():
    for rate in (0.5, 4.0):
        train(rate)

answer = ct.dispatch(flow)()
"""


def record(server: CovalentServer, folder: Path) -> list[str]:
    """The screen at both moments, and all that the terminal holds in the end."""
    terminal = Terminal(columns=100, lines=16)
    try:
        dispatch_id = server.client(_FLOW.replace("{gates}", str(folder)))
        argv = [sys.executable, "-c", _COMMAND, "logs", "-f", str(dispatch_id)]
        terminal.run(argv, server.env)
        moments = []
        for steps, state in (((0,), " 25%|"), ((1, 2), " 75%|")):
            for step in steps:
                (folder / str(step)).touch()
            moments.append("\n".join(terminal.shows(_two(state), f"both bars at{state}")))
        (folder / "3").touch()
        terminal.ended()
        return [*moments, terminal.everything()]
    finally:
        terminal.close()


def _two(state: str) -> Callable[[str], bool]:
    return lambda screen: screen.count(state) == 2


def main(arguments: list[str]) -> None:
    """Record, and write what was recorded."""
    with tempfile.TemporaryDirectory(prefix="joblog-recording-") as folder:
        server = CovalentServer(Path(folder) / "server").start()
        try:
            names = ("moment-1.txt", "moment-2.txt", "end.txt")
            for name, screen in zip(names, record(server, Path(folder)), strict=True):
                print(f"--- {name}\n{screen}")
                if arguments:
                    (Path(arguments[0]) / name).write_text(f"{screen}\n")
        finally:
            server.close()


if __name__ == "__main__":
    main(sys.argv[1:])
