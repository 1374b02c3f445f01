# SPDX-License-Identifier: Apache-2.0
"""What served versions answer to a dry run (texts of real ones), and what is made of it."""

from dataclasses import replace

import pytest

from covalent_joblog_plugin.cluster.kubernetes_errors import Conflict, Forbidden, NotFound, Refused
from covalent_joblog_plugin.cluster.pytorch_job import PyTorchJob
from covalent_joblog_plugin.cluster.train_job import TrainJob
from covalent_joblog_plugin.model.errors import OptionError, SubmissionError
from tests.cluster.workload_specs import KINDS, SPEC, ScriptedApi

STRICT = 'TrainJob in version "v1alpha1" cannot be handled as a TrainJob: strict decoding error: '
HOOK = 'admission webhook "validator.trainjob.trainer.kubeflow.org" denied the request: '
MISSING = HOOK + (
    'spec.RuntimeRef: Invalid value: {"name":"torch"}: '
    'ClusterTrainingRuntime.trainer.kubeflow.org "torch" not found: '
    "specified clusterTrainingRuntime must be created before the TrainJob is created"
)
WITH_POD = replace(SPEC, pod_labels={"a": "b"})


def refused(text):
    return Refused(text, 400)


def unknown(*fields):
    return refused(STRICT + ", ".join(f'unknown field "{field}"' for field in fields))


def runtime_with(*names, job="node", **ml_policy):
    pod = {"containers": [{"name": name} for name in ("node", *names)]}
    replicated = {"name": job, "template": {"spec": {"template": {"spec": pod}}}}
    return {"spec": {"mlPolicy": ml_policy, "template": {"spec": {"replicatedJobs": [replicated]}}}}


def taken(runtime):
    """Every job is taken, and the runtime is what is to be seen, or what is answered instead."""
    return ScriptedApi(lambda method, *_: runtime if method == "GET" else {})


def served(known, *, also=()):
    """A version that has only one of the fields for settings of pods, and lacks others."""

    def answer(method, _path, body):
        if method == "GET":
            return runtime_with()
        fields = {"runtimePatches", "podTemplateOverrides"} & set(body["spec"]) - {known}
        missing = [f"spec.{field}" for field in fields] + [f for f in also if known in body["spec"]]
        return unknown(*missing) if missing else {}

    return ScriptedApi(answer)


@pytest.mark.parametrize("field", ["runtimePatches", "podTemplateOverrides"])
async def test_the_served_version_decides_where_settings_of_pods_go(field):
    kind = TrainJob()
    api = served(field)
    await kind.prepare(api, WITH_POD)
    assert field in kind.manifest(WITH_POD)["spec"]
    queries = [query for method, _, query, _, _ in api.asked if method == "POST"]
    assert {(query["dryRun"], query["fieldValidation"]) for query in queries} == {("All", "Strict")}


async def test_overrides_name_the_job_they_are_for():
    kind = TrainJob()
    await kind.prepare(served("podTemplateOverrides"), WITH_POD)
    (override,) = kind.manifest(WITH_POD)["spec"]["podTemplateOverrides"]
    assert override == {"targetJobs": [{"name": "node"}], "metadata": {"labels": {"a": "b"}}}


async def test_a_version_with_neither_field_is_too_old():
    with pytest.raises(SubmissionError, match=r"older than 2\.1"):
        await TrainJob().prepare(served(""), WITH_POD)


