# SPDX-License-Identifier: Apache-2.0
"""Small jobs for the tests of the cluster: the "runner" is the test's own Python."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.cluster.job_script import ScriptSpec
from covalent_joblog_plugin.cluster.slurm_job import Job, JobSpec

if TYPE_CHECKING:
    from covalent_joblog_plugin.cluster.slurm import SlurmCluster

WAIT = "\nimport os, time\nwhile not os.path.exists({gate!r}): time.sleep(0.02)\n"


def spec(code: str, workdir: object, *, label: str = "test", **more: Any) -> JobSpec:
    """A job that runs ``code``; further fields go to the script or to the job, wherever they belong."""
    script = {name: more.pop(name) for name in list(more) if name in ScriptSpec.__dataclass_fields__}
    script.setdefault("python", (sys.executable,))
    return JobSpec(
        label=label,
        workdir=str(workdir),
        folder=("dispatch", "0"),
        files={"runner.py": code.encode(), "bundle": b"bundle"},
        script=ScriptSpec(**script),
        **more,
    )


async def submitted(cluster: SlurmCluster, code: str, workdir: object, **more: Any) -> Job:
    """Submit a job that runs ``code``."""
    job = cluster.prepare(spec(code, workdir, **more))
    await cluster.submit(job)
    return job
