# SPDX-License-Identifier: Apache-2.0
"""The rig itself: what the other tests lean on."""

from pathlib import Path

import pytest

from tests.rigs.daemons import alive, until
from tests.rigs.slurm import SlurmRig

pytestmark = pytest.mark.slurm


def test_a_second_rig_lives_beside_the_first_and_leaves_nothing(slurm_rig, tmp_path):
    second = SlurmRig(tmp_path / "second").start()
    job = int(second.slurm("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "trap '' TERM; sleep 100"))
    until(lambda: second.jobs()[job] == "RUNNING", "the job runs")
    daemons = {name: second.daemons.pid(name) for name in ("munged", "slurmctld", "slurmd", "sshd")}
    assert all(daemons.values())
    steps = second._steps()
    assert steps
    second.stop()
    assert not any(alive(pid) for pid in [*daemons.values(), *steps])
    assert not (tmp_path / "second").exists()
    assert slurm_rig.slurm("scontrol", "ping")


def test_the_controller_forgets_no_job_when_it_is_stopped(slurm_rig):
    job = int(slurm_rig.slurm("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "sleep 1000"))
    slurm_rig.stop_slurmctld()
    with pytest.raises(RuntimeError, match="squeue"):
        slurm_rig.jobs()
    slurm_rig.start_slurmctld()
    assert slurm_rig.jobs()[job] in ("RUNNING", "PENDING")
    slurm_rig.slurm("scancel", str(job))
    until(lambda: slurm_rig.jobs()[job] == "CANCELLED", "it is cancelled")


def test_a_missing_program_is_named_with_the_command_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setattr("shutil.which", lambda name, **_: None if name == "slurmd" else f"/usr/bin/{name}")
    with pytest.raises(RuntimeError, match="needs slurmd: apt-get install"):
        SlurmRig(Path(tmp_path / "none")).start()
