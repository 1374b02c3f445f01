# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from covalent_joblog_plugin.cluster import kubeflow_wording as wording
from covalent_joblog_plugin.cluster.job_events import refusal, why_not_started
from covalent_joblog_plugin.cluster.kubeflow_job import Instance, Job, JobEnd
from covalent_joblog_plugin.cluster.kubernetes_errors import Forbidden
from covalent_joblog_plugin.cluster.pytorch_job import PyTorchJob
from covalent_joblog_plugin.cluster.train_job import TrainJob
from covalent_joblog_plugin.cluster.workload import ContainerInstance, JobPhase, JobState, WorkloadSpec
from tests.cluster.workload_specs import ScriptedApi

SPEC = WorkloadSpec("train-1f", "ml", None, ["python3"], num_nodes=2, runtime="r")


def job(kind=TrainJob, **changes):
    return Job(kind(), replace(SPEC, **changes), {}, framing=True, counts=lambda _: None)


def ended(rank, code, second=10, **changes):
    about = {
        "reason": "Error" if code else "Completed",
        "finished_at": f"2026-01-01T00:00:{second}Z",
        **changes,
    }
    execution, gone = about.pop("execution", 0), about.pop("gone", False)
    seen = ContainerInstance(rank, f"pod-{rank}", f"uid-{rank}", state="terminated", exit_code=code, **about)
    return Instance(seen, execution, None, gone=gone)


def end(*known, phase=JobPhase.FAILED, reason="FailedJobs", message="", unstarted=""):
    return JobEnd(phase, reason, message, {one.seen.rank: one for one in known}, unstarted)


TOLD = {"deleted": "2026-01-01T00:00:12Z"}


def test_the_first_rank_to_fail_leads_and_not_the_one_that_went_because_of_it():
    finished = end(ended(0, 143, 12, **TOLD), ended(1, 3, 12))
    assert wording.first_failed(finished).seen.rank == 1
    text = wording.failure(job(), finished, "ValueError: no")
    lines = text.split("\n")
    assert lines[0] == "ValueError: no"
    assert lines[1] == "TrainJob train-1f in namespace ml FAILED: FailedJobs, rank 1: exit code 3"
    assert lines[2] == "rank 0 (pod pod-0): signal 15 (SIGTERM), when its pod was told to go"


def test_the_earlier_failure_leads():
    assert wording.first_failed(end(ended(0, 1, 20), ended(1, 2, 10))).seen.rank == 1


def test_a_rank_that_was_killed_for_itself_leads():
    finished = end(ended(0, 137, 10, reason="OOMKilled"), ended(1, 143, 12, **TOLD))
    text = wording.failure(job(), finished, "")
    assert "rank 0: signal 9 (SIGKILL), OOMKilled" in text
    assert "raise memory in resources" in text


def test_memory_ran_out_though_the_pod_was_told_to_go_in_the_same_second():
    text = wording.failure(job(), end(ended(0, 137, 12, reason="OOMKilled", **TOLD)), "")
    assert "raise memory in resources" in text
    assert "deleted" not in text


def test_a_rank_that_vanished_leads_only_when_no_other_failed():
    vanished = ended(0, None, gone=True)
    assert wording.first_failed(end(vanished)) is vanished
    assert wording.first_failed(end(vanished, ended(1, 1))).seen.rank == 1
    assert "rank 0 (pod pod-0): its pod was removed" in wording.failure(job(), end(vanished, ended(1, 1)), "")


def test_a_rank_that_vanished_leads_where_the_others_were_told_to_go():
    vanished = ended(1, None, gone=True)
    assert wording.first_failed(end(ended(0, 1, 14, **TOLD), vanished)) is vanished


def test_no_rank_failed():
    assert wording.first_failed(end(ended(0, 0))) is None


@pytest.mark.parametrize(
    ("about", "words"),
    [
        (
            {"code": 128, "reason": "StartError", "message": "exec: no", "image": "i:1"},
            ["python='python3' in image i:1 cannot be started: exec: no"],
        ),
        (
            {"code": 137, "pod_reason": "Evicted", "pod_message": "low on memory"},
            ["ran short", "(low on memory)"],
        ),
        ({"code": 143, "pod_reason": "PreemptionByScheduler", **TOLD}, ["priority", "SIGTERM"]),
        ({"code": 3, "second": 14, **TOLD}, ["exit code 3", "its pod was deleted"]),
        ({"code": 143, "pod_reason": "DeadlineExceeded"}, ["activeDeadlineSeconds"]),
        ({"code": 1, "execution": 2}, ["after 2 restarts"]),
        ({"code": 200}, ["exit code 200"]),
    ],
)
def test_what_a_container_tells_and_what_to_do(about, words):
    code = about.pop("code")
    text = wording.failure(job(), end(ended(0, code, **about)), "")
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reason": "DeadlineExceeded"}, ["FAILED: DeadlineExceeded", "the job reached its deadline"]),
        ({"reason": "Deleted", "phase": None}, ["GONE: Deleted", "who or what deletes jobs"]),
        (
            {"reason": "Unstartable", "phase": JobPhase.PENDING, "unstarted": "pod p has no image"},
            ["p has no image"],
        ),
        ({"message": "jobset failed due to one or more"}, ["jobset failed due"]),
    ],
)
def test_what_the_job_tells_and_what_to_do(changes, words):
    text = wording.failure(job(), end(**changes), "")
    assert [word for word in words if word not in text] == []


