# SPDX-License-Identifier: Apache-2.0
"""Following jobs of a real Slurm to their end."""

from __future__ import annotations

import asyncio
import subprocess
import time
from pathlib import Path

import pytest

from covalent_joblog_plugin.cluster.slurm_states import ExitStatus
from covalent_joblog_plugin.model.errors import SubmissionError
from tests.cluster.slurm_jobs import WAIT, submitted
from tests.rigs.daemons import until

pytestmark = pytest.mark.slurm


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())


def text(job, name="stdout", execution=0):
    return (Path(job.path) / f"x{execution:03d}" / name).read_text()


async def gone(cluster, job):
    """Until the job has left the queue."""
    while not await asyncio.wait_for(cluster.left_queue(job), 20):
        pass


async def begun(job, name="stdout", execution=0):
    await asyncio.to_thread(until, lambda: bool(text(job, name, execution)), f"{job.name} has begun", 30)


@pytest.mark.parametrize(
    ("code", "state", "status"),
    [
        ("", "COMPLETED", ExitStatus(0)),
        ("import sys; sys.exit(3)", "FAILED", ExitStatus(3)),
        ("raise ValueError", "FAILED", ExitStatus(1)),
        ("import os; os._exit(200)", "FAILED", ExitStatus(200)),
        ("import os; os.kill(os.getpid(), 9)", "FAILED", ExitStatus(signal=9)),
        ("import ctypes; ctypes.string_at(0)", "FAILED", ExitStatus(signal=11)),
    ],
)
async def test_the_end_of_a_job_says_how_its_process_ended(cluster, tmp_path, code, state, status):
    job = await submitted(cluster, code, tmp_path)
    end = await asyncio.wait_for(cluster.ended(job), 30)
    assert (end.state, end.status, end.recorded, end.execution) == (state, status, True, 0)
    assert end.host
    await gone(cluster, job)


async def test_a_job_whose_batch_shell_is_killed_ends_without_a_record(cluster, tmp_path):
    job = await submitted(cluster, "import os; os.kill(os.getppid(), 9)", tmp_path)
    end = await asyncio.wait_for(cluster.ended(job), 30)
    assert (end.state, end.status, end.recorded) == ("FAILED", ExitStatus(signal=9), False)


async def test_a_job_that_ended_well_is_known_to_have_within_a_moment(cluster, tmp_path):
    late = []
    for n in range(3):
        job = await submitted(cluster, WAIT.format(gate=str(tmp_path / str(n))), tmp_path)
        await asyncio.to_thread(until, lambda job=job: bool(job.started), "it runs")
        (tmp_path / str(n)).touch()
        began = time.monotonic()
        await cluster.ended(job)
        await gone(cluster, job)
        late.append(time.monotonic() - began)
    assert sorted(late)[1] < 2.5


async def test_a_requeued_job_goes_on_as_the_next_execution(slurm_rig, cluster, tmp_path):
    code = "import os; print('n', os.environ.get('SLURM_RESTART_COUNT'))" + WAIT.format(
        gate=str(tmp_path / "go")
    )
    job = await submitted(cluster, code, tmp_path)
    ending = asyncio.create_task(cluster.ended(job))
    await begun(job)
    await asyncio.to_thread(slurm_rig.requeue, job.job_id)
    await asyncio.to_thread(until, lambda: job.execution == 1 and 1 in job.started, "the second one runs", 40)
    assert not ending.done()
    (tmp_path / "go").touch()
    end = await asyncio.wait_for(ending, 30)
    assert (end.state, end.execution, end.recorded) == ("COMPLETED", 1, True)
    await begun(job, execution=1)
    assert (text(job), text(job, execution=1)) == ("n None\n", "n 1\n")
    paths = [file.path for file in job.output_files()]
    assert [f"{job.path}/x001/stdout" in paths, f"{job.path}/x000/stderr" in paths] == [True, True]


async def test_a_pending_job_is_cancelled_by_its_handle_and_never_starts(cluster, tmp_path):
    job = await submitted(cluster, "print('ran')", tmp_path, sbatch_options=("--begin=now+1hour",))
    began = time.monotonic()
    await cluster.cancel(job.handle())
    end = await asyncio.wait_for(cluster.ended(job), 10)
    assert (end.state, end.recorded, text(job)) == ("CANCELLED", False, "")
    assert time.monotonic() - began < 3


async def test_a_job_is_cancelled_by_its_name_where_its_id_is_not_known(slurm_rig, cluster, tmp_path):
    job = await submitted(cluster, "import time; time.sleep(1000)", tmp_path)
    other = await submitted(cluster, "import time; time.sleep(1000)", tmp_path)
    await cluster.cancel({**job.handle(), "id": None})
    assert (await asyncio.wait_for(cluster.ended(job), 20)).state == "CANCELLED"
    assert slurm_rig.jobs()[other.job_id] in ("PENDING", "RUNNING")
    await cluster.cancel(other.handle())