@pytest.mark.parametrize(
    ("field", "changes", "option"),
    [
        ("priorityClassName", {"priority_class": "high"}, "priority_class"),
        ("terminationGracePeriodSeconds", {"termination_grace": 0}, "termination_grace"),
        ("hostNetwork", {"pod_patch": {"spec": {"hostNetwork": True}}}, "pod_patch"),
        ("priorityClassName", {"pod_patch": {"spec": {"priorityClassName": "p"}}}, "pod_patch"),
        ("containers[1].image", {"pod_patch": {"spec": {"containers": [{"name": "s"}]}}}, "pod_patch"),
    ],
)
async def test_an_option_the_version_cannot_take_is_named_with_its_field(field, changes, option):
    path = f"spec.podTemplateOverrides[0].spec.{field}"
    with pytest.raises(OptionError) as caught:
        await TrainJob().prepare(served("podTemplateOverrides", also=[path]), replace(WITH_POD, **changes))
    text = str(caught.value)
    assert text.startswith(f"{option}: ")
    assert f"takes spec.{field} from a TrainJob" in text
    assert f"at template.spec.template.spec.{field} of its replicated job node" in text
    assert "(now ClusterTrainingRuntime torch)" in text


async def test_a_deadline_the_version_lacks_is_named():
    api = served("podTemplateOverrides", also=["spec.activeDeadlineSeconds"])
    with pytest.raises(OptionError, match=r"active_deadline: .* since 2\.2, .*template.spec.activeDeadline"):
        await TrainJob().prepare(api, replace(WITH_POD, active_deadline=3))


@pytest.mark.parametrize(
    ("patch", "path", "words"),
    [
        ({"hostNetwrk": True}, "spec.podTemplateOverrides[0].spec.hostNetwrk", "did you mean hostNetwork"),
        ({"containers": [{"name": "node", "env": [{"nam": "A"}]}]}, "spec.trainer.env[1].nam", "mean name"),
        (
            {"containers": [{"name": "node", "resources": {"limit": {}}}]},
            "spec.trainer.resourcesPerNode.limit",
            "did you mean limits",
        ),
        ({"rockets": 1}, "spec.podTemplateOverrides[0].spec.rockets", "see kubectl explain pod.spec"),
    ],
)
async def test_a_misspelt_field_is_said_to_be_one(patch, path, words):
    api = served("podTemplateOverrides", also=[path])
    spec = replace(WITH_POD, environment={"A": "1"}, resources={"cpu": 1}, pod_patch={"spec": patch})
    with pytest.raises(OptionError, match=rf"^pod_patch: Kubernetes has no field .*{words}") as caught:
        await TrainJob().prepare(api, spec)
    assert "runtime" not in str(caught.value)


async def test_a_misspelt_field_of_an_option_is_the_options():
    path = "spec.podTemplateOverrides[0].spec.tolerations[0].kee"
    spec = replace(WITH_POD, tolerations=[{"kee": "a"}], pod_patch={"metadata": {}})
    with pytest.raises(OptionError, match=r"^tolerations: Kubernetes has no field kee .*did you mean key"):
        await TrainJob().prepare(served("podTemplateOverrides", also=[path]), spec)


async def test_a_field_that_the_operator_is_too_old_for_is_no_misspelt_one():
    path = "spec.pytorchReplicaSpecs.Master.template.spec.hostUsers"
    with pytest.raises(OptionError, match=r"^pod_patch: this Training Operator knows no spec.hostUsers"):
        await PyTorchJob().prepare(
            ScriptedApi(lambda *_: unknown(path)), replace(SPEC, pod_patch={"spec": {"hostUsers": True}})
        )


async def test_a_field_of_both_replicas_is_named_once():
    base = "spec.pytorchReplicaSpecs.{}.template.spec.volumes[0].nam"
    api = ScriptedApi(lambda *_: unknown(base.format("Master"), base.format("Worker")))
    with pytest.raises(OptionError) as caught:
        await PyTorchJob().prepare(api, replace(SPEC, volumes=[{"nam": "v"}]))
    assert str(caught.value).count("volumes: ") == 1


async def test_only_containers_the_runtime_has_can_be_patched():
    patch = {"spec": {"containers": [{"name": "side", "volumeMounts": []}]}}
    patched = replace(WITH_POD, pod_patch=patch)
    for runtime, words in [
        (runtime_with(), "ClusterTrainingRuntime torch has no side"),
        (Forbidden("needs get clustertrainingruntimes"), "cannot be checked: needs get"),
    ]:
        with pytest.raises(OptionError, match=rf"^pod_patch: .*{words}"):
            await TrainJob().prepare(taken(runtime), patched)
    await TrainJob().prepare(taken(runtime_with("side")), patched)


