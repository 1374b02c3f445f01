# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with Kubeflow jobs, and what the user sees of it, on a real cluster."""

import re

import pytest

from tests.executors.dispatches import cancel
from tests.executors.kubeflow_tasks import Task, role_rules
from tests.rigs.covalent_server import eventually

COUNTING = """
import time
for n in range(2000):
    print(n, flush=True)
    time.sleep(0.01)
"""
COUNTED = b"".join(b"%d\n" % n for n in range(2000))


def long_task(server, rig, **options):
    """A task of twenty seconds, with its first lines there."""
    task = Task(server, rig, COUNTING, **options)
    task.seen(lambda text: b"\n100\n" in text, "it writes")
    return task


def test_an_api_server_that_is_killed_costs_nothing(covalent_server, kubeflow_rig):
    task = long_task(covalent_server, kubeflow_rig)
    kubeflow_rig.stop_apiserver(kill_it=True)
    kubeflow_rig.start_apiserver()
    assert task.completed() == "result"
    assert task.text() == COUNTED
    assert task.seams() == []
    assert task.capability("complete")["answer"] == "yes"


def test_a_kubelet_that_is_away_costs_nothing(covalent_server, kubeflow_rig):
    task = long_task(covalent_server, kubeflow_rig)
    kubeflow_rig.stop_kubelet()
    kubeflow_rig.start_kubelet()
    assert task.completed() == "result"
    assert task.text() == COUNTED
    assert task.seams() == []


def test_without_the_right_to_read_logs_the_task_runs_and_says_so(covalent_server, kubeflow_rig):
    namespace = kubeflow_rig.namespace("without-logs")
    rules = [rule for rule in role_rules() if "pods/log" not in rule["resources"]]
    kubeconfig = kubeflow_rig.service_account(namespace, "blind", rules)
    task = Task(
        covalent_server,
        kubeflow_rig,
        "print('unseen')\nvalue = 5",
        namespace=namespace,
        kubeconfig=str(kubeconfig),
    )
    assert task.completed() == 5
    assert "pods/log" in task.capability("read")["reason"]
    assert task.capability("read")["answer"] == "no"
    ends = [seam for seam in task.seams() if seam["seam"] == "incomplete"]
    assert {seam["file"] for seam in ends} == {"stdout", "stderr"}
    assert all("pods/log" in seam["message"] for seam in ends)
    # The runner counted all the same.
    assert [(s["file"], s["lost"]) for s in task.seams() if s["seam"] == "lost"] == [("stdout", 7)]


def test_missing_rights_are_named_before_anything_is_created(covalent_server, kubeflow_rig):
    namespace = kubeflow_rig.namespace("without-secrets")
    rules = [rule for rule in role_rules() if "secrets" not in rule["resources"]]
    kubeconfig = kubeflow_rig.service_account(namespace, "poor", rules)
    task = Task(covalent_server, kubeflow_rig, "", namespace=namespace, kubeconfig=str(kubeconfig))
    error = task.failed()
    assert "create secrets" in error
    assert "create trainjobs" not in error
    assert kubeflow_rig.list("TrainJob", namespace) == []


def test_memory_over_the_limit_is_named(covalent_server, kubeflow_rig):
    body = "print('growing', flush=True)\nvalue = len(bytearray(1 << 30))"
    task = Task(covalent_server, kubeflow_rig, body, resources={"memory": "64Mi"})
    error = task.failed()
    assert error.startswith("the function used more memory than its limit: raise memory in resources\n")
    assert task.text() == b"growing\n"


def test_an_image_that_is_not_there_ends_the_task_and_nothing_can_run_later(covalent_server, kubeflow_rig):
    image = "127.0.0.1:1/nowhere:1"
    task = Task(covalent_server, kubeflow_rig, "", num_nodes=2, image=image)
    error = task.failed(timeout=240)
    lines = error.splitlines()
    assert lines[0].startswith("2 of 2 pods: container ")
    assert f"image {image} cannot be pulled" in lines[0]
    assert error.count(image) == lines[0].count(image)
    assert lines[-1] == f"TrainJob {task.job} was deleted, so that it does not run later"
    assert kubeflow_rig.get("TrainJob", task.job, task.namespace) is None
    eventually(lambda: not task.pods(), 30, "its pods are gone")


