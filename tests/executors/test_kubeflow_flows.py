# SPDX-License-Identifier: Apache-2.0
"""Tasks as Kubeflow jobs on a real cluster: live on every rank, exact at the end."""

import random

import pytest

from tests.executors.kubeflow_tasks import Task
from tests.rigs.kubeflow import NEWEST, OLDEST

KINDS = ("TrainJob", "PyTorchJob")
TWO_RANKS = """
import sys, time
for n in range(40):
    print(f"rank {rank} line {n}", flush=True)
    print(f"rank {rank} warning {n}", file=sys.stderr, flush=True)
    time.sleep(0.1)
value = f"from rank {rank}"
"""


def lines(rank, word):
    return b"".join(b"rank %d %s %d\n" % (rank, word, n) for n in range(40))


@pytest.mark.parametrize("kind", KINDS)
def test_both_ranks_are_live_and_exact(covalent_server, kubeflow_rig, kind):
    task = Task(covalent_server, kubeflow_rig, TWO_RANKS, kind=kind, num_nodes=2)
    first = task.seen(lambda text: b"line 3\n" in text, "rank 0's text comes while it runs")
    second = task.seen(lambda text: b"line 3\n" in text, "rank 1's too", "rank1.stdout")
    assert first != lines(0, b"line")
    assert second != lines(1, b"line")
    assert task.completed() == "from rank 0"
    assert task.text() == lines(0, b"line")
    assert task.text("stderr") == lines(0, b"warning")
    assert task.stored("rank1.stdout") == lines(1, b"line")
    assert task.stored("rank1.stderr") == lines(1, b"warning")
    assert task.seams() == []
    assert task.capability("complete") == {"answer": "yes", "reason": ""}
    assert task.capability("read")["answer"] == "yes"
    assert kubeflow_rig.get(kind, task.job, task.namespace) is None


@pytest.fixture
def newest_trainer(kubeflow_rig):
    kubeflow_rig.use_trainer(NEWEST)
    yield
    kubeflow_rig.use_trainer(OLDEST)


@pytest.mark.usefixtures("newest_trainer")
def test_both_ranks_are_exact_on_the_newest_trainer(covalent_server, kubeflow_rig):
    task = Task(covalent_server, kubeflow_rig, TWO_RANKS, num_nodes=2)
    assert task.completed() == "from rank 0"
    assert task.text() == lines(0, b"line")
    assert task.stored("rank1.stderr") == lines(1, b"warning")
    assert task.capability("complete")["answer"] == "yes"


AWKWARD = (
    rb"\r\n|\x00|\xff\xfe|\x1cone\n\x1dtwo\n\x1c@1 2\n\x1c#1/1 00000000 \n|\x1e\n\x1f\n\r\x1f\n|"
    + b"x" * 20000
    + b"|end"
)


def test_whatever_bytes_a_task_writes_come_back(covalent_server, kubeflow_rig):
    body = "import os\nfor n in (1, 2):\n    os.write(n, bytes.fromhex(awkward))"
    task = Task(covalent_server, kubeflow_rig, body, {"awkward": AWKWARD.hex()})
    assert task.completed() == "result"
    shown = AWKWARD.replace(b"\xff", b"?").replace(b"\xfe", b"?")
    assert task.text() == shown
    assert task.text("stderr") == shown
    assert task.capability("complete")["answer"] == "yes"


def test_a_progress_bar_is_live(covalent_server, kubeflow_rig):
    body = """
import time
for n in range(40):
    print(f"\\r{n} of 40", end="", flush=True)
    time.sleep(0.1)
"""
    task = Task(covalent_server, kubeflow_rig, body)
    seen = task.seen(lambda text: b"\r5 of 40" in text, "the bar moves")
    assert b"\r39 of 40" not in seen
    task.completed()
    assert task.text() == b"".join(b"\r%d of 40" % n for n in range(40))


def test_a_failing_function_keeps_its_text_and_says_why(covalent_server, kubeflow_rig):
    task = Task(covalent_server, kubeflow_rig, "print('before')\nraise ValueError('no luck')")
    error = task.failed()
    assert error.startswith("ValueError: no luck")
    assert f"TrainJob {task.job} in namespace {task.namespace}" in error
    assert task.text() == b"before\n"
    assert b"ValueError: no luck" in task.text("stderr")
    assert kubeflow_rig.get("TrainJob", task.job, task.namespace) is not None


def test_sys_exit_is_no_success(covalent_server, kubeflow_rig):
    error = Task(covalent_server, kubeflow_rig, "import sys\nprint('bye')\nsys.exit(3)").failed()
    assert "sys.exit(3)" in error


def words(size):
    numbers = random.Random(7)
    return " ".join(str(numbers.randint(0, 999)) for _ in range(size // 4))


@pytest.mark.parametrize("size", [0, 2 << 10, 900 << 10])
def test_results_come_back_whole(covalent_server, kubeflow_rig, size):
    body = f"""
import random
numbers = random.Random(7)
value = " ".join(str(numbers.randint(0, 999)) for _ in range({size} // 4)) or None
print("done")
"""
    task = Task(covalent_server, kubeflow_rig, body)
    assert task.completed() == (words(size) or None)
    assert task.text() == b"done\n"
    assert task.capability("complete")["answer"] == "yes"


def test_without_framing_the_log_is_one_text(covalent_server, kubeflow_rig):
    task = Task(covalent_server, kubeflow_rig, "print('plain')", framing=False)
    assert task.completed() == "result"
    assert task.text() == b"plain\n"
    assert task.capability("split_streams")["answer"] == "no"
