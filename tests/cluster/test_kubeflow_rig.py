# SPDX-License-Identifier: Apache-2.0
"""The rig itself: what the other tests lean on."""

import subprocess
from pathlib import Path

import pytest
from kubernetes.client import ApiException, CoreV1Api
from kubernetes.config import new_client_from_config

from tests.rigs.cutting_proxy import CuttingProxy
from tests.rigs.daemons import alive, until
from tests.rigs.kubeflow import NEWEST, KubeflowRig

JOBSET = "jobset.sigs.k8s.io/jobset-name"


@pytest.fixture(scope="module")
def namespace(kubeflow_rig):
    return kubeflow_rig.namespace("of-the-rig")


def run_train_job(rig, namespace, name, code, *, nodes=1, runtime=None):
    """Run a TrainJob to its end and return its pods, by rank."""
    ref = {"name": "torch-distributed", "kind": "ClusterTrainingRuntime"}
    if runtime:
        ref = {"name": runtime, "kind": "TrainingRuntime"}
    trainer = {"numNodes": nodes, "command": ["python3", "-c", code]}
    api = "trainer.kubeflow.org/v1alpha1"
    meta = {"name": name, "namespace": namespace}
    spec = {"runtimeRef": ref, "trainer": trainer}
    rig.apply({"apiVersion": api, "kind": "TrainJob", "metadata": meta, "spec": spec})
    until(
        lambda: condition(rig, "TrainJob", name, namespace) in {"Complete", "Failed"},
        f"{name} ends",
        timeout=60,
    )
    pods = rig.list("Pod", namespace, f"{JOBSET}={name}")
    index = "batch.kubernetes.io/job-completion-index"
    return sorted(pods, key=lambda pod: int(pod["metadata"]["labels"][index]))


def condition(rig, kind, name, namespace):
    """The last condition that holds."""
    conditions = (rig.get(kind, name, namespace) or {}).get("status", {}).get("conditions", [])
    return next((c["type"] for c in reversed(conditions) if c["status"] == "True"), None)


def start_pod(rig, namespace, name, code):
    """Start a pod that runs Python code and return its uid once it runs."""
    container = {"name": "node", "image": rig.image, "command": ["python3", "-uc", code]}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    meta = {"name": name, "namespace": namespace}
    pod = rig.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    wait_for_phase(rig, namespace, name, {"Running", "Succeeded"})
    return pod["metadata"]["uid"]


def wait_for_phase(rig, namespace, name, phases):
    until(
        lambda: rig.get("Pod", name, namespace)["status"]["phase"] in phases,
        f"{name} is {phases}",
        timeout=60,
    )


def log_of(kubeconfig, namespace, name):
    core = CoreV1Api(new_client_from_config(str(kubeconfig)))
    return core.read_namespaced_pod_log(name, namespace, _preload_content=False).data


def test_a_train_job_of_two_nodes_runs_and_the_node_knows_what_each_wrote(kubeflow_rig, namespace):
    code = "import os, sys; print('rank', os.environ['PET_NODE_RANK']); print('to stderr', file=sys.stderr)"
    pods = run_train_job(kubeflow_rig, namespace, "two-nodes", code, nodes=2)
    assert condition(kubeflow_rig, "TrainJob", "two-nodes", namespace) == "Complete"
    for rank, pod in enumerate(pods):
        uid = pod["metadata"]["uid"]
        assert kubeflow_rig.ground_truth(uid, stream="stdout") == f"rank {rank}\n".encode()
        assert kubeflow_rig.ground_truth(uid, stream="stderr") == b"to stderr\n"
        assert sorted(kubeflow_rig.ground_truth(uid).splitlines()) == [f"rank {rank}".encode(), b"to stderr"]


def test_a_pytorch_job_runs(kubeflow_rig, namespace):
    container = {"name": "pytorch", "image": kubeflow_rig.image}
    container["command"] = ["python3", "-c", "import os; print('rank', os.environ['RANK'])"]
    replica = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
    job["metadata"] = {"name": "pair", "namespace": namespace}
    job["spec"] = {"pytorchReplicaSpecs": {"Master": replica, "Worker": replica}}
    kubeflow_rig.apply(job)
    until(
        lambda: condition(kubeflow_rig, "PyTorchJob", "pair", namespace) == "Succeeded",
        "it succeeds",
        timeout=60,
    )
    for rank, name in enumerate(("pair-master-0", "pair-worker-0")):
        wait_for_phase(kubeflow_rig, namespace, name, {"Succeeded"})
        uid = kubeflow_rig.get("Pod", name, namespace)["metadata"]["uid"]
        assert kubeflow_rig.ground_truth(uid, "pytorch") == f"rank {rank}\n".encode()


