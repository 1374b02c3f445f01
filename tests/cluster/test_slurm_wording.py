# SPDX-License-Identifier: Apache-2.0
"""Why a Slurm job waits, in words."""

from __future__ import annotations

import pytest

from covalent_joblog_plugin.cluster.slurm_job import Job
from covalent_joblog_plugin.cluster.slurm_states import JobRow
from covalent_joblog_plugin.cluster.slurm_wording import waiting
from tests.cluster.slurm_jobs import spec


def job(state: str, reason: str = "", *, started: bool = False) -> Job:
    known = Job.of(spec("", "/w"))
    known.row = JobRow(7, state, reason=reason)
    known.started = {0: {"host": "n1"}} if started else {}
    return known


@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [
        ("PENDING", "", "Slurm job 7 is PENDING"),
        ("PENDING", "None", "Slurm job 7 is PENDING"),
        ("PENDING", "Resources", "it waits for free nodes, cores, memory or GPUs (Resources)"),
        ("PENDING", "QOSMaxJobsPerUserLimit", "a limit of its account, user or QOS is reached"),
        ("PENDING", "AssocGrpCPUMinutesLimit", "(AssocGrpCPUMinutesLimit)"),
        ("PENDING", "ReqNodeNotAvail, UnavailableNodes:n[1-3]", "down, drained, or reserved"),
        ("PENDING", "ReqNodeNotAvail, UnavailableNodes:n[1-3]", "UnavailableNodes:n[1-3])"),
        ("PENDING", "SomethingNew", "Slurm job 7 is PENDING: SomethingNew"),
        ("SUSPENDED", "None", "Slurm job 7 is SUSPENDED: it is suspended, and may go on later"),
    ],
)
def test_a_job_that_waits_says_why(state: str, reason: str, words: str) -> None:
    assert words in waiting(job(state, reason))


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING", "COMPLETED", "FAILED"])
def test_a_job_that_runs_or_has_ended_waits_for_nothing(state: str) -> None:
    assert waiting(job(state, "Resources")) == ""


def test_a_sign_of_life_is_newer_than_what_squeue_said() -> None:
    assert waiting(job("PENDING", "Resources", started=True)) == ""
    assert waiting(job("SUSPENDED", started=True))


def test_a_requeued_job_waits_again() -> None:
    again = job("PENDING", "BeginTime", started=True)
    again.execution = 1
    assert waiting(again) == "Slurm job 7 is PENDING: it may not begin before its begin time (BeginTime)"


def test_of_a_job_that_was_not_listed_yet_nothing_is_known() -> None:
    assert waiting(Job.of(spec("", "/w"))) == ""
