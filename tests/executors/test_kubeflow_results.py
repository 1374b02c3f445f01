# SPDX-License-Identifier: Apache-2.0
"""Results of Kubeflow tasks on a real cluster: large ones, those that fit nowhere, and none at all."""

import base64
import hashlib
import random
from pathlib import Path

import pytest
import s3fs
from covalent import TransportableObject

from tests.executors.dispatches import cancel
from tests.executors.kubeflow_tasks import Task, account
from tests.rigs.object_store import ObjectStore

LARGE = base64.b64encode(random.Random(3).randbytes(15 << 20)).decode()
"""20 MB of text that hardly compresses."""
NO_SECRET = LARGE[: 2 << 20]
"""More than a Secret takes."""


@pytest.fixture(scope="module")
def store(covalent_server, kubeflow_rig, tmp_path_factory):
    """An object store, whose address and credentials the server and the pods' ``Secret`` have."""
    made = ObjectStore(tmp_path_factory.mktemp("store"), kubeflow_rig.node.network.node_address).start()
    home = Path(covalent_server.env["HOME"], ".aws")
    home.mkdir()
    for name, text in made.client_files().items():
        (home / name).write_text(text)
    namespace, _ = account(kubeflow_rig)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "aws", "namespace": namespace}}
    kubeflow_rig.apply({**secret, "stringData": made.client_files()})
    yield made
    made.close()


PACKAGES = str(Path(s3fs.__file__).parents[1])


def with_driver(volume, path, environment=None, **more):
    """Options of a task whose image has fsspec and the driver for S3, and that has a volume at a path."""
    return {
        "environment": {"PYTHONPATH": PACKAGES, **(environment or {})},
        "volumes": [{"name": "packages", "hostPath": {"path": PACKAGES}}, {"name": "volume", **volume}],
        "volume_mounts": [
            {"name": "packages", "mountPath": PACKAGES, "readOnly": True},
            {"name": "volume", "mountPath": path},
        ],
        **more,
    }


def with_s3(**more):
    """Options of a task whose pod reaches the object store."""
    files = {"AWS_CONFIG_FILE": "/aws/config", "AWS_SHARED_CREDENTIALS_FILE": "/aws/credentials"}
    store = f"s3://{ObjectStore.bucket}/jobs/"
    return with_driver({"secret": {"secretName": "aws"}}, "/aws", files, store=store, **more)


def test_large_input_and_result_travel_by_the_store_which_is_empty_afterwards(
    covalent_server, kubeflow_rig, store
):
    body = "print(len(large))\nvalue = large[::-1]"
    task = Task(covalent_server, kubeflow_rig, body, {"large": LARGE}, **with_s3())
    assert task.completed() == LARGE[::-1]
    assert task.text() == b"%d\n" % len(LARGE)
    assert task.capability("complete")["answer"] == "yes"
    assert store.keys() == []
    job = task.job
    put, *_, deleted = store.requests(f"jobs/{job}.payload")
    assert (put, deleted) == ("PUT", "DELETE")
    assert "GET" in store.requests(f"jobs/{job}.payload")
    (result,) = store.asked_for(f"jobs/{job}.result-")
    assert store.requests(result)[-1] == "DELETE"
    assert store.requests(result).index("GET") < store.requests(result).index("DELETE")


def test_a_failed_and_a_cancelled_task_leave_nothing_in_the_store(covalent_server, kubeflow_rig, store):
    given = {"large": NO_SECRET}
    failing = Task(covalent_server, kubeflow_rig, "raise ValueError(len(large))", given, **with_s3())
    waiting = Task(
        covalent_server, kubeflow_rig, "", given, **with_s3(node_selector={"rig.test/never": "yes"})
    )
    assert failing.failed().startswith(f"ValueError: {len(NO_SECRET)}")
    assert store.keys() == [f"jobs/{waiting.job}.payload"]
    cancel(covalent_server, waiting.id, waiting.node)
    assert waiting.finished() == "CANCELLED"
    assert store.keys() == []


def shared_folder(rig, name):
    """A folder of the node, and a volume that is this folder."""
    folder = rig.folder / name
    folder.mkdir()
    return folder, {"hostPath": {"path": str(folder)}}


RANDOM = "import random\nvalue = random.Random(5).randbytes(2_000_000).hex()"


