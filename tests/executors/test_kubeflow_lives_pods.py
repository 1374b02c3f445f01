# SPDX-License-Identifier: Apache-2.0
"""Kubeflow jobs whose pods are deleted or run out of time, and jobs that are removed, on a real cluster."""

import copy
import random

import pytest

from tests.executors.dispatches import cancel
from tests.executors.kubeflow_lives import (
    LINES,
    admission,
    counting,
    executions,
    is_whole,
    numbered,
    writes,
)
from tests.executors.kubeflow_tasks import Task, account
from tests.rigs.covalent_server import eventually


def with_policy(**values):
    """What a site's webhook may do to PyTorchJobs."""
    return lambda spec: spec.get("runPolicy", {}).update(values)


def delete_pod(task, **how):
    """What ``kubectl delete pod`` does."""
    (pod,) = task.pods()
    task.rig.delete("Pod", pod["metadata"]["name"], task.namespace, **how)


def test_a_deleted_pod_that_is_not_replaced_fails_the_task_with_its_last_words_kept(
    covalent_server, kubeflow_rig
):
    task = counting(covalent_server, kubeflow_rig, lingers=1)
    writes(task)
    delete_pod(task)
    error = task.failed()
    assert "its pod was deleted" in error
    (text,) = executions(task)
    assert is_whole(text)
    assert task.capability("complete")["answer"] == "yes"


def test_a_pod_deleted_by_force_keeps_what_was_read(covalent_server, kubeflow_rig):
    task = counting(covalent_server, kubeflow_rig, lines=100_000, lingers=600)
    writes(task)
    delete_pod(task, grace=0)
    assert "its pod was" in task.failed()
    text = task.text()
    assert text.startswith(numbered(61))
    assert text == numbered(text.count(b"\n"))
    assert task.capability("complete")["answer"] == "unknown"


def test_a_deleted_pod_that_is_replaced_at_once_writes_on_before_its_successor(covalent_server, kubeflow_rig):
    task = counting(covalent_server, kubeflow_rig, lingers=3, runtime="on-failure")
    writes(task)
    delete_pod(task)
    assert task.completed() == ["whole", LINES]
    first, second = executions(task)
    assert is_whole(first)
    assert is_whole(second)
    assert task.capability("complete")["answer"] == "yes"


def test_a_runtime_with_a_deadline_ends_the_job_and_the_error_says_so(covalent_server, kubeflow_rig):
    namespace, _ = account(kubeflow_rig)
    runtime = kubeflow_rig.get("TrainingRuntime", "never", namespace)
    meta = {"name": "deadline", "namespace": namespace, "labels": runtime["metadata"]["labels"]}
    runtime = {**copy.deepcopy(runtime), "metadata": meta}
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    job["template"]["spec"]["activeDeadlineSeconds"] = 4
    kubeflow_rig.wait_for_runtime(kubeflow_rig.apply(runtime))
    task = counting(covalent_server, kubeflow_rig, lines=10_000, runtime="deadline")
    error = task.failed()
    assert "deadline" in error
    (text,) = executions(task)
    assert is_whole(text)


def test_a_pod_with_a_deadline_ends_the_job_and_the_error_says_so(covalent_server, kubeflow_rig):
    patch = {"spec": {"activeDeadlineSeconds": 4}}
    task = counting(covalent_server, kubeflow_rig, lines=10_000, kind="PyTorchJob", pod_patch=patch)
    error = task.failed()
    assert "deadline" in error
    (text,) = executions(task)
    assert is_whole(text)


def test_a_deadline_that_a_site_puts_on_a_job_ends_it_and_the_error_says_so(covalent_server, kubeflow_rig):
    namespace, _ = account(kubeflow_rig)
    with admission(kubeflow_rig, namespace, with_policy(activeDeadlineSeconds=3)):
        task = counting(covalent_server, kubeflow_rig, lines=10_000, kind="PyTorchJob")
        writes(task, 200)
    # The operator looks at its clock when something happens to a pod.
    (pod,) = task.pods()
    meta = {"name": pod["metadata"]["name"], "namespace": namespace, "annotations": {"rig.test/seen": "yes"}}
    kubeflow_rig.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta})
    error = task.failed()
    assert "deadline" in error
    (text,) = executions(task)
    assert is_whole(text)


