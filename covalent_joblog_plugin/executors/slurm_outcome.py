# SPDX-License-Identifier: Apache-2.0
"""The result of a Slurm job that has ended, or all that is known of why there is none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.cluster import slurm_wording
from covalent_joblog_plugin.model.errors import JobFailed
from covalent_joblog_plugin.payload import bundle, verdict
from covalent_joblog_plugin.payload.threads import in_thread
from covalent_joblog_plugin.payload.wording import error_text

if TYPE_CHECKING:
    from covalent_joblog_plugin.cluster.slurm import SlurmCluster
    from covalent_joblog_plugin.cluster.slurm_job import Job, JobEnd
    from covalent_joblog_plugin.payload.verdict import Verdict

TAIL_BYTES = 16 * 1024
LATE_FILES = 30.0
"""Seconds a file the job wrote before its end may take to become visible on the login node."""


async def result(cluster: SlurmCluster, job: Job, end: JobEnd, login: str) -> Any:
    """The function's value, not unpickled.

    Args:
        cluster: Where the job ran.
        job: The job.
        end: How it ended.
        login: How to reach the login node by hand, such as ``ssh cluster``.

    Raises:
        JobFailed: There is none; the text says all that is known.
        PayloadError: The result is damaged.
    """
    found = await _verdict(cluster, job, end)
    if found is None or found.kind != "ok" or not end.recorded or end.status:
        raise await _failure(cluster, job, end, found, login)
    archive = await cluster.fetch(f"{job.execution_folder(end.execution)}/result")
    if archive is None:
        raise await _failure(cluster, job, end, None, login)
    return await in_thread(bundle.load_result, archive, found)


async def _verdict(cluster: SlurmCluster, job: Job, end: JobEnd) -> Verdict | None:
    path = f"{job.execution_folder(end.execution)}/verdict"
    deadline = asyncio.get_running_loop().time() + LATE_FILES
    while (found := await cluster.fetch(path)) is None:
        # It was written before the record of the job's end; a network file system may show it later.
        expected = end.recorded and not end.status
        if not expected or asyncio.get_running_loop().time() > deadline:
            return None
        await asyncio.sleep(1)
    return verdict.parse(found)


async def _failure(
    cluster: SlurmCluster, job: Job, end: JobEnd, found: Verdict | None, login: str
) -> JobFailed:
    own = ""
    stderr = await cluster.tail(f"{job.execution_folder(end.execution)}/stderr", TAIL_BYTES)
    if found is not None or end.recorded:
        status = end.status.code or -end.status.signal if end.status else 0
        own = ("" if found else slurm_wording.script_end(end, stderr)) or error_text(found, status, stderr)
    slurm_log = await cluster.tail(f"{job.path}/slurm.log", TAIL_BYTES)
    text = slurm_wording.failure(job, end, own, slurm_log, login)
    return verdict.CannotBegin(text) if found and found.before_user_code else JobFailed(text)
