# SPDX-License-Identifier: Apache-2.0
"""``joblog reconnect``: text of jobs that a killed server left behind is stored to its end."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

from tests.cli.left_jobs import joblog, left_behind, run
from tests.executors.dispatches import node, wait_for_text
from tests.executors.slurm_tasks import Tasks
from tests.executors.test_slurm_direct import UNTIL_GO
from tests.rigs.covalent_server import eventually
from tests.web.events import ask, path_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.slurm import SlurmRig

LATE_RANK = """
import os, time
rank = os.environ["SLURM_PROCID"]
if rank == "0":
    print("rank 0 begins", flush=True)
while not os.path.exists(f"{gate}/go"):
    time.sleep(0.02)
print(f"rank {rank} ends", flush=True)
"""


def test_the_text_is_completed_while_another_server_runs_and_again_after_an_interrupt(
    fresh_covalent_server: CovalentServer, tmp_path: Path
) -> None:
    server = fresh_covalent_server
    dispatch_id = left_behind(server, tmp_path)
    stored = server.results_dir / dispatch_id / "node_0" / "stdout.log"
    size = stored.stat().st_size
    server.start()
    before = server.stdout(dispatch_id, 0)
    first = joblog(server, "reconnect", dispatch_id)
    eventually(lambda: stored.stat().st_size > size + 1000, 60, "some of the missing text")
    _, err = run(server, "reconnect", dispatch_id)
    assert f"process {first.pid} writes it, a server or a joblog reconnect" in err
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=30)
    assert first.returncode == 130
    assert ask(server, path_of(dispatch_id))["state"] == "orphaned"
    second = joblog(server, "reconnect", "latest", "count")
    (tmp_path / "go").touch()
    _, told = second.communicate(timeout=60)
    assert second.returncode == 0, told
    assert b"the job has ended with a result: joblog result" in told
    text = run(server, "logs", "-o", "raw", dispatch_id, "0")[0]
    lines = text.splitlines(keepends=True)
    assert lines == [f"line {n} €\n".encode() for n in range(len(lines) - 1)] + [b"the end \xff\n"]
    assert text.startswith(before)
    seen = node(server, dispatch_id, 0)
    assert seen["stdout"].encode() == text.replace(b"\xff", b"?")
    assert seen["stderr"].splitlines() == [f"warning {n}" for n in range(len(lines) - 1)]
    assert seen["status"] == "RUNNING"
    # Complete, and yet Covalent will never end it.
    assert ask(server, path_of(dispatch_id))["state"] == "orphaned"
    _, err = run(server, "logs", "-f", dispatch_id, "0", status=6)
    assert "is RUNNING for ever" in err
    _, err = run(server, "reconnect", dispatch_id)
    assert "nothing to do" in err


def test_a_node_that_a_server_writes_is_left_to_it(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, UNTIL_GO)
    wait_for_text(covalent_server, tasks.id, 0, bool)
    _, err = run(covalent_server, "reconnect", tasks.id)
    assert f"process {covalent_server.pid} writes it" in err
    assert f"joblog logs {tasks.id} 0 -f" in err
    (tmp_path / "go").touch()
    tasks.completed()


def test_a_requeued_slurm_job_with_ranks_is_completed_with_its_seam(
    fresh_covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    server, before = fresh_covalent_server, set(slurm_rig.jobs())
    ranks = {"use_srun": True, "sbatch_options": {"ntasks": 2, "overcommit": True}}
    tasks = Tasks(server, slurm_rig, tmp_path, UNTIL_GO, **ranks)
    files = server.results_dir / tasks.id / "node_0" / "joblog" / "files"
    eventually(lambda: (files / "rank1.stderr").exists() and tasks.text(), 60, "both ranks")
    (job,) = set(slurm_rig.jobs()) - before
    server.kill()
    slurm_rig.requeue(job)
    again = tasks.folder() / "x001" / "rank1.stdout"
    eventually(lambda: again.exists() and again.stat().st_size, 90, "rank 1 of the second execution")
    reading = joblog(server, "reconnect", tasks.id)
    (tmp_path / "go").touch()
    _, told = reading.communicate(timeout=100)
    assert reading.returncode == 0, told
    for stream in ("stdout", "stderr"):
        whole = tasks.on_cluster(0, stream) + tasks.on_cluster(0, stream, execution=1)
        assert (files.parent.parent / f"{stream}.log").read_bytes() == whole
        whole = tasks.on_cluster(0, f"rank1.{stream}") + tasks.on_cluster(0, f"rank1.{stream}", execution=1)
        assert tasks.stored(f"rank1.{stream}") == whole
    seams = [(seam["file"], seam["seam"], seam["execution"]) for seam in tasks.seams()]
    assert ("stdout", "restart", 1) in seams
    assert ("rank1.stderr", "restart", 1) in seams


def test_a_limit_holds_and_the_job_is_waited_for_all_the_same(
    fresh_covalent_server: CovalentServer, tmp_path: Path
) -> None:
    server = fresh_covalent_server
    dispatch_id = left_behind(server, tmp_path, max_log_bytes=4000)
    reading = joblog(server, "reconnect", dispatch_id)
    node_folder = server.results_dir / dispatch_id / "node_0"
    eventually(lambda: (node_folder / "stdout.log").stat().st_size == 4000, 60, "the limit")
    (tmp_path / "go").touch()
    _, told = reading.communicate(timeout=60)
    assert reading.returncode == 0, told
    whole = run(server, "logs", "--direct", "-o", "raw", dispatch_id)[0]
    assert len(whole) > 4000
    assert (node_folder / "stdout.log").read_bytes() == whole[:4000]
    lines = (node_folder / "joblog" / "index.jsonl").read_text().splitlines()
    seams = [entry for entry in map(json.loads, lines) if "seam" in entry]
    assert ("stdout", "capped", 4000) in [(seam["file"], seam["seam"], seam["cursor"]) for seam in seams]
    out, _ = run(server, "result", dispatch_id, "--unpickle")
    assert "'lines'" in out.decode()


def test_text_that_is_not_the_jobs_own_is_never_added(
    fresh_covalent_server: CovalentServer, tmp_path: Path
) -> None:
    server = fresh_covalent_server
    dispatch_id = left_behind(server, tmp_path)
    (tmp_path / "go").touch()
    stored = server.results_dir / dispatch_id / "node_0" / "stdout.log"
    changed = stored.read_bytes()[:-6] + b"other\n"
    stored.write_bytes(changed)
    _, err = run(server, "reconnect", dispatch_id, status=1)
    assert "is not what was stored before byte" in err
    assert f"joblog logs {dispatch_id} 0 --direct" in err
    assert stored.read_bytes() == changed


def test_what_a_stopped_server_had_no_time_for_is_brought_and_marked(
    fresh_covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    server = fresh_covalent_server
    tasks = Tasks(server, slurm_rig, tmp_path, UNTIL_GO)
    wait_for_text(server, tasks.id, 0, lambda text: text.count(b"\n") > 20)
    server.stop()
    _, err = run(server, "reconnect", tasks.id)
    assert "the job failed: " in err
    folder = server.results_dir / tasks.id / "node_0"
    assert (folder / "stdout.log").read_bytes() == tasks.on_cluster()
    kinds = [seam["seam"] for seam in tasks.seams() if seam["file"] == "stdout"]
    assert kinds[0] == "interrupted"
    assert kinds[1:] in ([], ["resumed"])  # it may have been read to its end before


def test_a_job_that_waited_is_followed_from_its_beginning(
    fresh_covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    server, before = fresh_covalent_server, set(slurm_rig.jobs())
    body = "print('at last', flush=True)"
    tasks = Tasks(server, slurm_rig, tmp_path, body, sbatch_options={"hold": True})
    state = server.results_dir / tasks.id / "node_0" / "joblog" / "state.json"
    eventually(lambda: _job(state).get("id"), 60, "the job's id")
    (job,) = set(slurm_rig.jobs()) - before
    server.kill()
    waits = joblog(server, "reconnect", tasks.id)
    assert waits.stderr is not None
    told = waits.stderr.readline() + waits.stderr.readline()
    assert b"PENDING, reason JobHeldUser" in told
    slurm_rig.slurm("scontrol", "release", str(job))
    _, rest = waits.communicate(timeout=100)
    assert waits.returncode == 0, rest
    assert b"8 bytes of stdout" in rest
    assert tasks.on_cluster() == b"at last\n"
    assert (state.parent.parent / "stdout.log").read_bytes() == b"at last\n"


def _job(state: Path) -> dict[str, Any]:
    """The job's handle as it is stored; nothing before it is."""
    known = json.loads(state.read_text())["remembered"] if state.exists() else {}
    return dict(known.get("job", {}))


def test_a_rank_of_which_nothing_was_stored_is_brought_whole(
    fresh_covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    ranks = {"use_srun": True, "sbatch_options": {"ntasks": 2, "overcommit": True}}
    tasks = Tasks(fresh_covalent_server, slurm_rig, tmp_path, LATE_RANK, **ranks)
    wait_for_text(fresh_covalent_server, tasks.id, 0, bool)
    fresh_covalent_server.kill()
    (tmp_path / "go").touch()
    run(fresh_covalent_server, "reconnect", tasks.id)
    assert tasks.stored("rank1.stdout") == b"rank 1 ends\n"
    stored = fresh_covalent_server.results_dir / tasks.id / "node_0" / "stdout.log"
    assert stored.read_bytes() == b"rank 0 begins\nrank 0 ends\n"