LARGE = """
import random
numbers = random.Random(7)
value = " ".join(str(numbers.randint(0, 999)) for _ in range(200_000))
print("done")
"""


def test_a_job_that_is_removed_at_its_end_is_complete_all_the_same(covalent_server, kubeflow_rig):
    namespace, _ = account(kubeflow_rig)
    numbers = random.Random(7)
    expected = " ".join(str(numbers.randint(0, 999)) for _ in range(200_000))
    with admission(kubeflow_rig, namespace, with_policy(ttlSecondsAfterFinished=0)):
        large = Task(covalent_server, kubeflow_rig, LARGE, kind="PyTorchJob")
        wrong = Task(
            covalent_server, kubeflow_rig, "print('on')\nraise ValueError('no luck')", kind="PyTorchJob"
        )
        assert large.completed() == expected
        error = wrong.failed()
    assert large.text() == b"done\n"
    assert large.capability("complete")["answer"] == "yes"
    assert error.startswith("ValueError: no luck")
    assert "by somebody else" not in error
    assert wrong.text() == b"on\n"
    assert b"ValueError: no luck" in wrong.text("stderr")


def test_a_failing_job_whose_pods_are_removed_at_its_end_is_told_whole(covalent_server, kubeflow_rig):
    """Trainer runs it once more where its JobSet is removed before Trainer has heard of the failure."""
    body = "print('on')\nraise ValueError('no luck')"
    task = Task(covalent_server, kubeflow_rig, body, runtime="gone-at-once")
    assert task.failed().startswith("ValueError: no luck")
    assert set(executions(task)) == {b"on\n"}
    assert all(b"ValueError: no luck" in text for text in executions(task, "stderr"))
    assert task.capability("complete")["answer"] == "yes"


def test_a_node_that_fails_ends_the_others_with_their_last_words_kept(covalent_server, kubeflow_rig):
    body = """
import signal, sys, time
def end(*_):
    time.sleep(1.5)  # a pod's status knows only whole seconds
    sys.exit("last words")
signal.signal(signal.SIGTERM, end)
print("rank", rank, flush=True)
time.sleep(600 if rank == 0 else 2)
raise ValueError("no luck")
"""
    task = Task(covalent_server, kubeflow_rig, body, kind="PyTorchJob", num_nodes=2)
    # The operator deletes the pods so soon that their exit codes are not always seen.
    assert "PyTorchJobFailed, rank 1: " in task.failed()
    assert set(task.text().splitlines()) == {b"rank 0"}
    assert b"last words" in task.text("stderr")
    # It sometimes makes a deleted pod anew before it gives the job up.
    assert set(task.stored("rank1.stdout").splitlines()) == {b"rank 1"}


@pytest.mark.parametrize("kind", ["TrainJob", "PyTorchJob"])
def test_a_failed_job_is_kept_for_as_long_as_was_asked(covalent_server, kubeflow_rig, kind):
    task = Task(covalent_server, kubeflow_rig, "raise ValueError('no luck')", kind=kind, keep_failed=6)
    task.failed()
    assert kubeflow_rig.get(kind, task.job, task.namespace) is not None
    assert len(task.pods()) == 1
    eventually(lambda: kubeflow_rig.get(kind, task.job, task.namespace) is None, 30, "it is removed")
    eventually(lambda: not task.pods(), 30, "and its pod with it")


def test_a_pod_that_was_never_scheduled_is_gone_when_its_task_is_cancelled(covalent_server, kubeflow_rig):
    nowhere = {"rig.test/never": "yes"}
    task = Task(covalent_server, kubeflow_rig, "", kind="PyTorchJob", num_nodes=2, node_selector=nowhere)
    eventually(lambda: len(task.pods()) == 2, 30, "the pods are there")
    cancel(covalent_server, task.id)
    cancel(covalent_server, task.id)
    assert task.finished() == "CANCELLED"
    assert kubeflow_rig.get("PyTorchJob", task.job, task.namespace) is None
    eventually(lambda: not task.pods(), 30, "the pods are gone")
