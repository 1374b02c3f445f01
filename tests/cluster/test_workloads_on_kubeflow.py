# SPDX-License-Identifier: Apache-2.0
"""TrainJobs and PyTorchJobs on a real Kubeflow, with the rights of the documented Role and no others."""

import asyncio

import pytest

from covalent_joblog_plugin.cluster import kubeflow_wording
from covalent_joblog_plugin.cluster.job_events import why_no_pods
from covalent_joblog_plugin.cluster.kubeflow_job import Job
from covalent_joblog_plugin.cluster.pytorch_job import PyTorchJob
from covalent_joblog_plugin.cluster.train_job import TrainJob
from covalent_joblog_plugin.model.errors import OptionError
from tests.cluster.kubeflow_workloads import TELL, goes_through, gone, restricted_pod


async def test_a_pytorch_job_gives_every_node_what_was_asked_for(jobs):
    await goes_through(jobs, PyTorchJob(), "whole")
    await gone(jobs, "Secret", "whole")


async def test_a_pytorch_jobs_misspelt_field_is_refused(jobs):
    for patch in ({"spec": {"hostNetwrk": True}}, {"spec": {"containers": [{"name": "side"}]}}):
        with pytest.raises(OptionError, match=r"^pod_patch: "):
            await PyTorchJob().prepare(jobs.api, jobs.spec("no", pod_patch=patch))


@pytest.mark.parametrize(
    ("changes", "words", "unstartable"),
    [
        ({"image": "127.0.0.1:1/none:1"}, "image 127.0.0.1:1/none:1 cannot be pulled", True),
        ({"resources": {"cpu": "1000"}}, "Insufficient cpu", False),
        ({"secret_environment": {"P": ("nowhere", "p")}}, 'secret "nowhere" not found', True),
    ],
)
@pytest.mark.parametrize("kind", [TrainJob, PyTorchJob])
async def test_why_a_container_does_not_run_is_told(jobs, kind, changes, words, unstartable):
    served, spec = kind(), jobs.spec("waits", **changes)
    async with jobs.submitted(served, spec) as seen:
        told = await jobs.until(lambda: any(one.why_waiting for one in seen.now), served, spec, seen)
    (found,) = told.now
    assert words in found.why_waiting
    assert (found.state, found.unstartable) == ("waiting", unstartable)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"command": ["nosuchprogram"]},
            ["exit code 128, StartError", "python='nosuchprogram' in image ", "not found"],
        ),
        ({"code": "x = b'x' * 300_000_000", "resources": {"memory": "64Mi"}}, ["OOMKilled", "raise memory"]),
        ({"code": "import ctypes; ctypes.string_at(0)"}, ["signal 11 (SIGSEGV)"]),
    ],
)
async def test_how_a_container_ended_is_told(jobs, changes, words):
    kind, spec = TrainJob(), jobs.spec("ends", **changes)
    async with jobs.submitted(kind, spec) as seen:
        await jobs.over(kind, spec, seen)
    end, job = seen.end(), Job(kind, spec, {}, framing=True, counts=lambda _: None)
    told = f"{kubeflow_wording.exit_text(end.ranks[0].seen)} {kubeflow_wording.cure(job, end)}"
    assert [word for word in words if word not in told] == []


@pytest.mark.parametrize("kind", [TrainJob, PyTorchJob])
async def test_a_policy_that_forbids_the_pods_is_told(restricted, kind):
    served, spec = kind(), restricted.spec("forbidden")
    told = ""
    async with restricted.submitted(served, spec):
        while 'violates PodSecurity "restricted' not in told:
            told = await why_no_pods(restricted.api, spec.namespace, spec.name)
            await asyncio.sleep(0.2)
    assert "pod_patch, fit the namespace's policy" in told


async def test_a_pod_patch_that_fits_the_policy_runs_with_a_read_only_root(restricted):
    tell = TELL.format("os.getuid()")
    kind, spec = PyTorchJob(), restricted.spec("fits", tell, pod_patch=restricted_pod("pytorch"))
    async with restricted.submitted(kind, spec) as seen:
        await restricted.over(kind, spec, seen)
    assert [(one.exit_code, one.message) for one in seen.now] == [(0, "1000")]


async def test_a_sidecar_does_not_hide_the_end_of_the_container(jobs):
    side = {"name": "side", "image": jobs.rig.image, "command": ["sleep", "600"]}
    kind, spec = PyTorchJob(), jobs.spec("sidecar", pod_patch={"spec": {"containers": [side]}})
    async with jobs.submitted(kind, spec) as seen:
        await jobs.until(lambda: any(one.state == "terminated" for one in seen.now), kind, spec, seen)
    (found,) = seen.now
    assert (found.exit_code, found.pod_phase) == (0, "Running")
