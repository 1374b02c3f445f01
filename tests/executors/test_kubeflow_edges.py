# SPDX-License-Identifier: Apache-2.0
"""What is easily claimed wrongly of a Kubeflow job: that its output is complete, or how it ended."""

from tests.executors.kubeflow_tasks import Task


def test_output_that_a_limit_cut_is_not_called_complete(covalent_server, kubeflow_rig):
    task = Task(covalent_server, kubeflow_rig, "print('z' * 50_000)", max_log_bytes=1000)
    task.completed()
    assert task.text() == b"z" * 1000
    found = task.capability("complete")
    assert found["answer"] == "no", found
    assert "not all that was read is stored" in found["reason"]


def test_only_rank_0_has_a_value_and_what_steers_python_writes_nothing_of_ours(covalent_server, kubeflow_rig):
    body = """
import os, threading
rank = int(os.environ["PET_NODE_RANK"])
print("rank", rank)
value = threading.Lock() if rank else "good"
"""
    task = Task(
        covalent_server,
        kubeflow_rig,
        body,
        num_nodes=2,
        environment={"PYTHONDEVMODE": "1", "PYTHONPROFILEIMPORTTIME": "1"},
    )
    assert task.completed() == "good"
    assert task.text() == b"rank 0\n"
    assert task.stored("rank1.stdout") == b"rank 1\n"
    assert task.capability("complete")["answer"] == "yes"


def test_a_function_that_ends_its_process_as_if_all_were_well_is_told(covalent_server, kubeflow_rig):
    task = Task(covalent_server, kubeflow_rig, "import os; print('here', flush=True); os._exit(0)")
    error = task.failed()
    assert "exit status 0 before the function returned" in error.split("\n")[0]
    assert "os._exit" in error
    assert task.text() == b"here\n"
