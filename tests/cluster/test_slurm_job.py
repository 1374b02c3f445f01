# SPDX-License-Identifier: Apache-2.0
"""When a job has ended, and how: nothing is concluded from a failed or missing answer."""

from __future__ import annotations

import pytest

from covalent_joblog_plugin.cluster.slurm_job import MARKER_GRACE, VANISHED_GRACE, Job
from covalent_joblog_plugin.cluster.slurm_states import FINAL, LIVE, REQUEUE_GRACE, ExitStatus, JobRow
from covalent_joblog_plugin.cluster.slurm_wording import failure, script_end
from tests.cluster.slurm_jobs import spec

STARTED = {"host": "n7", "output": "/w/slurm.log", "error": "/w/slurm.log"}


def job(*, started=True, rc=None):
    made = Job.of(spec("", "/w"))
    made.path, made.job_id = "/w/d", 7
    if started:
        made.saw_marker("/w/d/x000/started", STARTED)
    if rc is not None:
        made.saw_marker("/w/d/x000/exit", {"rc": str(rc)})
    return made


def row(state, restarts=0, wait_status=0, reason="", nodes="n7"):
    return JobRow(7, state, restarts, wait_status, reason, nodes)


def test_an_end_without_fault_in_its_own_record_is_enough():
    end = job(rc=0).end(0)
    assert (end.state, end.status, end.host, end.recorded) == ("COMPLETED", ExitStatus(), "n7", True)


def test_a_bad_end_in_its_own_record_waits_for_slurm_because_a_requeue_looks_the_same():
    one = job(rc=143)
    assert one.end(1000) is None
    one.saw_row(row("COMPLETING"), 1)
    assert one.end(1000) is None
    one.saw_row(row("PENDING", restarts=1, reason="BeginTime"), 2)
    assert one.end(1000) is None
    assert one.execution == 1
    assert list(one.markers()) == ["/w/d/x001/started", "/w/d/x002/started"]


@pytest.mark.parametrize("state", sorted(LIVE | {"HIBERNATING"}))
def test_a_live_or_unknown_state_is_no_end(state):
    one = job()
    for at in (1, 100, 10000):
        one.saw_row(row(state), at)
        assert one.end(at + 10000) is None
        assert not one.gone


@pytest.mark.parametrize("state", sorted(FINAL - {"COMPLETED"}))
def test_a_final_state_without_record_waits_a_moment_for_the_record(state):
    one = job()
    one.saw_row(row(state, wait_status=9, reason="why"), 10)
    assert one.gone
    assert one.end(10 + MARKER_GRACE - 0.1) is None
    end = one.end(10 + MARKER_GRACE)
    assert (end.state, end.reason, end.status, end.recorded) == (state, "why", ExitStatus(signal=9), False)


def test_a_job_that_never_started_ends_at_once():
    one = job(started=False)
    one.saw_row(row("CANCELLED", nodes=""), 10)
    assert one.end(10).state == "CANCELLED"


def test_a_success_without_record_waits_as_long_as_a_file_system_may_take():
    one = job()
    one.saw_row(row("COMPLETED"), 10)
    assert one.end(10 + VANISHED_GRACE - 1) is None
    assert one.end(10 + VANISHED_GRACE).recorded is False


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL", "BOOT_FAIL"])
def test_what_slurm_may_requeue_is_final_only_after_a_while(state):
    one = job()
    one.saw_row(row(state), 10)
    assert one.end(10 + REQUEUE_GRACE - 1) is None
    one.saw_row(row(state), 60)
    assert one.end(10 + REQUEUE_GRACE).state == state
    again = job()
    again.saw_row(row(state), 10)
    again.saw_row(row("PENDING", restarts=1), 20)
    assert again.end(10000) is None


def test_a_job_that_is_not_listed_any_more_needs_several_answers_and_a_minute():
    one = job()
    one.saw_row(row("RUNNING"), 10)
    for at in (20, 21, 22):
        one.saw_row(None, at)
        assert one.end(at) is None
    end = one.end(20 + VANISHED_GRACE)
    assert (end.state, end.status, end.recorded) == ("UNKNOWN", None, False)


def test_a_job_that_comes_back_was_never_gone():
    one = job()
    one.saw_row(row("RUNNING"), 10)
    one.saw_row(None, 20)
    one.saw_row(row("RUNNING"), 30)
    assert one.end(10000) is None
    assert not one.gone


