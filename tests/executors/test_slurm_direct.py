# SPDX-License-Identifier: Apache-2.0
"""Output and result of Slurm tasks straight from the cluster, with no Covalent server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from covalent_joblog_plugin import LocalJobLogExecutor, SlurmJobLogExecutor
from covalent_joblog_plugin.model.errors import JobFailed, OutputGone, OutputUnsupported
from tests.executors.dispatches import wait_for_text
from tests.executors.slurm_tasks import Tasks, options

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.slurm import SlurmRig

UNTIL_GO = """
import os, sys, time
rank = os.environ["SLURM_PROCID"]
n = 0
while not os.path.exists(f"{gate}/go"):
    print(f"rank {rank} line {n}", flush=True)
    print(f"rank {rank} warning {n}", file=sys.stderr, flush=True)
    n += 1
    time.sleep(0.02)
"""


def handle(tasks: Tasks) -> dict[str, Any]:
    folder = tasks.server.results_dir / tasks.id / f"node_{tasks.nodes[0]}"
    return dict(json.loads((folder / "joblog" / "state.json").read_text())["remembered"]["job"])


async def whole(reader: Any, **selection: Any) -> bytes:
    return b"".join([piece async for piece in reader.output(**selection)])


async def test_a_job_outlives_the_server_and_its_ranks_and_result_are_read(
    fresh_covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    server = fresh_covalent_server
    ranks = {"use_srun": True, "sbatch_options": {"ntasks": 2, "overcommit": True}}
    tasks = Tasks(server, slurm_rig, tmp_path, UNTIL_GO, **ranks)
    wait_for_text(server, tasks.id, 0, lambda text: text.count(b"\n") > 20)
    server.kill()
    reader = SlurmJobLogExecutor(**options(slurm_rig, tmp_path)).open_output(handle(tasks))
    try:
        (tmp_path / "go").touch()
        followed = await whole(reader, follow=True)
        value = await reader.result()
        assert value.get_deserialized() == "result"
        assert followed == tasks.on_cluster()
        assert followed.startswith(b"rank 0 line 0\n")
        for stream in ("stdout", "stderr"):
            name = tasks.folder() / "x000" / f"rank1.{stream}"
            assert await whole(reader, rank=1, stream=stream) == name.read_bytes()
            assert name.read_bytes().startswith(b"rank 1 ")
    finally:
        await reader.close()


async def test_a_failed_job_says_why_and_a_removed_one_that_it_is_gone(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    executor = SlurmJobLogExecutor(**options(slurm_rig, tmp_path))
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, "raise ValueError('no luck')")
    assert tasks.finished() == "FAILED"
    failed = executor.open_output(handle(tasks))
    with pytest.raises(JobFailed, match="ValueError: no luck"):
        await failed.result()
    await failed.close()
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, "print('gone')", cleanup="always")
    tasks.completed()
    removed = executor.open_output(handle(tasks))
    with pytest.raises(OutputGone, match="read the node's stored output"):
        await whole(removed)
    await removed.close()


def test_a_local_task_has_no_cluster_to_read_from() -> None:
    with pytest.raises(OutputUnsupported, match="LocalJobLogExecutor cannot read straight from its cluster"):
        LocalJobLogExecutor().open_output({})
