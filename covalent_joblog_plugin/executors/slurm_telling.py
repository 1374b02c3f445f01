# SPDX-License-Identifier: Apache-2.0
"""What a reader of a node should know of its Slurm job: why it waits, and where it runs."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from covalent_joblog_plugin.cluster.slurm_wording import waiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from covalent_joblog_plugin.cluster.slurm import SlurmCluster
    from covalent_joblog_plugin.cluster.slurm_job import Job
    from covalent_joblog_plugin.store.node_output import NodeOutput

log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
"""Between two looks at what is known already; Slurm is not asked for it."""


@asynccontextmanager
async def telling(cluster: SlurmCluster, job: Job, output: NodeOutput | None) -> AsyncIterator[None]:
    """Keep it with the node; in the end a job waits no more."""
    task = asyncio.create_task(_tell(cluster, job, output), name="joblog why it waits")
    try:
        yield
    finally:
        task.cancel()
    await _keep(job, output, "")


async def _tell(cluster: SlurmCluster, job: Job, output: NodeOutput | None) -> None:
    told = ("", "")
    while True:
        known = (cluster.trouble or waiting(job), _host(job))
        if known != told:
            told = known
            log.info("%s: %s", job.name, known[0] or f"it runs on {known[1] or 'its node'}")
            await _keep(job, output, known[0])
        await asyncio.sleep(_LOOK_SECONDS)


async def _keep(job: Job, output: NodeOutput | None, note: str) -> None:
    if output is not None:
        await output.remember({"note": note, "job": {**job.handle(), "host": _host(job)}})


def _host(job: Job) -> str:
    return job.started.get(job.execution, {}).get("host", "")
