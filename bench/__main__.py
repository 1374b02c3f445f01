# SPDX-License-Identifier: Apache-2.0
"""Measure and print: python -m bench [--json FILE] [local] [slurm] [kubeflow] [reading] [import]."""

from __future__ import annotations

import argparse
import contextlib
import getpass
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.rigs.covalent_server import CovalentServer
from tests.rigs.slurm import SlurmRig

from . import completeness, import_cost, kubeflow, latency, long_output
from .figures import Figure, save, table

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUPS = ("local", "slurm", "kubeflow", "reading", "import")


def _local(stack: contextlib.ExitStack, folder: Path) -> list[Figure]:
    server = CovalentServer(folder / "for-local")
    stack.callback(server.close)
    server.start()
    options = {"workdir": str(folder / "work")}
    return [*completeness.measure(server, "joblog_local", options), *latency.measure_local(server)]


def _slurm(stack: contextlib.ExitStack, folder: Path) -> list[Figure]:
    rig = SlurmRig(folder / "slurm").start()
    stack.callback(rig.stop)
    server = CovalentServer(folder / "for-slurm")
    stack.callback(server.close)
    server.start()
    options = {
        "host": "127.0.0.1",
        "port": rig.ssh_port,
        "username": getpass.getuser(),
        "client_keys": [str(rig.client_key)],
        "known_hosts": str(rig.known_hosts),
        "workdir": str(folder / "jobs"),
        "python": sys.executable,
        # The folder of a job stays, so that its file can be read by the peers to the end.
        "cleanup": "never",
    }
    return [
        *completeness.measure(server, "joblog_slurm", options),
        *latency.measure_slurm(server, rig, options),
    ]


def _reading(stack: contextlib.ExitStack, folder: Path) -> list[Figure]:
    server = CovalentServer(folder / "for-reading")
    stack.callback(server.close)
    server.start()
    return long_output.measure(server, folder)


def measure(groups: Sequence[str]) -> list[Figure]:
    """All figures of the named groups."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="joblog-bench-") as name, contextlib.ExitStack() as stack:
        if "local" in groups:
            figures += _local(stack, Path(name))
        if "slurm" in groups:
            figures += _slurm(stack, Path(name))
        if "kubeflow" in groups:
            figures += kubeflow.measure(stack, Path(name))
        if "reading" in groups:
            figures += _reading(stack, Path(name))
    if "import" in groups:
        figures += import_cost.measure()
    return figures


def main() -> None:
    """Print the table; write the JSON."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("groups", nargs="*", default=[], metavar="GROUP", help=f"of {', '.join(GROUPS)}")
    parser.add_argument(
        "--json", type=Path, default=Path("build/bench.json"), help="where to write the figures"
    )
    chosen = parser.parse_args()
    if unknown := set(chosen.groups) - set(GROUPS):
        parser.error(f"no group {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    figures = measure(chosen.groups or GROUPS)
    print(table(figures))
    save(figures, chosen.json)
    print(f"\nas JSON: {chosen.json}", file=sys.stderr)


if __name__ == "__main__":
    main()
