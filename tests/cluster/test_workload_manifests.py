# SPDX-License-Identifier: Apache-2.0
import copy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.cluster.manifests import QUEUE, literal, merge, payload_secret, pod_template
from covalent_joblog_plugin.cluster.pytorch_job import PyTorchJob
from covalent_joblog_plugin.cluster.train_job import TrainJob
from covalent_joblog_plugin.model.errors import OptionError
from tests.cluster.workload_specs import KINDS, SPEC

FULL = replace(
    SPEC,
    labels={"l": "1"},
    annotations={"a": "1"},
    environment={"A": "1"},
    secret_environment={"S": ("train-1f", "k")},
    resources={"cpu": "2"},
    service_account="sa",
    pod_labels={"pl": "1"},
    pod_annotations={"pa": "1"},
    volumes=[{"name": "v", "emptyDir": {}}],
    volume_mounts=[{"name": "v", "mountPath": "/v"}],
    image_pull_secrets=["cred"],
    node_selector={"n": "1"},
    tolerations=[{"key": "t"}],
    termination_grace=0,
)
POD = {
    "metadata": {"labels": {"pl": "1"}, "annotations": {"pa": "1"}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "img:1",
                "command": ["python3", "-c", "pass"],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "S", "valueFrom": {"secretKeyRef": {"name": "train-1f", "key": "k"}}},
                ],
                "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "serviceAccountName": "sa",
        "imagePullSecrets": [{"name": "cred"}],
        "nodeSelector": {"n": "1"},
        "tolerations": [{"key": "t"}],
        "terminationGracePeriodSeconds": 0,
    },
}


def test_every_setting_has_its_place_in_the_pod_template():
    assert pod_template(FULL, "c") == POD


def test_a_train_job_without_settings_of_pods_has_none():
    assert TrainJob().manifest(replace(SPEC, image=None)) == {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "train-1f", "namespace": "ml"},
        "spec": {
            "runtimeRef": {"name": "torch", "kind": "ClusterTrainingRuntime"},
            "trainer": {"numNodes": 2, "command": ["python3", "-c", "pass"]},
            "suspend": True,
        },
    }