async def test_a_job_that_traps_sigterm_is_read_to_its_last_word(cluster, tmp_path):
    code = """
import signal, time, sys
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
print("ready")
while not stop: time.sleep(0.02)
for n in range(10):
    print("last words", n)
    time.sleep(0.1)
sys.exit(5)
"""
    job = await submitted(cluster, code, tmp_path)
    await begun(job)
    await cluster.cancel(job.handle())
    end = await asyncio.wait_for(cluster.ended(job), 30)
    assert (end.state, end.status) == ("CANCELLED", ExitStatus(5))
    await gone(cluster, job)
    assert text(job).endswith("last words 9\n")


async def test_a_job_that_ignores_sigterm_is_killed_by_slurm_and_called_cancelled(cluster, tmp_path):
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up')\nwhile 1: time.sleep(1)"
    job = await submitted(cluster, code, tmp_path)
    await begun(job)
    await cluster.cancel(job.handle())
    end = await asyncio.wait_for(cluster.ended(job), 60)
    assert end.state == "CANCELLED"
    await gone(cluster, job)


async def test_a_cancel_is_tried_again_while_the_login_node_can_start_nothing(
    make_cluster, slurm_rig, tmp_path
):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "scancel").write_bytes(b"\x7fELF, but not really")
    (tools / "scancel").chmod(0o755)
    cluster = make_cluster(slurm_path=str(tools))
    job = await submitted(cluster, "", tmp_path, sbatch_options=("--begin=now+1hour",))
    cancelling = asyncio.create_task(cluster.cancel(job.handle()))
    done, _ = await asyncio.wait([cancelling], timeout=2)
    assert not done
    (tools / "scancel").unlink()
    await asyncio.wait_for(cancelling, 20)
    assert slurm_rig.jobs().get(job.job_id, "CANCELLED") == "CANCELLED"


async def test_cancelling_a_job_that_is_over_or_never_was_does_nothing(cluster, tmp_path):
    job = await submitted(cluster, "", tmp_path)
    await cluster.ended(job)
    await asyncio.wait_for(cluster.cancel(job.handle()), 10)
    await asyncio.wait_for(cluster.cancel({"name": "never-was", "dir": "/nope", "id": None}), 10)
    await asyncio.wait_for(cluster.cancel({"name": "never-was", "dir": "/nope", "id": 999999}), 10)


async def test_a_job_is_not_declared_dead_while_the_controller_is_away(slurm_rig, make_cluster, tmp_path):
    cluster = make_cluster(state_interval=1.0)
    running = await submitted(cluster, WAIT.format(gate=str(tmp_path / "go")) + "print('done')", tmp_path)
    failing = await submitted(
        cluster, WAIT.format(gate=str(tmp_path / "go")) + "raise SystemExit(4)", tmp_path
    )
    endings = [asyncio.create_task(cluster.ended(job)) for job in (running, failing)]
    await asyncio.to_thread(until, lambda: bool(running.started and failing.started), "both run")
    await asyncio.to_thread(slurm_rig.stop_slurmctld)
    try:
        await asyncio.to_thread(until, lambda: bool(cluster.trouble), "it is noticed", 30)
        assert "not answering since" in cluster.trouble
        assert not any(ending.done() for ending in endings)
        (tmp_path / "go").touch()
        # Its own record says that it ended well; of the other one Slurm may still say "requeued".
        assert (await asyncio.wait_for(endings[0], 20)).state == "COMPLETED"
        await asyncio.sleep(2)
        assert not endings[1].done()
    finally:
        await asyncio.to_thread(slurm_rig.start_slurmctld)
    assert (await asyncio.wait_for(endings[1], 90)).status == ExitStatus(4)
    assert cluster.trouble == ""


async def test_twenty_jobs_share_one_connection_and_few_questions(slurm_rig, cluster, tmp_path):
    connections, commands = slurm_rig.connections(), slurm_rig.commands()
    jobs = await asyncio.gather(*(submitted(cluster, f"print({n})", tmp_path) for n in range(20)))
    ends = await asyncio.gather(*(cluster.ended(job) for job in jobs))
    assert {end.state for end in ends} == {"COMPLETED"}
    await asyncio.gather(*(gone(cluster, job) for job in jobs))
    assert [text(job) for job in jobs] == [f"{n}\n" for n in range(20)]
    await asyncio.gather(*(cluster.remove(job) for job in jobs))
    assert slurm_rig.connections() <= connections + 1
    # A submission each; the rest is shared.
    assert slurm_rig.commands() - commands <= 20 + 22


