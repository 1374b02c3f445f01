# SPDX-License-Identifier: Apache-2.0
"""Kubeflow jobs whose Covalent server ends while they run."""

import pytest

from covalent_joblog_plugin import KubeflowJobLogExecutor
from tests.executors.dispatches import cancel, node
from tests.executors.kubeflow_lives import LINES, counting, is_whole, numbered, writes
from tests.executors.kubeflow_tasks import Task, account
from tests.executors.test_server_end import STATE
from tests.rigs.covalent_server import eventually


def stored_is_a_prefix(task, early):
    """What the new server shows of the node; it must be a beginning of what the task writes."""
    text = task.text()
    assert text.startswith(early)
    assert numbered(text.count(b"\n") + 1).startswith(text)
    assert node(task.server, task.id, task.node)["stdout"].encode() == text
    return text


def jobs_of(task):
    """The jobs that were ever made for the dispatch and are still there."""
    selector = f"covalent-joblog/dispatch-id={task.id}"
    return [job["metadata"]["uid"] for job in task.rig.list("TrainJob", task.namespace, selector)]


async def test_a_killed_server_leaves_the_job_running_and_its_whole_output_and_result_can_be_had(
    fresh_covalent_server, kubeflow_rig
):
    server = fresh_covalent_server
    task = counting(server, kubeflow_rig)
    writes(task)
    early, before, name = task.text(), jobs_of(task), task.job
    server.kill()
    server.start()
    stored_is_a_prefix(task, early)
    assert server.client(STATE, dispatch_id=task.id) == "orphaned"
    namespace, kubeconfig = account(kubeflow_rig)
    executor = KubeflowJobLogExecutor(kubeconfig=str(kubeconfig), namespace=namespace)
    reader = executor.open_output(task.state()["job"])
    try:
        whole = b"".join([piece async for piece in reader.output(follow=True)])
        assert is_whole(whole)
        assert whole.count(b"\n") == LINES + 1
        assert (await reader.result()).get_deserialized() == ["whole", LINES]
    finally:
        await reader.close()
    assert jobs_of(task) == before
    assert len(task.pods()) == 1
    assert stored_is_a_prefix(task, early)
    kubeflow_rig.delete("TrainJob", name, namespace)


@pytest.mark.parametrize("way", ["stop", "term"])
def test_a_server_that_is_stopped_ends_the_job_where_covalent_gives_the_chance(
    fresh_covalent_server, kubeflow_rig, way
):
    """On SIGTERM Covalent sometimes asks for the end of what runs, sometimes it has no time to."""
    server = fresh_covalent_server
    task = counting(server, kubeflow_rig, lines=100_000)
    writes(task)
    early, before = task.text(), jobs_of(task)
    failed = Task(server, kubeflow_rig, "raise ValueError('no luck')", keep_failed=3600)
    failed.failed()
    getattr(server, way)()
    if way == "stop":
        eventually(lambda: not jobs_of(task), 10, "end of the job")
    server.start()
    stored_is_a_prefix(task, early)
    assert server.client(STATE, dispatch_id=task.id) in {"interrupted", "orphaned", "closed"}
    assert set(jobs_of(task)) <= set(before)
    # Nobody removes what was kept for a while: the README says so.
    assert len(jobs_of(failed)) == 1
    cancel(server, task.id)
    eventually(lambda: not jobs_of(task) and not task.pods(), 30, "end of the job left behind")