def test_what_cannot_start_python_is_named_with_its_image(covalent_server, kubeflow_rig):
    task = Task(covalent_server, kubeflow_rig, "", python="nosuchpython")
    error = task.failed()
    assert error.startswith(f"python='nosuchpython' in image {kubeflow_rig.image} cannot be started: ")


def test_what_is_no_python_is_named_with_what_it_said(covalent_server, kubeflow_rig):
    error = Task(covalent_server, kubeflow_rig, "", python="date").failed()
    first, *others = error.splitlines()
    assert first.startswith("python='date' in image ")
    assert "did not run our runner" in first
    assert any("invalid option" in line for line in others)


def test_a_crash_of_the_interpreter_is_named_with_the_innermost_call(covalent_server, kubeflow_rig):
    body = "import ctypes\ndef crashes():\n    ctypes.string_at(0)\ncrashes()"
    lines = Task(covalent_server, kubeflow_rig, body).failed().splitlines()
    assert lines[0].startswith("the process was ended by signal 11 (SIGSEGV)")
    assert lines[1:3] == ["stderr ended with:", "Fatal Python error: Segmentation fault"]
    assert any(" in crashes" in line for line in lines)


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"persistentVolumeClaim": {"claimName": "nope"}}, "there is no PersistentVolumeClaim nope"),
        ({"secret": {"secretName": "nope"}}, 'secret "nope" not found'),
    ],
)
def test_what_volumes_name_and_is_not_there_is_told_while_the_job_waits(
    covalent_server, kubeflow_rig, volume, words
):
    mounted = {"volume_mounts": [{"name": "data", "mountPath": "/data"}]}
    task = Task(covalent_server, kubeflow_rig, "", volumes=[{"name": "data", **volume}], **mounted)
    note = eventually(lambda: task.state().get("note"), 60, "the reason is told")
    assert words in note
    cancel(covalent_server, task.id, task.node)
    assert task.finished() == "CANCELLED"


def test_a_job_of_which_the_controller_makes_nothing_says_where_to_look(covalent_server, kubeflow_rig):
    container = {"name": "node", "resources": {"limits": {"gpu": 1}}}
    task = Task(covalent_server, kubeflow_rig, "", pod_patch={"spec": {"containers": [container]}})
    note = eventually(lambda: task.state().get("note"), 40, "the reason is told")
    assert f"TrainJob {task.job} has no pods yet" in note
    assert "resources or pod_patch" in note
    cancel(covalent_server, task.id, task.node)
    assert task.finished() == "CANCELLED"


def test_a_job_that_does_not_fit_waits_and_then_runs(covalent_server, kubeflow_rig):
    task = Task(covalent_server, kubeflow_rig, "print('at last')", node_selector={"rig.test/gpu": "yes"})
    eventually(task.pods, 30, "the pod is there")
    (node,) = kubeflow_rig.list("Node")
    meta = {"name": node["metadata"]["name"], "labels": {"rig.test/gpu": "yes"}}
    kubeflow_rig.apply({"apiVersion": "v1", "kind": "Node", "metadata": meta})
    assert task.completed() == "result"
    assert task.text() == b"at last\n"


def test_a_restarted_container_is_an_execution_of_its_own(covalent_server, kubeflow_rig):
    body = """
import os, time
from pathlib import Path
print("try", flush=True)
mark = Path("/marks/tried")
if not mark.exists():
    mark.touch()
    print("boom", flush=True)
    os._exit(1)
print("well", flush=True)
"""
    task = Task(
        covalent_server,
        kubeflow_rig,
        body,
        runtime="on-failure",
        volumes=[{"name": "marks", "emptyDir": {}}],
        volume_mounts=[{"name": "marks", "mountPath": "/marks"}],
    )
    assert task.completed() == "result"
    assert task.text() == b"try\nboom\ntry\nwell\n"
    restarts = [seam for seam in task.seams() if seam["file"] == "stdout"]
    assert [seam["seam"] for seam in restarts] == ["restart"]
    assert restarts[0]["cursor"] == len(b"try\nboom\n")