def test_of_many_ranks_some_are_told_and_the_others_counted():
    finished = end(*(ended(rank, 1, 10 + rank) for rank in range(12)))
    text = wording.failure(job(num_nodes=12), finished, "")
    assert "rank 8 (pod" in text
    assert "rank 9 (pod" not in text
    assert "… and 3 more ranks" in text


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        (TrainJob, "kubectl -n ml describe trainjobs.trainer.kubeflow.org train-1f"),
        (PyTorchJob, "kubectl -n ml describe pods -l training.kubeflow.org/job-name=train-1f"),
    ],
)
def test_the_command_that_shows_more(kind, command):
    assert command in wording.failure(job(kind), end(), "")


@pytest.mark.parametrize(
    ("kind", "queue", "words"),
    [
        (TrainJob, "", ["TrainJob train-1f is suspended", "edit trainjobs.trainer.kubeflow.org train-1f"]),
        (PyTorchJob, "research", ["PyTorchJob train-1f is suspended", "queue research", "get workloads"]),
    ],
)
def test_who_can_resume_a_suspended_job(kind, queue, words):
    text = wording.why_waiting(job(kind, queue=queue), JobState(JobPhase.SUSPENDED), [], "stale")
    assert [word for word in words if word not in text] == []


def test_a_job_that_is_over_waits_for_nothing():
    waits = ContainerInstance(0, "pod-0", "uid-0", why_waiting="no image")
    assert wording.why_waiting(job(), JobState(JobPhase.RUNNING), [waits], "") == "pod pod-0: no image"
    assert wording.why_waiting(job(), JobState(JobPhase.FAILED), [waits], "") == ""


def test_what_several_pods_wait_for_is_told_once_with_their_number():
    reasons = ["no image (ErrImagePull): a", "no image (ImagePullBackOff): the cause", "no room (U): b"]
    waits = [ContainerInstance(n, f"pod-{n}", f"uid-{n}", why_waiting=why) for n, why in enumerate(reasons)]
    text = wording.why_waiting(job(num_nodes=3), JobState(JobPhase.PENDING), waits, "")
    assert text == "2 of 3 pods: no image (ImagePullBackOff): the cause; pod pod-2: no room (U): b"


def test_a_job_that_was_given_up_tells_first_why_and_then_what_was_done_to_it():
    given_up = end(reason=wording.UNSTARTABLE, phase=JobPhase.PENDING, unstarted="2 of 2 pods: no image")
    lines = wording.failure(job(), given_up, "", "TrainJob train-1f was deleted").split("\n")
    assert lines[0] == "2 of 2 pods: no image"
    assert lines[-1] == "TrainJob train-1f was deleted"
    assert given_up.given_up
    assert "kubectl" not in "".join(lines)


def event(message, name="train-1f-node-0", reason="FailedCreate", time="2026-01-01T00:00:01Z"):
    return {"reason": reason, "message": message, "involvedObject": {"name": name}, "lastTimestamp": time}


@pytest.mark.parametrize(
    ("message", "cure"),
    [
        ("pods p is forbidden: exceeded quota: q, requested: limits.cpu=3", "Ask for less in resources"),
        ('pods p is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot', "pod_patch"),
        ("error looking up service account ml/no: serviceaccount not found", "Set service_account"),
    ],
)
def test_what_refuses_pods_is_told_with_what_to_do(message, cure):
    text = refusal([event(message)], "train-1f")
    assert message in text
    assert cure in text


async def test_what_keeps_containers_from_starting_is_told_from_what_refuses_pods():
    pod = event('MountVolume.SetUp failed: secret "nope" not found', "train-1f-node-0-0-abcde", "FailedMount")
    api = ScriptedApi(lambda *_: {"items": [pod, event("quota", time="2026-01-01T00:00:09Z")]})
    told = await why_not_started(api, "ml", "train-1f")
    assert told.startswith('its pods cannot be started: MountVolume.SetUp failed: secret "nope" not found')
    assert "volumes" in told
    assert await why_not_started(ScriptedApi(lambda *_: Forbidden("no")), "ml", "train-1f") == ""


def test_the_newest_refusal_of_this_very_job_counts():
    events = [
        event("old"),
        event("new", time="2026-01-01T00:00:02Z"),
        event("another's", name="train-1ff-node-0", time="2026-01-01T00:00:03Z"),
        event("another matter", reason="BackoffLimitExceeded", time="2026-01-01T00:00:04Z"),
    ]
    assert refusal(events, "train-1f") == "its pods cannot be created: new"
    assert refusal(events, "other") == ""