def test_what_cannot_be_deleted_from_the_store_is_no_failure(covalent_server, kubeflow_rig):
    shared, volume = shared_folder(kubeflow_rig, "shared")
    options = with_driver(volume, str(shared), store=f"file://{shared}")
    body = (
        "from pathlib import Path\npath = next(Path(shared).glob('*.payload'))\npath.unlink()\npath.mkdir()"
    )
    given = {"large": NO_SECRET, "shared": str(shared)}
    task = Task(covalent_server, kubeflow_rig, f"{body}\n{RANDOM}", given, **options)
    assert task.completed() == random.Random(5).randbytes(2_000_000).hex()
    payload = shared / f"{task.job}.payload"
    assert list(shared.iterdir()) == [payload]
    warning = f"{task.job}: an object stays in the store: file://{payload} cannot be deleted"
    assert warning in covalent_server.log.read_text()


def test_a_result_that_the_server_cannot_read_stays_in_the_store(covalent_server, kubeflow_rig):
    folder, volume = shared_folder(kubeflow_rig, "unseen")
    options = with_driver(volume, "/of-pods-alone", store="file:///of-pods-alone")
    task = Task(covalent_server, kubeflow_rig, RANDOM, **options)
    error = task.failed()
    (result,) = folder.iterdir()
    assert f"file:///of-pods-alone/{result.name} cannot be read: FileNotFoundError" in error
    assert hashlib.sha256(result.read_bytes()).hexdigest()[:16] == result.name.rpartition("-")[2]


def test_a_result_too_large_for_the_log_is_kept_in_a_folder_and_the_error_has_its_path(
    covalent_server, kubeflow_rig
):
    folder, volume = shared_folder(kubeflow_rig, "results")
    options = with_driver(volume, "/results", {"JOBLOG_RESULT_DIR": "/results"})
    error = Task(covalent_server, kubeflow_rig, RANDOM, **options).failed()
    (result,) = folder.iterdir()
    assert f"it was written to /results/{result.name} there" in error
    assert "too large" in error
    assert "set store=" in error
    assert "TransportableObject.deserialize" in error
    value = TransportableObject.deserialize(result.read_bytes()).get_deserialized()
    assert value == random.Random(5).randbytes(2_000_000).hex()


def test_an_input_that_fits_nowhere_is_refused_with_what_to_do(covalent_server, kubeflow_rig):
    error = Task(covalent_server, kubeflow_rig, "", {"large": NO_SECRET}).failed()
    assert "a Secret takes" in error
    assert "set store=" in error


def test_a_result_that_fits_nowhere_is_named_with_its_size(covalent_server, kubeflow_rig):
    error = Task(covalent_server, kubeflow_rig, RANDOM).failed()
    assert "too large to come back without a store" in error
    assert "set store=" in error


def test_a_store_whose_driver_the_image_lacks_is_told_before_the_function_runs(covalent_server, kubeflow_rig):
    task = Task(covalent_server, kubeflow_rig, "print('ran')", store="s3://tasks/jobs")
    error = task.failed()
    assert "fsspec" in error
    assert "the function did not begin" in error


def test_a_result_that_cannot_be_pickled_is_named(covalent_server, kubeflow_rig):
    task = Task(covalent_server, kubeflow_rig, "import threading\nvalue = threading.Lock()\nprint('made')")
    error = task.failed()
    assert "returned a" in error
    assert "lock that cannot be pickled" in error
    assert task.text() == b"made\n"


FORGED = '{"kind":"ok","status":0,"where":"inline","size":1,"sha256":"%s","data":"AA=="}' % ("0" * 64)


def test_a_forged_termination_message_does_nothing(covalent_server, kubeflow_rig):
    body = "open('/dev/termination-log', 'w').write(forged)\nraise RuntimeError('the truth')"
    task = Task(covalent_server, kubeflow_rig, body, {"forged": FORGED})
    assert task.failed().startswith("RuntimeError: the truth")


def test_the_other_ranks_failure_is_the_tasks(covalent_server, kubeflow_rig):
    body = "if rank: raise ValueError('not on this one')\nprint('well')\nvalue = 1"
    task = Task(covalent_server, kubeflow_rig, body, num_nodes=2)
    error = task.failed()
    assert "ValueError: not on this one" in error
    assert "rank 1" in error
    assert "the whole traceback stands in rank1.stderr of the node" in error
    assert b"ValueError: not on this one" in task.stored("rank1.stderr")
    assert task.text() == b"well\n"
