# SPDX-License-Identifier: Apache-2.0
"""Start or stop the rig for work by hand: python -m tests.rigs.kubeflow up|down|build."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import yaml

from .errors import RigError
from .rig import KubeflowRig, prepare

EXAMPLE = Path(__file__).parents[3] / "examples" / "02-kubeflow"
BY_HAND = Path(tempfile.gettempdir()) / "joblog-rig-kubeflow"
USE = "python -m tests.rigs.kubeflow"


def up() -> None:
    """Start it and say how to reach it."""
    if BY_HAND.exists():
        raise RigError(f"{BY_HAND} is there already; end it with: {USE} down")
    prepare()
    began = time.monotonic()
    rig = KubeflowRig(BY_HAND).start()
    runtime = yaml.safe_load((EXAMPLE / "runtime.yaml").read_text())
    rig.apply({**runtime, "metadata": {**runtime["metadata"], "namespace": "default"}})
    given = f"--kubeconfig {rig.kubeconfig} --namespace default --image {rig.image}"
    print(
        f"# up in {time.monotonic() - began:.1f} s; down: make rig-kubeflow-down, or {USE} down\n"
        f"export KUBECONFIG={rig.kubeconfig}\n"
        f"# Trainer {rig.trainer}; image {rig.image}; log files of pods below {rig.folder}/pods\n"
        f"# the example, with a Covalent server running: python {EXAMPLE / 'workflow.py'} {given}"
    )


def main(argv: list[str]) -> int:
    """Do what the command line says."""
    commands = {"up": up, "down": lambda: KubeflowRig(BY_HAND).stop(), "build": prepare}
    if len(argv) != 1 or argv[0] not in commands:
        sys.stderr.write(f"use: {USE} {'|'.join(commands)}\n")
        return 2
    try:
        commands[argv[0]]()
    except RigError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
