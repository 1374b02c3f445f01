# SPDX-License-Identifier: Apache-2.0
"""Output and result of Slurm tasks straight from the cluster, with no Covalent server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from covalent_joblog_plugin import JobLogExecutor, SlurmJobLogExecutor, open_output
from covalent_joblog_plugin.executors import direct
from covalent_joblog_plugin.model.capabilities import Answer
from covalent_joblog_plugin.model.errors import (
    JobFailed,
    OptionError,
    OutputGone,
    OutputNotFound,
    OutputNotYet,
    OutputUnsupported,
)
from tests.executors.dispatches import wait_for_text
from tests.executors.slurm_tasks import Tasks, options
from tests.rigs.covalent_server import eventually

if TYPE_CHECKING:
    from pathlib import Path

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


class Plain(JobLogExecutor):
    """An author's executor without ``open_output``."""

    async def run(self, *_: Any) -> None:
        """Not called here."""


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


async def test_executions_are_listed_in_restart_order_and_what_is_not_there_is_told_apart(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    before = set(slurm_rig.jobs())
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, UNTIL_GO)
    wait_for_text(covalent_server, tasks.id, 0, lambda text: text.count(b"\n") > 5)
    (job,) = set(slurm_rig.jobs()) - before
    slurm_rig.requeue(job)
    wait_for_text(covalent_server, tasks.id, 0, lambda text: text.count(b"line 0\n") == 2)
    (tmp_path / "go").touch()
    tasks.completed()
    reader = open_output(SlurmJobLogExecutor(**options(slurm_rig, tmp_path)), handle(tasks))
    try:
        found = await reader.capabilities()
        assert all((found.read, found.follow, found.retained, found.split_streams))
        assert await reader.executions() == [0, 1]
        assert await whole(reader) == tasks.on_cluster(execution=1)
        assert await whole(reader, execution=0, start=7) == tasks.on_cluster()[7:]
        assert await whole(reader, execution=0, stream="stderr") == tasks.on_cluster(stream="stderr")
        with pytest.raises(OutputNotFound, match="no execution 2: there is 0, 1"):
            await whole(reader, execution=2)
        with pytest.raises(OutputNotFound, match="no rank 1 in execution 1"):
            await whole(reader, rank=1)
        with pytest.raises(OutputUnsupported, match="ask for stdout or stderr"):
            await whole(reader, stream="log")
    finally:
        await reader.close()


async def test_a_job_that_waits_and_one_that_is_gone_are_told_before_any_read(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    executor = SlurmJobLogExecutor(**options(slurm_rig, tmp_path))
    held = Tasks(covalent_server, slurm_rig, tmp_path, "print('late')", sbatch_options={"hold": True})
    known = eventually(lambda: _submitted(held), 60, "the job's id")
    reader = open_output(executor, known)
    with pytest.raises(OutputNotYet, match="is PENDING, reason JobHeldUser"):
        await whole(reader)
    assert (await reader.capabilities()).read
    await reader.close()
    slurm_rig.slurm("scontrol", "release", str(known["id"]))
    held.completed()
    gone = open_output(executor, {**known, "dir": str(tmp_path / "removed")})
    found = await gone.capabilities()
    assert found.read.answer is Answer.NO
    assert "it was removed" in found.read.reason
    await gone.close()


def _submitted(tasks: Tasks) -> dict[str, Any] | None:
    try:
        known = handle(tasks)
    except (FileNotFoundError, KeyError):
        return None
    return known if known["id"] is not None else None


def test_what_cannot_be_opened_is_refused_with_the_reason() -> None:
    slurm = SlurmJobLogExecutor(host="cluster")
    with pytest.raises(OutputNotFound, match=r"\{'pid': 1\} is no handle of a job of SlurmJobLogExecutor"):
        open_output(slurm, {"pid": 1})
    with pytest.raises(OutputNotFound, match="None is no handle"):
        open_output(slurm, None)
    with pytest.raises(OptionError, match="host='' must be the login node"):
        open_output(SlurmJobLogExecutor(), {})
    with pytest.raises(OutputUnsupported, match="Plain cannot read straight from its cluster"):
        open_output(Plain(), {})
    with pytest.raises(OutputUnsupported, match="object is no JobLogExecutor"):
        open_output(object(), {})  # type: ignore[arg-type]


def test_what_is_kept_of_an_executor_leads_back_to_its_cluster_and_holds_no_environment() -> None:
    executor = SlurmJobLogExecutor(
        host="cluster", known_hosts=None, environment={"TOKEN": "secret"}, port=2222
    )
    known = json.loads(json.dumps(direct.kept(executor)))
    assert "secret" not in json.dumps(known)
    again = direct.restored(known)
    assert isinstance(again, SlurmJobLogExecutor)
    assert again.endpoint_key() == executor.endpoint_key()
    with pytest.raises(OutputUnsupported, match="an executor 'gone', which is not installed here"):
        direct.restored({"name": "gone", "options": {}})