async def test_a_result_is_fetched_whole_and_a_missing_file_is_none(cluster, tmp_path):
    code = "import sys; open(sys.argv[2] + '/result', 'wb').write(bytes(range(256)) * 50000)"
    job = await submitted(cluster, code, tmp_path)
    end = await cluster.ended(job)
    box = job.execution_folder(end.execution)
    assert await cluster.fetch(f"{box}/result") == bytes(range(256)) * 50000
    assert await cluster.fetch(f"{box}/nothing") is None
    assert await cluster.tail(f"{box}/result", 100) == bytes(range(156, 256))
    assert await cluster.tail(f"{box}/nothing", 100) == b""


async def test_cleaning_up_removes_what_is_ours_and_keeps_and_names_the_rest(cluster, tmp_path):
    code = """
import os, sys
open(sys.argv[2] + '/result', 'w').close()
open('model.pt', 'w').write('weights')
os.mkdir('runs'); open('runs/result', 'w').write('not ours')
open('../notes.txt', 'w').write('of the user')
"""
    job = await submitted(cluster, code, tmp_path)
    await cluster.ended(job)
    await gone(cluster, job)
    assert await cluster.remove(job) == ["notes.txt", "work/model.pt", "work/runs/result"]
    assert files_below(job.path) == ["notes.txt", "work/model.pt", "work/runs/result"]


async def test_cleaning_up_a_job_that_left_nothing_leaves_nothing(cluster, tmp_path):
    first, second = [await submitted(cluster, "", tmp_path / "w") for _ in range(2)]
    for job in (first, second):
        await cluster.ended(job)
        await gone(cluster, job)
    assert await asyncio.gather(cluster.remove(first), cluster.remove(second)) == [[], []]
    assert list((tmp_path / "w").iterdir()) == []


async def test_a_link_in_the_working_folder_is_not_followed_by_the_clean_up(cluster, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "stdout").write_text("keep")
    code = f"import os; os.symlink({str(tmp_path / 'precious')!r}, '../x001'); os.symlink('/etc', 'etc')"
    job = await submitted(cluster, code, tmp_path / "w")
    await cluster.ended(job)
    await gone(cluster, job)
    await cluster.remove(job)
    assert (tmp_path / "precious" / "stdout").read_text() == "keep"


@pytest.fixture
def full_folder(tmp_path):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], check=True)
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


async def test_a_full_workdir_is_told_before_anything_is_submitted(cluster, full_folder):
    with pytest.raises(SubmissionError, match=f"its folder {full_folder}/.* No space left.*; make room"):
        await submitted(cluster, "#" * 100_000, full_folder)


async def test_a_site_whose_squeue_knows_no_me_is_asked_by_id(make_cluster, tmp_path):
    (tmp_path / "squeue").write_text(
        '#!/bin/bash\n[[ " $* " = *" --me "* ]] && { echo "unrecognized option \'--me\'" >&2; exit 1; }\n'
        f'echo "$*" >>{tmp_path}/asked\nexec /usr/bin/squeue "$@"\n'
    )
    (tmp_path / "squeue").chmod(0o755)
    cluster = make_cluster(slurm_path=str(tmp_path))
    job = await submitted(cluster, "raise SystemExit(3)", tmp_path / "w")
    end = await asyncio.wait_for(cluster.ended(job), 30)
    assert (end.state, end.status) == ("FAILED", ExitStatus(3))
    assert f"-j {job.job_id},{job.job_id}" in (tmp_path / "asked").read_text()


@pytest.mark.parametrize(
    ("sacct", "state", "status"),
    [
        ("echo '%d|OUT_OF_MEMORY|0:9|n7'", "OUT_OF_MEMORY", ExitStatus(signal=9)),
        ("echo '%d|RUNNING|0:0|n7'", "UNKNOWN", None),
        ("echo 'Slurm accounting storage is disabled' >&2; exit 1", "UNKNOWN", None),
    ],
)
async def test_a_job_squeue_has_forgotten_is_looked_up_in_the_accounting(
    make_cluster, tmp_path, monkeypatch, sacct, state, status
):
    monkeypatch.setattr("covalent_joblog_plugin.cluster.slurm_job.VANISHED_GRACE", 4.0)
    monkeypatch.setattr("covalent_joblog_plugin.cluster.slurm_job.MARKER_GRACE", 1.0)
    cluster = make_cluster(slurm_path=str(tmp_path), state_interval=1.0)
    job = await submitted(cluster, "import time; time.sleep(1000)", tmp_path / "w")
    await asyncio.to_thread(until, lambda: bool(job.started and job.row), "it runs")
    # The real squeue forgets a job only after minutes, and the rig has no accounting.
    for name, text in ("squeue", ""), ("scontrol", "exit 1"), ("sacct", sacct.replace("%d", f"{job.job_id}")):
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    end = await asyncio.wait_for(cluster.ended(job), 30)
    assert (end.state, end.status, end.recorded) == (state, status, False)
    await cluster.cancel(job.handle())
