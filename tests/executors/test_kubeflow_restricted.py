# SPDX-License-Identifier: Apache-2.0
"""Kubeflow tasks in locked-down pods, beside a sidecar that goes on, and with runtimes that do not serve."""

import random
import re

import pytest
import yaml

from tests.cluster.kubeflow_workloads import EXAMPLE, restricted_pod, runtime_pod
from tests.executors.kubeflow_tasks import Task, account, role_rules

LOCKED = """
import os, random, sys
print("uid", os.getuid(), flush=True)
print("writable:", [folder for folder in ("/", "/tmp", ".") if os.access(folder, os.W_OK)], file=sys.stderr)
value = random.Random(1).randbytes(100_000).hex()
"""


@pytest.fixture(scope="module")
def locked_down(kubeflow_rig):
    """Options for a namespace with the policy ``restricted``, whose runtime is the documented one for it."""
    namespace = kubeflow_rig.namespace("locked-down", pod_security="restricted")
    kubeconfig = kubeflow_rig.service_account(namespace, "covalent", role_rules())
    # What the documented runtime has in comments for that policy.
    text = re.sub(r"(?m)^( +)#   ", r"\1", (EXAMPLE / "runtime.yaml").read_text())
    runtime = yaml.safe_load(text)
    runtime["metadata"]["namespace"] = namespace
    (container,) = runtime_pod(runtime)["containers"]
    container["image"] = kubeflow_rig.image
    container["securityContext"]["readOnlyRootFilesystem"] = True
    kubeflow_rig.apply(runtime)
    kubeflow_rig.wait_for_runtime(runtime)
    return {"namespace": namespace, "kubeconfig": str(kubeconfig), "runtime": runtime["metadata"]["name"]}


@pytest.mark.parametrize(
    "more",
    [{}, {"kind": "PyTorchJob", "pod_patch": restricted_pod("pytorch")}],
    ids=["TrainJob", "PyTorchJob"],
)
def test_a_pod_under_the_strictest_policy_with_a_read_only_root_runs_the_task(
    covalent_server, kubeflow_rig, locked_down, more
):
    task = Task(covalent_server, kubeflow_rig, LOCKED, **locked_down, **more)
    assert task.completed() == random.Random(1).randbytes(100_000).hex()
    assert task.text() == b"uid 1000\n"
    assert task.text("stderr") == b"writable: []\n"
    assert task.capability("complete")["answer"] == "yes"


def sidecar(rig):
    """A container that writes and never ends."""
    code = "import time\nwhile True:\n    print('beside', flush=True)\n    time.sleep(0.1)"
    return {"name": "side", "image": rig.image, "command": ["python3", "-c", code]}


@pytest.mark.parametrize(
    ("end", "outcome"), [("value = 3", "COMPLETED"), ("raise ValueError('not today')", "FAILED")]
)
def test_a_sidecar_that_goes_on_neither_shows_nor_holds_up_the_end(
    covalent_server, kubeflow_rig, end, outcome
):
    body = f"print('at work', flush=True)\n{end}"
    patch = {"spec": {"containers": [sidecar(kubeflow_rig)]}}
    task = Task(covalent_server, kubeflow_rig, body, kind="PyTorchJob", pod_patch=patch)
    assert task.finished(60) == outcome
    assert task.text() == b"at work\n"
    assert task.capability("complete")["answer"] == "yes"
    if outcome == "FAILED":
        assert task.error().startswith("ValueError: not today")
    else:
        assert kubeflow_rig.get("PyTorchJob", task.job, task.namespace) is None


def test_a_sidecar_of_the_runtimes_own_does_not_hold_up_a_train_job(covalent_server, kubeflow_rig):
    runtime = own_runtime(kubeflow_rig, "with-sidecar")
    runtime_pod(runtime)["containers"].append(sidecar(kubeflow_rig))
    known(kubeflow_rig, runtime)
    # Injected as a mutating webhook would, and patched by the task.
    patch = {"spec": {"containers": [{"name": "side", "env": [{"name": "A", "value": "b"}]}]}}
    task = Task(covalent_server, kubeflow_rig, "print('alone')", runtime="with-sidecar", pod_patch=patch)
    assert task.completed(60) == "result"
    assert task.text() == b"alone\n"
    assert kubeflow_rig.get("TrainJob", task.job, task.namespace) is None


def own_runtime(rig, name):
    """The documented runtime under another name in the tasks' namespace, not yet there."""
    runtime = yaml.safe_load((EXAMPLE / "runtime.yaml").read_text())
    runtime["metadata"] |= {"name": name, "namespace": account(rig)[0]}
    runtime_pod(runtime)["containers"][0]["image"] = rig.image
    return runtime


def known(rig, runtime):
    """Have Trainer know a runtime."""
    rig.apply(runtime)
    rig.wait_for_runtime(runtime)


def mpi(rig, name):
    """A runtime like Trainer's own for DeepSpeed: the function would run in a launcher."""
    runtime = own_runtime(rig, name)
    runtime["spec"]["mlPolicy"] = {
        "numNodes": 1,
        "mpi": {"numProcPerNode": 1, "mpiImplementation": "OpenMPI"},
    }
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    pod = {"containers": [{"name": "node", "image": rig.image}]}
    launcher = {"name": "launcher", "template": {"spec": {"template": {"spec": pod}}}}
    launcher["template"]["metadata"] = node["template"].pop("metadata")
    runtime["spec"]["template"]["spec"]["replicatedJobs"] = [launcher, node]
    return runtime


def test_a_runtime_for_mpi_is_refused_before_anything_is_created(covalent_server, kubeflow_rig):
    known(kubeflow_rig, mpi(kubeflow_rig, "mpi"))
    task = Task(covalent_server, kubeflow_rig, "print('ran')", runtime="mpi")
    error = task.failed()
    assert error.startswith("runtime: TrainingRuntime mpi is for MPI")
    assert "nothing was submitted" in error
    assert kubeflow_rig.get("TrainJob", task.job, task.namespace) is None
    assert kubeflow_rig.get("Secret", task.job, task.namespace) is None


def test_a_runtime_for_mpi_that_the_server_may_not_look_at_is_named_afterwards(covalent_server, kubeflow_rig):
    kind, runtime = "ClusterTrainingRuntime", mpi(kubeflow_rig, "unseen-mpi")
    runtime["kind"] = kind
    del runtime["metadata"]["namespace"]
    known(kubeflow_rig, runtime)
    task = Task(covalent_server, kubeflow_rig, "print('ran')", runtime="unseen-mpi", runtime_kind=kind)
    error = task.failed()
    assert error.startswith("the job is complete, but none of its nodes tells that it ran the function")
    assert f"if {kind} unseen-mpi is one, use another" in error
    kubeflow_rig.delete(kind, "unseen-mpi")