def test_a_train_job_has_the_containers_settings_in_trainer_and_the_pods_in_a_patch():
    spec = TrainJob().manifest(FULL)["spec"]
    container = POD["spec"]["containers"][0]
    assert spec["trainer"] == {
        "numNodes": 2,
        "image": "img:1",
        "command": ["python3", "-c", "pass"],
        "env": container["env"],
        "resourcesPerNode": container["resources"],
    }
    mounts = [{"name": "node", "volumeMounts": container["volumeMounts"]}]
    (patch,) = spec["runtimePatches"]
    (job,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert patch["manager"] == "covalent-joblog/executor"
    pod = {**POD, "spec": {**POD["spec"], "containers": mounts}}
    assert job == {"name": "node", "template": {"spec": {"template": pod}}}


def test_a_pytorch_job_has_one_master_and_the_rest_workers_of_one_template():
    job = PyTorchJob().manifest(FULL)
    replicas = job["spec"]["pytorchReplicaSpecs"]
    assert {name: one["replicas"] for name, one in replicas.items()} == {"Master": 1, "Worker": 1}
    assert {one["restartPolicy"] for one in replicas.values()} == {"Never"}
    assert replicas["Master"]["template"] == replicas["Worker"]["template"]
    template = copy.deepcopy(POD)
    template["spec"]["containers"][0]["name"] = "pytorch"
    template["spec"]["automountServiceAccountToken"] = False
    assert replicas["Master"]["template"] == template
    assert job["spec"]["runPolicy"] == {"cleanPodPolicy": "None", "backoffLimit": 0}
    alone = PyTorchJob().manifest(replace(FULL, num_nodes=1))["spec"]
    assert set(alone["pytorchReplicaSpecs"]) == {"Master"}
    assert alone["runPolicy"] == {"cleanPodPolicy": "None"}


@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_the_job_are_not_those_of_its_pods(kind):
    metadata = kind().manifest(FULL)["metadata"]
    assert metadata == {
        "name": "train-1f",
        "namespace": "ml",
        "labels": {"l": "1"},
        "annotations": {"a": "1"},
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_for_kueue_has_its_label_and_leaves_suspend_to_it(kind):
    job = kind().manifest(replace(FULL, queue="q"))
    assert job["metadata"]["labels"] == {"l": "1", QUEUE: "q"}
    assert "suspend" not in job["spec"]
    assert "suspend" not in job["spec"].get("runPolicy", {})


def test_a_deadline_stands_where_each_kind_has_it():
    spec = replace(SPEC, active_deadline=7)
    assert TrainJob().manifest(spec)["spec"]["activeDeadlineSeconds"] == 7
    assert PyTorchJob().manifest(spec)["spec"]["runPolicy"]["activeDeadlineSeconds"] == 7


def test_resources_given_as_requests_and_limits_stay_apart():
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    assert (
        TrainJob().manifest(replace(SPEC, resources=resources))["spec"]["trainer"]["resourcesPerNode"]
        == resources
    )


def test_a_patch_of_the_trainers_container_goes_where_trainer_wants_it():
    container = {"name": "node", "env": [{"name": "B", "value": "2"}], "resources": {"limits": {"gpu": 1}}}
    spec = TrainJob().manifest(replace(FULL, pod_patch={"spec": {"containers": [container]}}))["spec"]
    assert [one["name"] for one in spec["trainer"]["env"]] == ["A", "S", "B"]
    assert spec["trainer"]["resourcesPerNode"] == {"requests": {"cpu": "2"}, "limits": {"cpu": "2", "gpu": 1}}


def test_a_patch_may_undo_what_we_would_set():
    patch = {"spec": {"automountServiceAccountToken": True}}
    job = PyTorchJob().manifest(replace(SPEC, pod_patch=patch))
    assert (
        job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["automountServiceAccountToken"]
        is True
    )


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        (PyTorchJob, {"image": None}, "image: a PyTorchJob"),
        (TrainJob, {"environment": {"PET_NNODES": "2"}}, "environment: PET_NNODES"),
        (TrainJob, {"name": "n" * 46}, "46 characters"),
        (TrainJob, {"pod_patch": {"hostNetwork": True}}, "pod_patch: hostNetwork"),
        (TrainJob, {"pod_patch": {"metadata": {"name": "x"}}}, "pod_patch: name"),
        (PyTorchJob, {"pod_patch": {"spec": {"restartPolicy": "Always"}}}, "Covalent repeats failed tasks"),
        (
            TrainJob,
            {"pod_patch": {"spec": {"containers": [{"name": "node", "args": ["x"]}]}}},
            "pod_patch: args",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_by_the_options_name(kind, changes, words):
    with pytest.raises(OptionError, match=words):
        kind().manifest(replace(SPEC, **changes))


def test_a_sidecar_may_have_a_command_of_its_own():
    side = {"name": "side", "image": "i", "command": ["sleep", "9"]}
    job = PyTorchJob().manifest(replace(SPEC, pod_patch={"spec": {"containers": [side]}}))
    assert job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][1] == side


def test_the_secret_belongs_to_the_job_and_cannot_be_changed():
    secret = payload_secret(TrainJob(), FULL, "uid-1", {"k": "text"})
    assert (secret["immutable"], secret["stringData"]) == (True, {"k": "text"})
    (owner,) = secret["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "name": "train-1f",
        "uid": "uid-1",
        "controller": False,
    }


# -- merging ----------------------------------------------------------------------------------------------


def test_named_things_are_merged_by_name_and_others_replaced():
    base = {
        "containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}],
        "tolerations": [{"key": "old"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    }
    patch = {
        "containers": [{"name": "a", "env": [{"name": "X", "value": "2"}, {"name": "Y"}]}, {"name": "c"}],
        "tolerations": [{"key": "new"}],
        "volumes": [{"name": "v", "emptyDir": None, "hostPath": {"path": "/p"}}],
    }
    assert merge(base, patch) == {
        "containers": [
            {"name": "a", "image": "1", "env": [{"name": "X", "value": "2"}, {"name": "Y"}]},
            {"name": "b"},
            {"name": "c"},
        ],
        "tolerations": [{"key": "new"}],
        "volumes": [{"name": "v", "hostPath": {"path": "/p"}}],
    }


scalars = st.integers() | st.text(max_size=3)
names = st.sampled_from("abc")
named = st.lists(
    st.fixed_dictionaries({"name": names}, optional={"image": scalars}),
    max_size=3,
    unique_by=lambda one: one["name"],
)
templates = st.recursive(
    st.fixed_dictionaries({}, optional={"x": scalars, "containers": named, "tolerations": st.lists(scalars)}),
    lambda below: st.fixed_dictionaries({}, optional={"spec": below, "metadata": below, "env": named}),
    max_leaves=4,
)


@given(base=templates, patch=templates)
def test_merging_is_steady_and_changes_neither_side(base, patch):
    before = copy.deepcopy((base, patch))
    merged = merge(base, patch)
    assert merge(merged, patch) == merged
    assert merge(base, {}) == base
    assert merge({}, patch) == patch
    assert (base, patch) == before


@given(base=templates, patch=templates)
def test_what_a_patch_does_not_name_stays(base, patch):
    merged = merge(base, patch)
    for key in set(base) - set(patch):
        assert merged[key] == base[key]
    if "containers" in base and "containers" in patch:
        together = {one["name"] for one in [*base["containers"], *patch["containers"]]}
        assert {one["name"] for one in merged["containers"]} == together


def expanded(text, variables):
    """What Kubernetes makes of a value: ``$$`` is a dollar, ``$(NAME)`` a variable."""
    out, rest = "", text
    while rest:
        if rest.startswith("$$"):
            out, rest = out + "$", rest[2:]
        elif rest.startswith("$(") and (end := rest.find(")")) > 0:
            name = rest[2:end]
            out, rest = out + variables.get(name, f"$({name})"), rest[end + 1 :]
        else:
            out, rest = out + rest[0], rest[1:]
    return out


@given(st.text(alphabet="$()A ", max_size=12))
def test_values_arrive_as_they_are(text):
    assert expanded(literal(text), {"A": "expanded"}) == text
