# SPDX-License-Identifier: Apache-2.0
"""``joblog`` about Slurm jobs: why they wait, where they are, how to look by hand."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.cli.exits import Exit
from tests.cli.commands import joblog
from tests.executors.slurm_tasks import Tasks
from tests.rigs.covalent_server import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.slurm import SlurmRig

    Start = Callable[..., subprocess.Popen[bytes]]

BODY = "import time\nprint('on the cluster', flush=True)\nwhile True: time.sleep(0.1)"
HELD = "Slurm job {} is PENDING: it is held by its user: `scontrol release` lets it go (JobHeldUser)"


def value(command: str, dispatch_id: str) -> dict[str, Any]:
    return dict(json.loads(joblog(command, dispatch_id, "task", "-o", "json").stdout))


def by_hand(command: str) -> str:
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_job_from_held_to_cancelled(
    start: Start, covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    options = {"sbatch_options": {"hold": True, "time": "0:20:00"}, "state_interval": 1}
    tasks = Tasks(covalent_server, slurm_rig, tmp_path / "two words", BODY, **options)
    eventually(lambda: "JobHeldUser" in value("ps", tasks.id)["why"], 60, "the reason why it waits")
    waits = value("ps", tasks.id)
    number = waits["job"].split()[2]
    assert (waits["why"], waits["limit"]) == (HELD.format(number), "0:20:00")
    follower = start("logs", tasks.id, "task", "-f")
    assert follower.stderr is not None
    assert follower.stderr.readline().decode() == f"node 0 (task): {HELD.format(number)}\n"

    slurm_rig.slurm("scontrol", "release", number)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"on the cluster\n"
    eventually(lambda: " via " in value("where", tasks.id)["host"], 60, "the node it runs on")
    there = value("where", tasks.id)
    assert value("ps", tasks.id)["why"] == ""
    assert there["folder"] == str(tasks.folder())
    assert f"JobId={number}" in by_hand(there["commands"]["its state"])
    assert "x000" in by_hand(there["commands"]["its folder"])
    # What is followed for ever would have to be ended: the same words show what is there.
    assert by_hand(there["commands"]["follow stdout"].replace("tail -F", "tail -n1")) == "on the cluster\n"

    by_hand(there["commands"]["end it"])
    assert tasks.finished() == "FAILED"
    rest, said = follower.communicate(timeout=60)
    assert (rest, follower.returncode) == (b"", Exit.FAILED)
    assert b"node 0 (task) FAILED: " in said
    assert f"Slurm job {number}".encode() in said
