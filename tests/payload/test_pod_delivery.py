# SPDX-License-Identifier: Apache-2.0
"""How result and verdict leave a pod."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from covalent_joblog_plugin.payload import object_store, pod_bundle, pod_delivery, pod_wording
from covalent_joblog_plugin.payload.verdict import Verdict
from covalent_joblog_plugin.payload.wording import error_text
from tests.payload.pods import run


def test_a_larger_result_comes_in_frames_after_the_text(tmp_path):
    def function():
        import numpy as np

        print("no newline", end="")
        return np.random.default_rng(1).integers(0, 256, 900_000, dtype="u1")

    done = run(tmp_path, function)
    assert (done.status, done.found.where) == (0, "frames")
    assert done.value.tobytes() == function().tobytes()
    assert (done.text(1), done.complete) == (b"no newline", True)


def test_a_result_too_large_for_the_log_goes_to_a_folder_or_nowhere(tmp_path):
    def function():
        import os

        return os.urandom(20_000_000)

    nowhere = run(tmp_path / "a", function)
    assert (nowhere.status, nowhere.found.where) == (0, "nowhere")
    text = pod_wording.overflow_text(nowhere.found, framing=True)
    assert f"the result has {nowhere.verdict.size} bytes (80.2 MiB) as Covalent packs it, too large" in text
    assert "it may have 67108864 bytes (64.0 MiB) then" in text
    assert "set store=" in text
    assert "JOBLOG_RESULT_DIR" in text
    kept = tmp_path / "kept"
    kept.mkdir()
    done = run(tmp_path / "b", function, JOBLOG_RESULT_DIR=str(kept))
    assert (done.status, done.found.where) == (0, "file")
    assert hashlib.sha256(Path(done.found.place).read_bytes()).hexdigest() == done.verdict.sha256
    text = pod_wording.overflow_text(done.found, framing=True)
    assert done.found.place in text
    assert "JOBLOG_RESULT_DIR" not in text


def test_what_would_have_fitted_is_told():
    found = pod_bundle.PodVerdict(Verdict("ok", size=5 << 20), where="nowhere")
    framed = pod_wording.overflow_text(found, framing=True)
    assert "5242880 bytes (5.0 MiB)" in framed
    assert "more than 1048576 bytes (1.0 MiB), which the pod's log takes" in framed
    plain = pod_wording.overflow_text(found, framing=False)
    assert "framing=False" in plain
    assert "1048576" not in plain


def test_a_large_result_goes_to_the_store_and_not_through_the_log(tmp_path):
    def function():
        import os

        return os.urandom(2_000_000)

    store = f"file://{tmp_path}/task"
    done = run(tmp_path, function, store=store)
    assert (done.status, done.found.where) == (0, "store")
    url = pod_bundle.stored_result({"store": store}, done.found)
    data = object_store.get(url)
    assert hashlib.sha256(data).hexdigest() == done.verdict.sha256
    assert len(done.log) < 1000


def test_a_store_that_takes_nothing_any_more_leaves_the_log_for_the_result(tmp_path):
    folder = tmp_path / "store"
    folder.mkdir()

    def function():
        import os

        folder.rmdir()
        return os.urandom(100_000)

    done = run(tmp_path, function, store=f"file://{folder}/task")
    assert (done.status, done.found.where) == (0, "frames")
    assert len(done.value) == 100_000
    assert "FileNotFoundError" in done.found.problem


def test_a_store_that_takes_nothing_is_told_before_the_function_runs(tmp_path):
    def function():
        print("must not run")

    done = run(tmp_path, function, store=f"file://{tmp_path}/missing/task")
    assert (done.status, done.verdict.kind, done.log) == (77, "store", b"")
    text = error_text(done.verdict, 77)
    assert "FileNotFoundError" in text
    assert "did not begin" in text


FULL = 'mount -t tmpfs -o size=1m full "$0" && { "$@"; ls "$0" > "$0.listing"; }'


def test_a_folder_without_room_for_the_result_has_no_part_of_it_afterwards(tmp_path):
    if os.getuid():
        pytest.fail("run as root, to mount a small disk")
    kept = tmp_path / "kept"
    kept.mkdir()
    before = ["unshare", "--mount", "sh", "-c", FULL, str(kept)]
    done = run(tmp_path, lambda: os.urandom(3_000_000), before=before, JOBLOG_RESULT_DIR=str(kept))
    assert done.found.where == "nowhere"
    assert "No space left" in pod_wording.overflow_text(done.found, framing=True)
    assert (tmp_path / "kept.listing").read_text() == ""


def test_a_store_whose_driver_is_missing_is_told_before_the_function_runs(tmp_path, bare_python):
    def function():
        print("must not run")

    done = run(tmp_path, function, python=bare_python, store="s3://bucket/task")
    assert (done.status, done.verdict.kind, done.log) == (77, "store", b"")
    text = error_text(done.verdict, 77)
    assert "fsspec" in text
    assert "did not begin" in text


def test_only_rank_0_delivers_a_result(tmp_path):
    def function():
        return os.environ.get("JOB_COMPLETION_INDEX")

    first = run(tmp_path / "a", function, JOB_COMPLETION_INDEX="0", RANK="7")
    second = run(tmp_path / "b", function, RANK="1")
    assert first.value == "0"
    assert (second.status, second.verdict.kind, second.found.where) == (0, "ok", "")


def test_a_verdict_the_user_prints_is_only_text(tmp_path):
    forged = json.dumps({"kind": "ok", "where": "inline", "data": "AAAA", "status": 0})

    def function():
        print(forged)
        raise SystemExit(4)

    done = run(tmp_path, function)
    assert (done.status, done.verdict.kind) == (4, "exit")
    assert done.text(1).decode() == forged + "\n"


def test_a_message_that_cannot_be_written_costs_no_output(tmp_path):
    def function():
        print("text")

    done = run(tmp_path, function, JOBLOG_TERMINATION_LOG=str(tmp_path / "none" / "log"))
    assert (done.status, done.text(1)) == (0, b"text\n")
    assert b"cannot be delivered" in done.stderr


@pytest.mark.parametrize("kind", ["exception", "ok"])
def test_whatever_a_verdict_holds_it_fits(kind):
    long = dict.fromkeys(("type", "message", "traceback", "what", "executable"), "𝄞" * 70_000)
    streams = {"stdout": [1 << 60, "0" * 64], "stderr": [1 << 60, "0" * 64]}
    facts = {"kind": kind, "status": 1, "streams": streams, **long}
    text = pod_delivery.fitted(facts)
    assert len(text) <= 4096
    found = pod_bundle.parse_pod_verdict(text.decode())
    assert (found.verdict.kind, found.streams["stdout"]) == (kind, (1 << 60, "0" * 64))
