# SPDX-License-Identifier: Apache-2.0
"""Logs that a node rotates at 1 MiB: the node's result is whole, or says how much is missing where."""

import pytest

from tests.executors.kubeflow_tasks import Task
from tests.rigs.covalent_server import eventually

LINES = 150_000
# Writes numbered lines at a pace; the value is what came of it, in bytes a second.
WRITE = """
import os, time
began, step = time.monotonic(), max(1, rate // width // 100)
for n in range(0, lines, step):
    time.sleep(max(0, n * width / rate - (time.monotonic() - began)))
    os.write(1, b"".join(b"%07d %s\\n" % (i, b"y" * (width - 9)) for i in range(n, min(n + step, lines))))
value = lines * width / (time.monotonic() - began)
"""


def written(lines, width):
    return b"".join(b"%07d %s\n" % (n, b"y" * (width - 9)) for n in range(lines))


def losses(task):
    """Cursor and size of each loss of stdout; there is no other break in it."""
    seams = [seam for seam in task.seams() if seam["file"] == "stdout"]
    assert {seam["seam"] for seam in seams} <= {"lost"}, seams
    return [(seam["cursor"], seam["lost"]) for seam in seams]


def pieces(text, lost):
    """The text between the losses."""
    ends = [cursor for cursor, _ in lost]
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def check(task, expected):
    """Nothing is invented, doubled or out of order, and what is missing is counted; the bytes missing."""
    text, lost = task.text(), losses(task)
    missing = sum(size for _, size in lost)
    assert len(text) + missing == len(expected)
    assert task.capability("complete")["answer"] == ("no" if lost else "yes")
    at = 0
    for piece, (_, size) in zip(pieces(text, lost), [*lost, (len(text), 0)], strict=True):
        assert expected[at : at + len(piece)] == piece, (at, len(piece), lost)
        at += len(piece) + size
    return missing


# Bytes a second and bytes a line. At 10 MB/s a file of the log is 30 MB.
@pytest.mark.parametrize(("rate", "width"), [(300_000, 100), (2_000_000, 400), (10_000_000, 400)])
def test_a_rotated_log_is_whole_or_its_losses_are_counted_where_they_are(
    covalent_server, kubeflow_rig, rate, width
):
    given = {"lines": LINES, "width": width, "rate": rate}
    task = Task(covalent_server, kubeflow_rig, WRITE, given)
    reached = task.completed(timeout=200)
    missing = check(task, written(LINES, width))
    print(f"{reached / 1e6:.2f} MB/s: {100 * missing / LINES / width:.3f} % lost, {losses(task)}")
    if rate < 1_000_000:
        assert missing == 0


def test_what_is_rotated_away_while_nobody_can_read_it_is_counted(covalent_server, kubeflow_rig):
    given = {"lines": 100_000, "width": 400, "rate": 2_000_000}
    task = Task(covalent_server, kubeflow_rig, WRITE, given)
    task.seen(bool, "it writes")
    (pod,) = task.pods()
    folder = kubeflow_rig.folder / "pods"
    kubeflow_rig.stop_apiserver(kill_it=True)
    try:
        # The kubelet rotates without the API server.
        files = f"*_{pod['metadata']['uid']}/node/*"
        before = len(list(folder.glob(files)))
        eventually(lambda: len(list(folder.glob(files))) >= before + 2, 30, "a file is rotated away unread")
    finally:
        kubeflow_rig.start_apiserver()
    task.completed()
    assert check(task, written(100_000, 400)) > 1 << 20