def test_a_forgotten_job_with_its_record_has_ended_as_that_says():
    one = job(rc=3)
    one.saw_row(None, 20)
    end = one.end(20 + MARKER_GRACE)
    assert (end.state, end.status) == ("FAILED", ExitStatus(code=3))


def test_a_forgotten_job_is_not_judged_by_a_start_that_was_requeued():
    one = job(rc=143)
    one.saw_row(None, 20)
    assert one.end(20) is None
    one.saw_marker("/w/d/x001/started", STARTED)
    one.saw_marker("/w/d/x001/exit", {"rc": "0"})
    assert (one.end(21).state, one.end(21).execution) == ("COMPLETED", 1)


def test_a_forgotten_job_whose_final_state_was_seen_has_ended_so():
    one = job()
    one.saw_row(row("TIMEOUT", wait_status=15, reason="TimeLimit"), 10)
    for at in (11, 12, 13):
        one.saw_row(None, at)
    assert one.end(11 + MARKER_GRACE).state == "TIMEOUT"


def test_ranks_have_files_of_their_own():
    one = Job.of(spec("", "/w", use_srun=True))
    one.path = "/w/d"
    one.saw_marker("/w/d/x000/started", STARTED)
    one.saw_marker("/w/d/x000/ranks", {"tasks": "3"})
    ranks = {(file.rank, file.stream): file.path for file in one.output_files() if file.stream}
    assert ranks[0, "stdout"] == "/w/d/x000/stdout"
    assert ranks[2, "stderr"] == "/w/d/x000/rank2.stderr"
    assert len(ranks) == 6


def test_a_users_own_file_for_slurms_output_is_known_by_what_the_job_saw():
    one = Job.of(spec("", "/w", own_output=False))
    one.path = "/w/d"
    assert [file for file in one.output_files() if file.stream is None] == []
    one.saw_marker("/w/d/x000/started", {**STARTED, "output": "/logs/7 x.out", "error": "/logs/7 x.out"})
    (own,) = [file for file in one.output_files() if file.stream is None]
    assert (own.path, own.name) == ("/logs/7 x.out", "7 x.out")


@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [
        ("OUT_OF_MEMORY", "", "raise `mem`"),
        ("TIMEOUT", "TimeLimit", "raise `time`"),
        ("CANCELLED", "", "cancelled outside of Covalent"),
        ("NODE_FAIL", "", "its node failed"),
        ("FAILED", "JobLaunchFailure", "Slurm could not start it"),
    ],
)
def test_a_failure_says_what_the_state_means_and_where_to_look(state, reason, words):
    one = job()
    one.saw_row(row(state, reason=reason), 10)
    text = failure(one, one.end(1000), "", b"slurmstepd: error: the last line\n", "ssh -p 22 me@cluster")
    assert words in text
    assert f"Slurm job 7 ({one.name}) {state}" in text
    assert "slurmstepd: error: the last line" in text
    assert "ssh -p 22 me@cluster 'ls -l /w/d'" in text


def test_a_full_disk_is_called_so():
    one = job(rc=1)
    one.saw_row(row("FAILED", wait_status=256), 1)
    assert "no room in workdir" in failure(one, one.end(2), "", b"bash: Disk quota exceeded\n", "ssh c")


def test_a_script_that_left_no_record_is_told_from_a_function_that_failed():
    one = job()
    one.saw_row(row("FAILED", wait_status=3 << 8), 10)
    assert "a line of setup_commands or teardown_commands" in failure(one, one.end(100), "", b"", "ssh c")


def test_an_end_before_the_function_is_told_from_one_of_the_function():
    end = _ended(job(rc=127))
    assert script_end(end, b"bash: /usr/local/python: not found\n") == (
        "the Python of the job was not found where it ran; check python, modules and conda_env\n"
        "stderr ended with:\nbash: /usr/local/python: not found"
    )
    assert script_end(_ended(job(rc=78)), b"") == "the setup of the job failed before the function began"
    assert script_end(_ended(job(rc=3)), b"x") == ""
    assert script_end(_ended(job(rc=137)), b"x") == ""


def _ended(one):
    one.saw_row(row("FAILED"), 1)
    return one.end(1)
