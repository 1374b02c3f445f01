# SPDX-License-Identifier: Apache-2.0
"""Kubeflow jobs that are stopped and go on: suspended by hand or by a queue, on a real cluster."""

import pytest

from tests.cluster.kubeflow_workloads import served_kueue
from tests.executors.dispatches import cancel
from tests.executors.kubeflow_lives import (
    LINES,
    admission,
    counting,
    executions,
    is_suspended,
    is_whole,
    suspend,
    writes,
)
from tests.executors.kubeflow_tasks import account
from tests.rigs.covalent_server import eventually


def note_of(task, word):
    """Wait until the node says so; what it says."""
    return eventually(lambda: word in (note := task.state().get("note", "")) and note, 30, f"it says {word}")


@pytest.mark.parametrize(("kind", "leave"), [("TrainJob", "exit"), ("PyTorchJob", "return")])
def test_a_suspended_job_that_is_resumed_is_two_executions(covalent_server, kubeflow_rig, kind, leave):
    task = counting(covalent_server, kubeflow_rig, leave=leave, kind=kind)
    writes(task)
    suspend(task, kind, value=True)
    assert "suspend: false" in note_of(task, "suspended")
    # Training Operator would else take the end of the old pod for the job's.
    eventually(lambda: not task.pods(), 30, "its pods are gone")
    suspend(task, kind, value=False)
    assert task.completed() == ["whole", LINES]
    first, second = executions(task)
    assert is_whole(first)
    assert is_whole(second)
    assert second.count(b"\n") == LINES + 1
    assert task.state().get("note") == ""
    assert task.capability("complete")["answer"] in {"yes", "unknown"}


def set_suspend(spec):
    """What Kueue's webhook does to a job that names a queue."""
    (spec["runPolicy"] if "pytorchReplicaSpecs" in spec else spec)["suspend"] = True


@pytest.mark.parametrize(("kind", "leave"), [("TrainJob", "return"), ("PyTorchJob", "exit")])
def test_a_queue_alone_decides_when_a_job_runs(covalent_server, kubeflow_rig, kind, leave):
    namespace, _ = account(kubeflow_rig)
    with served_kueue(kubeflow_rig), admission(kubeflow_rig, namespace, set_suspend) as requests:
        task = counting(covalent_server, kubeflow_rig, leave=leave, kind=kind, queue="research")
        assert "queue research" in note_of(task, "suspended")
        assert kubeflow_rig.get("Secret", task.job, namespace) is not None
        assert task.pods() == []
        suspend(task, kind, value=False)
        writes(task)
        suspend(task, kind, value=True)
        # Kueue lets a job run again when it has no pods any more; Training Operator would else count the exit
        # code of the old one against the job.
        eventually(lambda: not task.pods(), 60, "its pods are gone")
        note_of(task, "suspended")
        suspend(task, kind, value=False)
        assert task.completed() == ["whole", LINES]
    first, second = executions(task)
    assert is_whole(first)
    assert is_whole(second)
    assert second.count(b"\n") == LINES + 1
    ours = [request for request in requests if "covalent" in request["userInfo"]["username"]]
    assert {request["operation"] for request in ours} == {"CREATE"}
    assert not any(is_suspended(request["object"]) for request in ours)


def test_a_job_that_waits_in_a_queue_can_be_cancelled(covalent_server, kubeflow_rig):
    namespace, _ = account(kubeflow_rig)
    with served_kueue(kubeflow_rig), admission(kubeflow_rig, namespace, set_suspend):
        task = counting(covalent_server, kubeflow_rig, queue="research")
        note_of(task, "suspended")
        cancel(covalent_server, task.id, task.node)
        assert task.finished() == "CANCELLED"
    assert kubeflow_rig.get("TrainJob", task.job, namespace) is None
    assert task.text() == b""
    assert task.seams() == []


def test_a_suspended_job_that_is_cancelled_keeps_what_it_wrote(covalent_server, kubeflow_rig):
    task = counting(covalent_server, kubeflow_rig, kind="PyTorchJob")
    writes(task)
    suspend(task, "PyTorchJob", value=True)
    note_of(task, "suspended")
    cancel(covalent_server, task.id, task.node)
    cancel(covalent_server, task.id, task.node)
    assert task.finished() == "CANCELLED"
    (text,) = executions(task)
    assert is_whole(text)
    assert kubeflow_rig.get("PyTorchJob", task.job, task.namespace) is None
    assert task.pods() == []
