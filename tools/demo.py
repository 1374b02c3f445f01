# SPDX-License-Identifier: Apache-2.0
"""Run an example on servers of its own and show its output as it grows: python -m tools.demo [--slurm]."""

from __future__ import annotations

import contextlib
import getpass
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.rigs.covalent_server import CovalentServer
from tests.rigs.slurm import SlurmRig

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = Path(__file__).parent.parent / "examples"
FOLDER = Path(__file__).parent.parent / ".demo"


def say(text: str) -> None:
    """Tell what the demo does, apart from what the tasks print."""
    print(f"# {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def covalent() -> Iterator[CovalentServer]:
    """A Covalent server on a free port, with everything it writes below ``.demo``."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    say("starting a Covalent server of our own; yours, if there is one, is left alone")
    server = CovalentServer(FOLDER)
    try:
        server.start()
        say(f"it answers at {server.url}")
        yield server
    finally:
        server.close()
        say("that server is stopped")


@contextlib.contextmanager
def slurm() -> Iterator[list[str]]:
    """A Slurm of our own, as options of the workflow."""
    with tempfile.TemporaryDirectory(prefix="joblog-demo-") as folder:
        say("starting a Slurm of our own, with an ssh server as its login node")
        rig = SlurmRig(Path(folder) / "slurm").start()
        try:
            options = {
                "--host": "127.0.0.1",
                "--port": str(rig.ssh_port),
                "--username": getpass.getuser(),
                "--key": str(rig.client_key),
                "--known-hosts": str(rig.known_hosts),
                "--workdir": f"{folder}/jobs",
                "--python": sys.executable,
            }
            yield [word for option in options.items() for word in option]
        finally:
            rig.stop()
            say("that Slurm is stopped")


def show(server: CovalentServer, workflow: str, options: list[str]) -> int:
    """Dispatch a workflow and follow it to its end; the exit status of following it."""
    script = EXAMPLES / workflow
    say(f"python examples/{workflow} {' '.join(options)}")
    dispatched = subprocess.run(
        [sys.executable, str(script), *options], env=server.env, stdout=subprocess.PIPE, text=True, check=True
    )
    dispatch_id = dispatched.stdout.split()[-1]
    say(f"joblog logs --follow {dispatch_id}")
    following = [str(Path(sys.executable).with_name("joblog")), "logs", "--follow", dispatch_id]
    status = subprocess.run(following, env=server.env, check=False).returncode
    say(f"the output stays in {server.results_dir / dispatch_id}, until the next demo")
    return status


def main(arguments: list[str]) -> int:
    """Run the local example, or with ``--slurm`` the Slurm one; the exit status."""
    with contextlib.ExitStack() as stack:
        if arguments == ["--slurm"]:
            workflow, options = "01-slurm/workflow.py", stack.enter_context(slurm())
        elif not arguments:
            workflow, options = "00-local/workflow.py", []
        else:
            say("use: python -m tools.demo [--slurm]")
            return 2
        return show(stack.enter_context(covalent()), workflow, options)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