@pytest.mark.parametrize("runtime", ["never", "restart-once", "gone-at-once"])
def test_a_runtime_for_failures_does_what_its_name_says(kubeflow_rig, namespace, runtime):
    pods = run_train_job(kubeflow_rig, namespace, f"fails-{runtime}", "raise SystemExit(3)", runtime=runtime)
    assert condition(kubeflow_rig, "TrainJob", f"fails-{runtime}", namespace) == "Failed"
    if runtime == "gone-at-once":
        selector = f"{JOBSET}=fails-gone-at-once"
        until(lambda: not kubeflow_rig.list("Pod", namespace, selector), "its pods are gone")
    else:
        attempt = {"never": "0", "restart-once": "1"}[runtime]
        assert [pod["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] for pod in pods] == [attempt]


def test_a_container_that_fails_is_started_again_in_its_pod(kubeflow_rig, namespace):
    code = "import os, sys; print('here'); there = os.path.exists('/tmp/x/y'); sys.exit(0 if there else 1)"
    volume = {"name": "kept", "emptyDir": {}}
    container = {
        "name": "node",
        "image": kubeflow_rig.image,
        "volumeMounts": [{"name": "kept", "mountPath": "/tmp/x"}],
    }
    container["command"] = ["sh", "-c", f'python3 -c "{code}" || {{ touch /tmp/x/y; exit 1; }}']
    spec = {"restartPolicy": "OnFailure", "containers": [container], "volumes": [volume]}
    meta = {"name": "again", "namespace": namespace}
    pod = kubeflow_rig.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    wait_for_phase(kubeflow_rig, namespace, "again", {"Succeeded"})
    uid = pod["metadata"]["uid"]
    assert [kubeflow_rig.ground_truth(uid, restart=restart) for restart in (0, 1)] == [b"here\n", b"here\n"]


def test_the_node_keeps_every_rotated_file_with_long_and_unfinished_lines(kubeflow_rig, namespace):
    code = """
import os, time
for number in range(60):
    os.write(1, b'%06d' % number + b'x' * 50_000 + (b'\\n' if number % 3 else b''))
    os.write(1, b'short %d\\n' % number * 2000)
    time.sleep(0.2)
os.write(1, b'the end')
"""
    uid = start_pod(kubeflow_rig, namespace, "rotated", code)
    wait_for_phase(kubeflow_rig, namespace, "rotated", {"Succeeded"})
    parts = [
        b"%06d" % n + b"x" * 50_000 + (b"\n" if n % 3 else b"") + b"short %d\n" % n * 2000 for n in range(60)
    ]
    files = list((kubeflow_rig.folder / "pods").glob(f"*_{uid}/node/*"))
    assert len(files) > 2
    assert any(path.suffix == ".gz" for path in files)
    assert kubeflow_rig.ground_truth(uid) == b"".join(parts) + b"the end"


def test_an_account_may_do_what_its_rules_say_and_no_more(kubeflow_rig, namespace):
    start_pod(kubeflow_rig, namespace, "read-me", "print('text')")
    wait_for_phase(kubeflow_rig, namespace, "read-me", {"Succeeded"})
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
    logs = {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}
    blind = kubeflow_rig.service_account(namespace, "blind", [pods])
    reader = kubeflow_rig.service_account(namespace, "reader", [pods, logs])
    assert log_of(reader, namespace, "read-me") == b"text\n"
    with pytest.raises(ApiException, match="cannot get resource"):
        log_of(blind, namespace, "read-me")


def test_a_token_ends_when_it_should(kubeflow_rig, namespace):
    kubeflow_rig.service_account(namespace, "brief", [])
    token = kubeflow_rig.short_token(namespace, "brief", 3)
    config = kubeflow_rig.kubeconfig_for({"token": token})
    with pytest.raises(ApiException, match="cannot get resource"):
        log_of(config, namespace, "any")

    def refused():
        try:
            log_of(config, namespace, "any")
        except ApiException as error:
            return error.status == 401
        return False

    until(refused, "the token is refused", timeout=30)


def test_the_api_server_is_reached_through_a_proxy_that_cuts(kubeflow_rig):
    proxy = CuttingProxy(kubeflow_rig.api_port, lambda number: 20_000 if number == 0 else None)
    config = kubeflow_rig.kubeconfig_for(port=proxy.port)
    core = CoreV1Api(new_client_from_config(str(config)))
    lists = [len(core.list_namespace().items) for _ in range(10)]
    proxy.close()
    assert (proxy.cuts, len(set(lists))) == (1, 1)


def test_pod_security_is_enforced_where_asked(kubeflow_rig):
    strict = kubeflow_rig.namespace("of-the-rig-strict", pod_security="restricted")
    with pytest.raises(ApiException, match="violates PodSecurity"):
        start_pod(kubeflow_rig, strict, "lax", "pass")


def test_what_is_stopped_comes_back_and_containers_run_on(kubeflow_rig, namespace):
    uid = start_pod(kubeflow_rig, namespace, "lasting", "import time; print('on'); time.sleep(600)")
    until(lambda: log_of(kubeflow_rig.kubeconfig, namespace, "lasting") == b"on\n", "it has printed")
    kubeflow_rig.stop_kubelet()
    with pytest.raises(ApiException, match="connection refused"):
        log_of(kubeflow_rig.kubeconfig, namespace, "lasting")
    kubeflow_rig.start_kubelet()
    kubeflow_rig.restart_containerd()
    kubeflow_rig.stop_apiserver(kill_it=True)
    kubeflow_rig.start_apiserver()
    with kubeflow_rig.frozen("kubelet"):
        assert kubeflow_rig.get("Pod", "lasting", namespace)["status"]["phase"] == "Running"

    def readable():
        try:
            return log_of(kubeflow_rig.kubeconfig, namespace, "lasting") == b"on\n"
        except ApiException:
            return False

    until(readable, "the log can be read again")
    status = kubeflow_rig.get("Pod", "lasting", namespace)["status"]["containerStatuses"][0]
    assert (status["restartCount"], kubeflow_rig.ground_truth(uid)) == (0, b"on\n")
    kubeflow_rig.delete("Pod", "lasting", namespace)
    until(lambda: kubeflow_rig.get("Pod", "lasting", namespace) is None, "the pod is gone")
    assert kubeflow_rig.ground_truth(uid) == b"on\n"


def test_a_second_rig_with_the_newest_trainer_lives_beside_the_first_and_leaves_nothing(
    kubeflow_rig, tmp_path
):
    before = machine_state()
    second = KubeflowRig(tmp_path / "second", NEWEST).start()
    try:
        assert second.namespace("default") == "default"
        [pod] = run_train_job(second, "default", "newest", "print('hello')")
        assert second.ground_truth(pod["metadata"]["uid"]) == b"hello\n"
        start_pod(second, "default", "lasting", "import time; time.sleep(600)")
        found = KubeflowRig(tmp_path / "second")
        assert (found.trainer, found.api_port) == (NEWEST, second.api_port)
        processes = second.node.mounts.processes()
        bridge = second.node.network.bridge
        groups = second.node.control_groups()
        containers = [int(pid) for group in groups for pid in (group / "cgroup.procs").read_text().split()]
        assert (len(left_by(bridge)) >= 2, len(set(containers)) >= 2) == (True, True)
    finally:
        second.stop()
    assert machine_state() == before
    assert left_by(bridge) == []
    assert not any(alive(pid) for pid in processes + containers)
    assert not any(group.exists() for group in groups)
    assert not second.folder.exists()
    assert kubeflow_rig.node_is_ready()


def test_the_same_cluster_can_go_on_with_another_trainer(kubeflow_rig, namespace):
    was = kubeflow_rig.trainer
    kubeflow_rig.use_trainer(NEWEST)
    [pod] = run_train_job(kubeflow_rig, namespace, "other-trainer", "print('newest')", runtime="never")
    assert kubeflow_rig.ground_truth(pod["metadata"]["uid"]) == b"newest\n"
    kubeflow_rig.use_trainer(was)
    [pod] = run_train_job(kubeflow_rig, namespace, "this-trainer", "print('oldest')", runtime="never")
    assert kubeflow_rig.ground_truth(pod["metadata"]["uid"]) == b"oldest\n"


def left_by(bridge):
    """A rig's bridge and the pods' ends of it."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    return [line for line in links.splitlines() if bridge in line]


def machine_state():
    """Where a node would write outside its folder, mount or set something."""
    fixed = ["/run/netns", "/run/containerd", "/var/lib/cni", "/var/lib/kubelet", "/var/log/pods", "/etc/cni"]
    fixed += ["/var/log/containers", "/opt/containerd", "/tmp/k8s-webhook-server", "/usr/libexec/kubernetes"]
    files = {
        str(path) for folder in fixed for path in [Path(folder), *Path(folder).rglob("*")] if path.exists()
    }
    options = [Path("/proc/sys", name).read_text() for name in ("kernel/panic", "net/ipv4/ip_forward")]
    return files, options, Path("/proc/self/mounts").read_text()
