# SPDX-License-Identifier: Apache-2.0
"""TrainJobs on the oldest and the newest Trainer we serve, with the rights of the documented Role."""

import ast
import inspect
import re

import pytest

from covalent_joblog_plugin import KubeflowJobLogExecutor
from covalent_joblog_plugin.cluster import kubeflow_wording
from covalent_joblog_plugin.cluster.train_job import TrainJob
from covalent_joblog_plugin.cluster.workload import JobPhase
from covalent_joblog_plugin.model.errors import OptionError, SubmissionError
from tests.cluster.kubeflow_workloads import (
    TELL,
    Jobs,
    example_runtime,
    goes_through,
    gone,
    restricted_pod,
    runtime_pod,
)
from tests.rigs.kubeflow import NEWEST, OLDEST


@pytest.fixture(scope="module", params=[OLDEST, NEWEST])
def trainer(request, kubeflow_rig):
    """Which Trainer the cluster runs."""
    kubeflow_rig.use_trainer(request.param)
    yield request.param
    kubeflow_rig.use_trainer(OLDEST)


@pytest.mark.usefixtures("trainer")
async def test_a_train_job_waits_for_its_secret_then_every_node_gets_what_was_asked_for(jobs):
    seen = await goes_through(jobs, TrainJob(), "whole")
    assert seen.states[0].phase is JobPhase.SUSPENDED
    await gone(jobs, "Secret", "whole")


@pytest.mark.usefixtures("trainer")
async def test_what_the_served_trainer_cannot_take_is_refused_before_anything_is_created(jobs):
    for option, value in [
        ("priority_class", "high"),
        ("pod_patch", {"spec": {"hostNetwork": True}}),
        ("pod_patch", {"spec": {"hostNetwrk": True}}),
        ("pod_patch", {"spec": {"containers": [{"name": "side", "volumeMounts": []}]}}),
        ("volumes", [{"nam": "v"}]),
        ("resources", {"cpu": "lots"}),
    ]:
        with pytest.raises(OptionError, match=f"^{option}: "):
            await TrainJob().prepare(jobs.api, jobs.spec("no", **{option: value}))
    assert jobs.rig.list("TrainJob", jobs.namespace) == []


@pytest.mark.parametrize("option", ["active_deadline", "termination_grace"])
async def test_what_only_the_newer_trainer_has_is_taken_there_alone(trainer, jobs, option):
    spec = jobs.spec("deadline", "time.sleep(60)", **{option: 3})
    if trainer == OLDEST:
        with pytest.raises(OptionError, match=f"^{option}: Trainer takes .* since 2"):
            await TrainJob().prepare(jobs.api, spec)
        return
    await TrainJob().prepare(jobs.api, spec)


@pytest.mark.usefixtures("trainer")
async def test_an_unknown_runtime_is_named(jobs):
    with pytest.raises(SubmissionError, match=r"no TrainingRuntime nope.*kubectl get trainingruntimes"):
        await TrainJob().prepare(jobs.api, jobs.spec("no", runtime="nope"))
    everything = Jobs(jobs.rig, jobs.namespace, jobs.rig.kubeconfig)
    with pytest.raises(SubmissionError, match=r"no TrainingRuntime nope.*There are: .*never"):
        await TrainJob().prepare(everything.api, jobs.spec("no", runtime="nope"))
    await everything.api.close()


@pytest.mark.usefixtures("trainer")
async def test_a_job_that_exists_already_is_no_reason_against_it(jobs):
    spec = jobs.spec("twice", "time.sleep(60)")
    async with jobs.submitted(TrainJob(), spec):
        again = TrainJob()
        await again.prepare(jobs.api, spec)
        assert again.manifest(spec)["metadata"]["name"] == "twice"


