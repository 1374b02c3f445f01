# SPDX-License-Identifier: Apache-2.0
"""Reading a job's output straight from the cluster, with no Covalent server in between."""

import random

import pytest

from covalent_joblog_plugin import KubeflowJobLogExecutor
from covalent_joblog_plugin.model.errors import JobFailed, OutputGone, OutputNotFound, OutputUnsupported
from tests.executors.kubeflow_tasks import Task, account

BODY = """
import sys, time
for n in range(50):
    print(f"rank {rank} line {n}", flush=True)
    print(f"rank {rank} warning {n}", file=sys.stderr, flush=True)
    time.sleep(0.05)
raise SystemExit(2)
"""


def lines(rank, word):
    return b"".join(b"rank %d %s %d\n" % (rank, word, n) for n in range(50))


async def whole(reader, **selection):
    return b"".join([piece async for piece in reader.output(**selection)])


async def test_a_running_job_is_followed_and_a_failed_one_read_until_it_is_deleted(
    covalent_server, kubeflow_rig
):
    task = Task(covalent_server, kubeflow_rig, BODY, num_nodes=2)
    task.seen(lambda text: b"line 3\n" in text, "it writes")
    namespace, kubeconfig = account(kubeflow_rig)
    reader = KubeflowJobLogExecutor(kubeconfig=str(kubeconfig), namespace=namespace).open_output(
        task.state()["job"]
    )
    try:
        assert await whole(reader, follow=True) == lines(0, b"line")
        task.failed()
        assert await whole(reader, rank=1, stream="stderr") == lines(1, b"warning")
        assert await whole(reader, start=len(b"rank 0 line 0\n")) == lines(0, b"line")[14:]
        with pytest.raises(OutputNotFound, match="no rank 2"):
            await whole(reader, rank=2)
        with pytest.raises(OutputUnsupported, match="newest execution"):
            await whole(reader, execution=0)
        with pytest.raises(JobFailed, match=r"sys.exit\(2\)"):
            await reader.result()
        capabilities = await reader.capabilities()
        assert capabilities.read
        assert not capabilities.retained
        kubeflow_rig.delete("TrainJob", task.job, namespace)
        with pytest.raises(OutputGone, match="deleted"):
            await whole(reader)
    finally:
        await reader.close()


@pytest.mark.parametrize("size", [20, 40_000])
async def test_the_result_of_a_job_whose_server_died_is_taken_from_the_cluster(
    fresh_covalent_server, kubeflow_rig, size
):
    server = fresh_covalent_server
    body = "import random\nprint('here', flush=True)\ntime.sleep(8)\nvalue = random.Random(1).randbytes(size)"
    task = Task(server, kubeflow_rig, f"import time\n{body}", {"size": size}, num_nodes=2)
    task.seen(lambda text: b"here" in text, "it runs")
    job = task.state()["job"]
    server.kill()
    namespace, kubeconfig = account(kubeflow_rig)
    reader = KubeflowJobLogExecutor(kubeconfig=str(kubeconfig), namespace=namespace).open_output(job)
    try:
        value = await reader.result()
        assert value.get_deserialized() == random.Random(1).randbytes(size)
    finally:
        await reader.close()
    kubeflow_rig.delete("TrainJob", job["name"], namespace)
