# SPDX-License-Identifier: Apache-2.0
"""What the user is told first of a Kubeflow job that gave no result; containers as a cluster shows them."""

import json

import pytest

from covalent_joblog_plugin.cluster.instance_output import InstanceOutput
from covalent_joblog_plugin.cluster.kubeflow_job import UNSTARTABLE, Instance, Job, JobEnd
from covalent_joblog_plugin.cluster.train_job import TrainJob
from covalent_joblog_plugin.cluster.workload import ContainerInstance, JobPhase, WorkloadSpec
from covalent_joblog_plugin.executors import kubeflow_outcome
from covalent_joblog_plugin.model.errors import JobFailed
from covalent_joblog_plugin.payload import pod_bundle

SPEC = WorkloadSpec("t", "ml", None, pod_bundle.container_command(["py"]), num_nodes=2, runtime="r")


def ended(code, *, rank=0, framing=True, text=b"", **about):
    output = InstanceOutput(0, framing=framing, changed=lambda: None)
    output.text(text)
    output.end(proved=True, counts=None)
    seen = ContainerInstance(
        rank, f"p-{rank}", f"u-{rank}", state="terminated", exit_code=code, image="i:1", **about
    )
    return Instance(seen, 0, output)


def verdict(kind, **facts):
    return json.dumps({"kind": kind, "status": -9, **facts})


async def error_of(*ranks, phase=JobPhase.FAILED, reason="FailedJobs", framing=True, removal="", **about):
    job = Job(TrainJob(), SPEC, {}, framing=framing, counts=lambda _: None)

    async def read_to_end():
        return None

    end = JobEnd(phase, reason, "", {one.seen.rank: one for one in ranks}, **about)
    with pytest.raises(JobFailed) as caught:
        await kubeflow_outcome.result(job, end, read_to_end, 1, removal)
    return str(caught.value)


async def test_what_the_cluster_knows_of_an_end_leads():
    text = await error_of(ended(137, reason="OOMKilled", message=verdict("died")))
    lines = text.split("\n")
    assert lines[0] == "the function used more memory than its limit: raise memory in resources"
    assert lines[1] == "the process was ended by signal 9 (SIGKILL) before the function returned"
    assert "often" not in text
    assert text.count("raise memory") == 1


async def test_an_exception_leads_though_memory_ran_out_too():
    message = verdict("exception", type="RuntimeError", message="a worker was killed")
    text = await error_of(ended(1, reason="OOMKilled", message=message))
    assert text.startswith("RuntimeError: a worker was killed\n")
    assert "raise memory in resources" in text


async def test_what_cannot_start_python_is_named_with_its_image():
    text = await error_of(ended(128, reason="StartError", message='exec: "py": not found in $PATH'))
    assert text.startswith("python='py' in image i:1 cannot be started: exec: \"py\": not found in $PATH\n")
    assert text.count("cannot be started") == 1


@pytest.mark.parametrize("framing", [True, False])
async def test_what_starts_and_is_no_python_is_named_with_its_last_words(framing):
    text = await error_of(ended(2, framing=framing, text=b"py: bad option -u\n"), framing=framing)
    lines = text.split("\n")
    assert lines[0].startswith("python='py' in image i:1 ended with exit code 2 and did not run our runner")
    assert "py: bad option -u" in lines


async def test_what_ends_well_and_is_no_python_is_named():
    text = await error_of(ended(0), ended(0, rank=1), phase=JobPhase.COMPLETE, reason="")
    assert "does python='py' start Python in the image?" in text.split("\n")


@pytest.mark.parametrize(
    ("rank", "framing", "where"),
    [
        (0, True, "the node's stderr"),
        (1, True, "rank1.stderr of the node"),
        (0, False, "the node's stdout"),
        (1, False, "rank1.log of the node"),
    ],
)
async def test_the_whole_traceback_is_where_the_error_says(rank, framing, where):
    message = verdict("exception", type="ValueError", message="no")
    text = await error_of(ended(1, rank=rank, framing=framing, message=message), framing=framing)
    assert f"the whole traceback stands in {where}\n" in text


async def test_a_job_that_was_given_up_says_why_and_what_was_done():
    text = await error_of(
        phase=JobPhase.PENDING,
        reason=UNSTARTABLE,
        unstarted="2 of 2 pods: no image",
        removal="it was deleted",
    )
    lines = text.split("\n")
    assert (lines[0], lines[-1]) == ("2 of 2 pods: no image", "it was deleted")