async def test_a_runtime_in_which_the_function_would_not_run_is_refused():
    for runtime, words in [
        (runtime_with(mpi={"numProcPerNode": 1}), "torch is for MPI"),
        (runtime_with(job="launcher"), "torch has no job node with a container node"),
    ]:
        with pytest.raises(OptionError, match=rf"^runtime: ClusterTrainingRuntime {words}.*nothing was sub"):
            await TrainJob().prepare(taken(runtime), SPEC)
    await TrainJob().prepare(taken(runtime_with(torch={})), SPEC)
    await TrainJob().prepare(taken(Forbidden("needs get clustertrainingruntimes")), SPEC)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_of_that_name_is_no_reason_against_it(kind):
    exists = Conflict("exists")
    await kind().prepare(ScriptedApi(lambda m, *_: runtime_with() if m == "GET" else exists), SPEC)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_missing_right_and_a_missing_namespace_and_a_missing_kubeflow_are_told_apart(kind):
    for error, words in [
        (Forbidden("needs create trainjobs"), "needs create trainjobs"),
        (NotFound('POST /x/namespaces/ml: 404 namespaces "ml" not found'), "namespace ml does not exist"),
        (NotFound("POST /x/namespaces/ml: 404 page not found"), rf"no {kind.kind}s"),
    ]:
        with pytest.raises(SubmissionError, match=words):
            await kind().prepare(ScriptedApi(lambda *_, e=error: e), SPEC)


@pytest.mark.parametrize(
    ("runtimes", "words"),
    [
        ({"items": [{"metadata": {"name": "b"}}, {"metadata": {"name": "a"}}]}, "There are: a, b"),
        ({"items": []}, "none at all"),
        (Forbidden("needs list"), "kubectl get clustertrainingruntimes"),
    ],
)
async def test_an_unknown_runtime_lists_those_there_are(runtimes, words):
    api = ScriptedApi(lambda method, *_: runtimes if method == "GET" else refused(MISSING))
    with pytest.raises(SubmissionError, match=r"no ClusterTrainingRuntime torch.*") as caught:
        await TrainJob().prepare(api, SPEC)
    assert words in str(caught.value)


async def test_a_refused_value_is_named_by_its_option_without_repeating_what_was_sent():
    sent = '[{"name":"A","value":"hidden"}]'
    text = f"{HOOK}spec.trainer.env: Invalid value: {sent}: must not have reserved envs"
    with pytest.raises(OptionError, match=r"environment: the cluster refuses it: .* reserved envs") as caught:
        await TrainJob().prepare(
            ScriptedApi(lambda *_: refused(text)), replace(SPEC, environment={"A": "hidden"})
        )
    assert "hidden" not in str(caught.value)


async def test_a_quantity_that_a_webhook_cannot_read_is_named():
    api = ScriptedApi(lambda *_: refused('webhook "d" denied the request: quantities must match the regular'))
    with pytest.raises(OptionError, match=r"^resources: "):
        await TrainJob().prepare(api, replace(SPEC, resources={"cpu": "lots"}))


async def test_any_other_refusal_is_told_and_nothing_blamed():
    with pytest.raises(SubmissionError, match="would be refused, so it was not submitted: quota"):
        await TrainJob().prepare(ScriptedApi(lambda *_: refused("quota")), SPEC)


async def test_only_a_suspended_train_job_is_resumed():
    api = ScriptedApi(lambda *_: {})
    await TrainJob().resume(api, SPEC)
    await TrainJob().resume(api, replace(SPEC, queue="q"))
    await PyTorchJob().resume(api, SPEC)
    ((method, path, _, body, content_type),) = api.asked
    assert (method, body) == ("PATCH", {"spec": {"suspend": False}})
    assert path.endswith("/namespaces/ml/trainjobs/train-1f")
    assert content_type == "application/merge-patch+json"
