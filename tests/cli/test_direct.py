# SPDX-License-Identifier: Apache-2.0
"""``joblog logs --direct``: a job's output while no Covalent server runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.left_jobs import begun, joblog, left_behind, run
from tests.executors.dispatches import cancel, wait_for_text
from tests.executors.slurm_tasks import Tasks
from tests.executors.test_slurm_direct import UNTIL_GO
from tests.rigs.covalent_server import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.slurm import SlurmRig


def test_a_local_task_of_a_killed_server_is_followed_to_its_end(
    fresh_covalent_server: CovalentServer, tmp_path: Path
) -> None:
    server = fresh_covalent_server
    dispatch_id = left_behind(server, tmp_path)
    follower = joblog(server, "logs", "--direct", "-f", "-o", "raw", dispatch_id, "0")
    assert follower.stdout is not None
    first = follower.stdout.readline()
    (tmp_path / "go").touch()
    rest, _ = follower.communicate(timeout=60)
    assert follower.returncode == 0
    lines = (first + rest).splitlines(keepends=True)
    assert lines[-1] == b"the end \xff\n"
    assert lines[:-1] == [f"line {n} €\n".encode() for n in range(len(lines) - 1)]
    again, _ = run(server, "logs", "--direct", "-o", "raw", dispatch_id, "count")
    assert again == first + rest
    tail, _ = run(server, "logs", "--direct", "-n", "2", "--stream", "stderr", dispatch_id)
    count = len(lines) - 1
    assert tail.decode() == f"warning {count - 2}\nwarning {count - 1}\n"
    found, err = run(server, "logs", "--direct", "-q", "line 7 ", dispatch_id)
    assert found.decode() == "line 7 €\n"
    assert f"query leaves out {count} lines" in err


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--rank", "3"], "a local task has one execution, 0, and one rank, 0"),
        (["--stream", "log"], "a local task's streams are apart"),
        (["--since", "1h"], "since: with --direct the cluster does not know when lines arrived"),
        (["--rank", "all"], "rank: with --direct one at a time"),
    ],
)
def test_what_cannot_be_had_directly_is_said(
    covalent_server: CovalentServer, tmp_path: Path, argv: list[str], told: str
) -> None:
    dispatch_id = begun(covalent_server, tmp_path)
    wait_for_text(covalent_server, dispatch_id, 0, bool)
    status = 2 if told.startswith(("since", "rank")) else 3
    _, err = run(covalent_server, "logs", "--direct", *argv, dispatch_id, status=status)
    assert told in err
    cancel(covalent_server, dispatch_id)
    covalent_server.finished(dispatch_id)
    _, err = run(covalent_server, "logs", "--direct", dispatch_id, status=3)
    assert "read the node's stored output" in err


def test_a_requeued_slurm_job_is_read_execution_after_execution(
    fresh_covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    server, before = fresh_covalent_server, set(slurm_rig.jobs())
    body = f"import os\nprint('start', os.environ.get('SLURM_RESTART_COUNT', '0'))\n{UNTIL_GO}"
    tasks = Tasks(server, slurm_rig, tmp_path, body)
    wait_for_text(server, tasks.id, 0, lambda text: text.count(b"\n") > 20)
    (job,) = set(slurm_rig.jobs()) - before
    server.kill()
    slurm_rig.requeue(job)
    eventually(lambda: _has_text(tasks.folder() / "x001" / "stdout"), 90, "the second execution")
    follower = joblog(server, "logs", "--direct", "-f", "-o", "raw", tasks.id, "task")
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"start 0\n"
    (tmp_path / "go").touch()
    rest, err = follower.communicate(timeout=90)
    assert follower.returncode == 0, err
    assert b"start 0\n" + rest == tasks.on_cluster() + tasks.on_cluster(execution=1)
    assert b"[joblog: execution 1 of the job]" in err
    one, _ = run(server, "logs", "--direct", "--execution", "0", "-o", "raw", tasks.id)
    assert one == tasks.on_cluster()
    _, err = run(server, "logs", "--direct", "--execution", "4", tasks.id, status=3)
    assert "has no execution 4: there is 0, 1" in err


def _has_text(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0