@pytest.mark.usefixtures("trainer")
async def test_with_the_documented_runtime_the_failed_rank_leads_and_stays(jobs):
    jobs.rig.apply(example_runtime(jobs.namespace, jobs.rig.image))
    code = "time.sleep(1)\nif R: sys.exit(3)\ntime.sleep(60)"
    kind, spec = TrainJob(), jobs.spec("fails", code, num_nodes=2, runtime="joblog-torch")
    async with jobs.submitted(kind, spec) as seen:
        await jobs.over(kind, spec, seen)
        end = seen.end()
        assert [one.exit_code for one in seen.now if one.rank == 1] == [3]
    first = kubeflow_wording.first_failed(end)
    assert (first.seen.rank, first.seen.exit_code, first.gone) == (1, 3, False)
    assert seen.state.reason == "FailedJobs"
    assert end.ranks[0].seen.deleted


@pytest.mark.usefixtures("trainer")
async def test_a_container_of_the_runtimes_own_can_be_patched(jobs):
    runtime = example_runtime(jobs.namespace, jobs.rig.image)
    side = {"name": "side", "image": jobs.rig.image, "command": ["ls", "/v"]}
    runtime_pod(runtime)["containers"].append(side)
    jobs.rig.apply(runtime)
    mount = {"name": "side", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    patch = {"spec": {"containers": [mount], "volumes": [{"name": "v", "emptyDir": {}}]}}
    kind, spec = TrainJob(), jobs.spec("sides", runtime="joblog-torch", pod_patch=patch)
    async with jobs.submitted(kind, spec) as seen:
        await jobs.over(kind, spec, seen)
        (pod,) = jobs.rig.list("Pod", spec.namespace, kind.pod_query(spec.name)["labelSelector"])
    ends = {one["name"]: one["state"]["terminated"]["exitCode"] for one in pod["status"]["containerStatuses"]}
    assert ends == {"node": 0, "side": 0}


@pytest.mark.usefixtures("trainer")
async def test_restarts_of_the_container_and_of_the_job_set_are_told_apart(jobs):
    kind = TrainJob()
    for runtime in ("on-failure", "restart-once"):
        spec = jobs.spec(runtime, "time.sleep(1); sys.exit(7)", runtime=runtime)
        async with jobs.submitted(kind, spec) as seen:
            await jobs.until(lambda s=seen: starts(s) >= 2, kind, spec, seen)
            places = {(one.attempt, one.restart_count) for one in seen.instances.values() if one.container_id}
            assert places == ({(0, 0), (0, 1)} if runtime == "on-failure" else {(0, 0), (1, 0)})


@pytest.mark.usefixtures("trainer")
async def test_the_documented_pod_patch_is_taken_by_every_trainer(jobs):
    kind, spec = TrainJob(), jobs.spec("apart", num_nodes=2, pod_patch=documented_patch())
    async with jobs.submitted(kind, spec) as seen:
        await jobs.until(lambda: len(seen.now) == 2, kind, spec, seen)
        pods = jobs.rig.list("Pod", spec.namespace, kind.pod_query(spec.name)["labelSelector"])
    for pod in pods:
        assert pod["spec"]["affinity"] == spec.pod_patch["spec"]["affinity"]


def documented_patch():
    """The one of the executor's documentation."""
    text = inspect.getdoc(KubeflowJobLogExecutor)
    return ast.literal_eval(re.search(r"``(\{\"spec\": \{\"affinity\".*?)``", text, re.DOTALL)[1])


def starts(seen):
    return len([one for one in seen.instances.values() if one.container_id])


async def test_a_train_jobs_pod_patch_that_fits_the_policy_is_for_the_newer_trainer(trainer, restricted):
    tell = TELL.format("os.getuid()")
    kind, spec = TrainJob(), restricted.spec("fits", tell, pod_patch=restricted_pod("node"))
    if trainer == OLDEST:
        with pytest.raises(OptionError, match=r"^pod_patch: .*securityContext"):
            await kind.prepare(restricted.api, spec)
        return
    async with restricted.submitted(kind, spec) as seen:
        await restricted.over(kind, spec, seen)
    assert [(one.exit_code, one.message) for one in seen.now] == [(0, "1000")]
