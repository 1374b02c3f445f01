# SPDX-License-Identifier: Apache-2.0
"""Pods as a real cluster showed them, and variations of them."""

import copy
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.cluster.pod_states import instances
from covalent_joblog_plugin.cluster.pytorch_job import PyTorchJob
from covalent_joblog_plugin.cluster.train_job import TrainJob

PODS = json.loads((Path(__file__).parent / "recorded_pods.json").read_text())


def seen(name):
    kind = PyTorchJob() if name.startswith("pytorch") else TrainJob()
    return kind.instances(PODS[name])


def only(name):
    found = seen(name)
    assert len(found) == 1
    return found[0]


def changed(name, **status):
    pod = copy.deepcopy(PODS[name])
    pod["status"].update(status)
    return pod


def test_a_running_container():
    found = only("running")
    assert (found.state, found.rank, found.attempt, found.restart_count) == ("running", 0, 0, 0)
    assert found.container_id.startswith("containerd://")
    assert (found.why_waiting, found.unstartable, found.deleted) == ("", False, None)


@pytest.mark.parametrize("name", ["created", "container creating"])
def test_a_container_that_starts_as_usual_needs_no_words(name):
    found = only(name)
    assert (found.state, found.container_id, found.why_waiting) == ("waiting", "", "")


def test_a_container_that_failed_by_itself():
    found = only("exit code 3")
    assert (found.state, found.rank, found.exit_code, found.reason) == ("terminated", 1, 3, "Error")
    assert (found.deleted, found.pod_phase, found.restart_policy) == (None, "Failed", "Never")


def test_a_container_whose_pod_was_told_to_go():
    assert only("being told to go").deleted == "2026-12-01T00:19:11Z"
    found = only("told to go")
    assert (found.state, found.exit_code, found.deleted) == ("terminated", 143, "2026-12-01T00:19:11Z")
    assert found.finished_at == "2026-12-01T00:19:11Z"


def test_a_container_out_of_memory():
    found = only("out of memory")
    assert (found.exit_code, found.reason) == (137, "OOMKilled")


def test_a_container_that_could_not_be_started_began_when_it_ended():
    found = only("no such program")
    assert (found.state, found.exit_code, found.reason) == ("terminated", 128, "StartError")
    assert "executable file not found" in found.message
    assert found.started_at == found.finished_at == "2026-12-01T00:19:39Z"


def test_an_image_that_cannot_be_pulled_needs_help():
    found = only("no image")
    assert found.unstartable
    assert "image 127.0.0.1:1/none:1 cannot be pulled" in found.why_waiting
    assert "connection refused" in found.why_waiting
    assert "image_pull_secrets" in found.why_waiting


def test_a_pod_without_room_waits_and_may_start_yet():
    found = only("unschedulable")
    assert not found.unstartable
    assert "1 Insufficient cpu" in found.why_waiting
    assert "ask for less in resources" in found.why_waiting


@pytest.mark.parametrize(
    ("name", "counts", "states"),
    [
        ("first restart running", [0, 1], ["terminated", "running"]),
        ("first restart ended", [0, 1], ["terminated", "terminated"]),
        ("crash loop", [1, 2], ["terminated", "waiting"]),
        ("second restart running", [1, 2], ["terminated", "running"]),
    ],
)
def test_restarts_in_a_pod_keep_their_numbers(name, counts, states):
    found = seen(name)
    assert [one.restart_count for one in found] == counts
    assert [one.state for one in found] == states
    assert found[0].exit_code == 7


def test_the_same_instance_has_the_same_id_before_and_after_its_successor_begins():
    assert seen("first restart ended")[1].container_id == seen("crash loop")[0].container_id
    assert seen("crash loop")[0].container_id == seen("second restart running")[0].container_id
    assert seen("crash loop")[1].container_id == ""


def test_a_crash_loop_is_told_and_goes_on_by_itself():
    found = seen("crash loop")[1]
    assert "started again after a pause (CrashLoopBackOff): back-off 10s" in found.why_waiting
    assert not found.unstartable