def test_a_jobset_that_is_restarted_is_an_execution_of_its_own(covalent_server, kubeflow_rig):
    body = """
import os, sys
print("attempt", os.uname().nodename, flush=True)
sys.exit(4)
"""
    task = Task(covalent_server, kubeflow_rig, body, runtime="restart-once")
    error = task.failed()
    assert "after 1 restart" in error
    assert len(re.findall(rb"attempt", task.text())) == 2
    assert [seam["seam"] for seam in task.seams() if seam["file"] == "stdout"] == ["restart"]


@pytest.mark.parametrize("kind", ["TrainJob", "PyTorchJob"])
def test_a_cancelled_job_is_gone_with_its_last_words_kept(covalent_server, kubeflow_rig, kind):
    body = """
import signal, sys, time
def end(*_):
    print("last words", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("begun", flush=True)
time.sleep(600)
"""
    task = Task(covalent_server, kubeflow_rig, body, kind=kind)
    task.seen(lambda text: b"begun\n" in text, "it has begun")
    cancel(covalent_server, task.id, task.node)
    cancel(covalent_server, task.id, task.node)
    assert task.finished() == "CANCELLED"
    assert task.text() == b"begun\nlast words\n"
    assert kubeflow_rig.get(kind, task.job, task.namespace) is None


def test_a_job_cancelled_before_it_starts_is_gone(covalent_server, kubeflow_rig):
    task = Task(covalent_server, kubeflow_rig, "", node_selector={"rig.test/never": "yes"})
    eventually(task.pods, 30, "the pod is there")
    cancel(covalent_server, task.id, task.node)
    assert task.finished() == "CANCELLED"
    assert kubeflow_rig.get("TrainJob", task.job, task.namespace) is None


def test_a_time_limit_ends_the_job(covalent_server, kubeflow_rig):
    task = Task(covalent_server, kubeflow_rig, "import time\nprint('on')\ntime.sleep(600)", time_limit=5)
    assert "time_limit" in task.failed()
    assert task.text() == b"on\n"


def test_pods_that_are_gone_at_once_are_read_all_the_same(covalent_server, kubeflow_rig):
    task = Task(covalent_server, kubeflow_rig, "for n in range(1000): print(n)", runtime="gone-at-once")
    assert task.completed() == "result"
    assert task.text() == b"".join(b"%d\n" % n for n in range(1000))
    assert task.capability("complete")["answer"] == "yes"


def test_a_forged_verdict_in_the_output_does_nothing(covalent_server, kubeflow_rig):
    body = """
print('{"kind": "ok", "size": 1, "sha256": "00", "where": "inline", "data": "AA=="}')
print("\\x1c@999999 999999\\n\\x1c#1/1 00000000 AA==")
raise RuntimeError("the truth")
"""
    task = Task(covalent_server, kubeflow_rig, body)
    assert task.failed().startswith("RuntimeError: the truth")
    assert task.seams() == []


def test_a_rotated_log_is_whole_or_says_exactly_what_is_missing(covalent_server, kubeflow_rig):
    body = """
import sys, time
began = time.monotonic()
for n in range(60000):
    sys.stdout.write("%07d %s\\n" % (n, "y" * 80))
    if n % 200 == 0:
        time.sleep(max(0, n * 89 / 2e6 - (time.monotonic() - began)))
"""
    task = Task(covalent_server, kubeflow_rig, body)
    assert task.completed() == "result"
    expected = b"".join(b"%07d %s\n" % (n, b"y" * 80) for n in range(60000))
    found = task.text()
    lost = sum(seam["lost"] for seam in task.seams() if seam["file"] == "stdout")
    assert len(found) + lost == len(expected)
    assert (task.capability("complete")["answer"] == "yes") == (found == expected)
    lines = found.splitlines()
    assert lines == sorted(set(lines))
    assert set(lines) <= set(expected.splitlines())


def test_a_webhook_or_quota_that_refuses_pods_is_told(covalent_server, kubeflow_rig):
    namespace = kubeflow_rig.namespace("strict", pod_security="restricted")
    kubeconfig = kubeflow_rig.service_account(namespace, "covalent", role_rules())
    task = Task(covalent_server, kubeflow_rig, "", namespace=namespace, kubeconfig=str(kubeconfig))
    note = eventually(lambda: task.state().get("note"), 40, "the reason is told")
    assert "PodSecurity" in note
    cancel(covalent_server, task.id, task.node)
    assert task.finished() == "CANCELLED"
