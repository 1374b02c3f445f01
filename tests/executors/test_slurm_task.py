# SPDX-License-Identifier: Apache-2.0
"""What a failing Slurm job leaves on its node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.executors.dispatches import node
from tests.executors.slurm_tasks import Tasks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.slurm import SlurmRig


def test_a_failing_job_keeps_its_text_and_says_all_that_is_known(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, "print('before'); raise ValueError('too bad')")
    assert tasks.finished() == "FAILED"
    seen = node(covalent_server, tasks.id, 0)
    assert seen["status"] == "FAILED"
    assert seen["stdout"] == "before\n"
    assert "ValueError: too bad" in seen["stderr"]
    folder = str(tmp_path / tasks.id)
    for part in ("ValueError: too bad", "Slurm job ", "FAILED", "exit code 1", folder, "ssh -p"):
        assert part in seen["error"]


def test_a_job_at_its_time_limit_keeps_its_text_and_the_reason(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    """Slurm ends it up to a minute late; its own words are in its log, which is kept beside the node."""
    body = "import time\nprint('step 1', flush=True)\ntime.sleep(600)"
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, body, sbatch_options={"time": "0:01"})
    assert tasks.finished(timeout=200) == "FAILED"
    seen = node(covalent_server, tasks.id, 0)
    assert seen["stdout"] == "step 1\n"
    assert "TIMEOUT" in seen["error"]
    assert "time" in seen["error"]
    assert b"DUE TO TIME LIMIT" in tasks.stored("slurm.log")