def test_a_restart_of_the_job_set_is_a_later_attempt():
    found = only("second attempt")
    assert (found.attempt, found.restart_count) == (1, 0)


def test_a_sidecar_that_goes_on_does_not_hide_the_end():
    found = only("sidecar goes on")
    assert (found.state, found.exit_code, found.pod_phase) == ("terminated", 0, "Running")


def test_ranks_of_a_pytorch_job():
    assert only("pytorch master-0").rank == 0
    assert only("pytorch worker-0").rank == 1


def test_a_secret_that_is_not_there_needs_help():
    waiting = {"reason": "CreateContainerConfigError", "message": 'secret "t" not found'}
    pod = changed("container creating")
    pod["status"]["containerStatuses"][0]["state"] = {"waiting": waiting}
    (found,) = TrainJob().instances(pod)
    assert found.unstartable
    assert 'cannot be created (CreateContainerConfigError): secret "t" not found' in found.why_waiting


def test_an_init_container_without_image_is_named():
    pod = changed("pytorch worker-0", phase="Pending")
    waiting = {"reason": "ImagePullBackOff", "message": "no such host"}
    pod["status"]["initContainerStatuses"][0]["state"] = {"waiting": waiting}
    pod["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "PodInitializing"}}
    (found,) = PyTorchJob().instances(pod)
    assert found.unstartable
    assert found.why_waiting.startswith("container init-pytorch has no image (ImagePullBackOff)")


def test_a_claim_that_is_not_there_is_named_and_nobody_waits_for_room():
    message = '0/1 nodes are available: persistentvolumeclaim "data" not found. not found'
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    pod = changed("created", conditions=[scheduled])
    pod["metadata"]["namespace"] = "wl"
    (found,) = TrainJob().instances(pod)
    assert found.unstartable
    assert "no PersistentVolumeClaim data, see kubectl -n wl get pvc" in found.why_waiting
    assert "volumes" in found.why_waiting
    assert "room" not in found.why_waiting


def test_a_pod_that_its_machine_refused():
    refused = {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: not enough cpu"}
    (found,) = TrainJob().instances(changed("created", **refused))
    assert (found.state, found.exit_code, found.container_id) == ("terminated", None, "")
    assert (found.pod_reason, found.pod_phase) == ("OutOfcpu", "Failed")
    assert "(OutOfcpu): Pod was rejected: not enough cpu" in found.why_waiting


def test_who_took_a_pod_away_is_told_by_its_condition():
    taken = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "m"}
    (found,) = TrainJob().instances(changed("told to go", conditions=[taken]))
    assert (found.pod_reason, found.pod_message) == ("PreemptionByScheduler", "m")


def test_a_pod_without_the_container_says_which_it_has():
    (found,) = instances(PODS["running"], "trainer", 0)
    assert found.unstartable
    assert "has no container trainer, only node" in found.why_waiting


@given(
    base=st.sampled_from(sorted(PODS)),
    dropped=st.sets(st.sampled_from(["phase", "conditions", "containerStatuses", "reason"])),
    state=st.none()
    | st.dictionaries(st.sampled_from(["waiting", "running", "terminated"]), st.just({}), max_size=1),
    count=st.integers(0, 5),
)
def test_whatever_a_status_lacks_there_is_an_instance_with_the_pods_identity(base, dropped, state, count):
    pod = copy.deepcopy(PODS[base])
    for status in pod["status"].get("containerStatuses", []):
        status["restartCount"] = count
        if state is not None:
            status["state"] = state
    for key in dropped:
        pod["status"].pop(key, None)
    found = instances(pod, "node", 3, 2)
    assert 1 <= len(found) <= 2
    assert {(one.pod, one.pod_uid, one.rank, one.attempt) for one in found} == {
        (pod["metadata"]["name"], pod["metadata"]["uid"], 3, 2)
    }
    counts = [one.restart_count for one in found]
    assert counts == sorted(set(counts))
