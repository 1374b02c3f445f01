# SPDX-License-Identifier: Apache-2.0
"""Output of jobs of a real Slurm, read straight from their folders."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from covalent_joblog_plugin.cluster.slurm_reader import SlurmReader
from covalent_joblog_plugin.model.errors import OutputGone, OutputNotFound, OutputNotYet, OutputUnsupported
from tests.cluster.slurm_jobs import WAIT, submitted
from tests.rigs.daemons import until

pytestmark = pytest.mark.slurm

NUMBERED = """
import os, sys
again = os.environ.get("SLURM_RESTART_COUNT", "0")
for n in range(1000):
    print(f"start {again} line {n}", flush=True)
    print(f"start {again} warning {n}", file=sys.stderr, flush=True)
"""


def lines(again, word):
    return b"".join(b"start %d %s %d\n" % (again, word, n) for n in range(1000))


async def whole(reader, **selection):
    return b"".join([piece async for piece in reader.output(**selection)])


async def begun(job):
    await asyncio.to_thread(until, lambda: bool(job.started), f"{job.name} runs", 30)


async def test_a_running_job_is_followed_to_its_end(cluster, tmp_path):
    job = await submitted(
        cluster, NUMBERED + WAIT.format(gate=str(tmp_path / "go")) + "print('bye')", tmp_path
    )
    reader = SlurmReader(cluster, job.handle())
    await begun(job)
    pieces = reader.output(follow=True)
    got = b""
    async for piece in pieces:
        got += piece
        if got == lines(0, b"line"):
            (tmp_path / "go").touch()
    assert got == lines(0, b"line") + b"bye\n"
    assert await whole(reader, stream="stderr", start=16) == lines(0, b"warning")[16:]


async def test_every_execution_of_a_requeued_job_is_read(slurm_rig, cluster, tmp_path):
    job = await submitted(cluster, NUMBERED + WAIT.format(gate=str(tmp_path / "go")), tmp_path)
    await begun(job)
    reader = SlurmReader(cluster, job.handle())
    first = asyncio.create_task(whole(reader, follow=True))
    await asyncio.to_thread(slurm_rig.requeue, job.job_id)
    assert await asyncio.wait_for(first, 60) == lines(0, b"line")
    (tmp_path / "go").touch()
    await asyncio.wait_for(cluster.ended(job), 120)
    assert await reader.executions() == [0, 1]
    assert await whole(reader) == lines(1, b"line")
    assert await whole(reader, execution=0) == lines(0, b"line")
    assert await whole(reader, execution=1, stream="stderr", follow=True) == lines(1, b"warning")


async def test_what_cannot_be_had_is_told_apart(cluster, tmp_path):
    job = await submitted(cluster, NUMBERED, tmp_path)
    reader = SlurmReader(cluster, job.handle())
    await asyncio.wait_for(cluster.ended(job), 60)
    assert (await reader.capabilities()).retained
    with pytest.raises(OutputNotFound, match="no execution 4: there is 0"):
        await whole(reader, execution=4)
    with pytest.raises(OutputNotFound, match="no rank 3 in execution 0"):
        await whole(reader, rank=3)
    with pytest.raises(OutputUnsupported, match="split_streams"):
        await whole(reader, stream="log")
    shutil.rmtree(Path(job.path))
    assert not (await reader.capabilities()).read
    with pytest.raises(OutputGone, match=r"is not in the queue, and its folder .* holds nothing"):
        await whole(reader)


async def test_a_pending_job_says_what_it_waits_for(cluster, tmp_path):
    held = await submitted(cluster, NUMBERED, tmp_path, sbatch_options=("--hold",))
    reader = SlurmReader(cluster, held.handle())
    try:
        with pytest.raises(OutputNotYet, match="PENDING, reason JobHeldUser: it has not begun"):
            await whole(reader)
        with pytest.raises(OutputNotYet, match="has not taken job"):
            await whole(SlurmReader(cluster, {**held.handle(), "id": None}))
    finally:
        await cluster.cancel(held.handle())
