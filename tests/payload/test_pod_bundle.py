# SPDX-License-Identifier: Apache-2.0
"""What is sent into a pod, and how what comes back is read."""

import base64
import json
import os
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.cluster.framing import Decoder, Frame
from covalent_joblog_plugin.cluster.framing_encoder import frames
from covalent_joblog_plugin.model.errors import PayloadError
from covalent_joblog_plugin.payload import object_store, pod_bundle, pod_delivery
from tests.payload.pods import ended, payload_of, run, started


def test_the_same_call_gives_the_same_secret():
    files = {"bundle": b"call" * 100_000, "runner.py": b"pass"}
    assert pod_bundle.payload(files) == pod_bundle.payload(dict(reversed(files.items())))


def test_every_key_fits_into_a_variable_and_all_into_a_secret():
    payload = pod_bundle.payload({"bundle": os.urandom(600_000)})
    assert max(map(len, payload.secret.values())) <= 100 * 1024
    assert sum(map(len, payload.secret.values())) < 1 << 20
    assert set(payload.secret_variables().values()) == set(payload.secret)
    assert (payload.stored, payload.stored_at) == (b"", "")


def test_too_much_without_a_store_is_refused_with_what_to_do():
    with pytest.raises(PayloadError, match=r"800000 bytes.*set store="):
        pod_bundle.payload({"bundle": os.urandom(800_000)})


def test_the_command_is_short_and_holds_nothing_kubernetes_would_expand():
    command = pod_bundle.container_command(["python3", "-X", "dev"])
    assert command[:5] == ["python3", "-X", "dev", "-u", "-c"]
    assert len(command[5]) < 4096
    assert "$(" not in command[5]


def test_a_large_call_travels_by_the_store(tmp_path):
    ballast = os.urandom(1_000_000)
    payload = payload_of(lambda: len(ballast), f"file://{tmp_path}/task")
    assert payload.stored
    assert set(payload.secret) == {"payload-sha256", "store"}
    object_store.put(payload.stored_at, payload.stored)
    done = ended(tmp_path, started(tmp_path, None, payload=payload))
    assert done.value == 1_000_000


def test_a_call_of_700_kb_travels_in_variables(tmp_path):
    ballast = os.urandom(680_000)
    done = run(tmp_path, lambda: len(ballast))
    assert done.value == 680_000


def test_a_payload_that_is_not_there_or_not_the_right_one_is_told(tmp_path):
    payload = payload_of(lambda: None, f"file://{tmp_path}/task")
    large = pod_bundle.Payload({"store": payload.secret["store"], "payload-sha256": "0" * 64})
    missing = run(tmp_path / "a", None, payload=large)
    assert (missing.status, missing.verdict.kind) == (1, "store")
    assert "FileNotFoundError" in missing.verdict.message
    object_store.put(f"file://{tmp_path}/task.payload", b"other")
    other = run(tmp_path / "b", None, payload=large)
    assert (other.status, other.verdict.kind) == (1, "bundle")
    assert b"cannot be started" in other.stderr


def test_a_pod_without_fsspec_says_so_where_the_call_is_in_the_store(tmp_path, bare_python):
    payload = pod_bundle.Payload({"store": f"file://{tmp_path}/task", "payload-sha256": "0" * 64})
    done = run(tmp_path, None, payload=payload, python=bare_python)
    assert (done.status, done.verdict.kind) == (1, "store")
    assert "fsspec" in done.verdict.message


@given(st.binary(max_size=60_000), st.randoms())
def test_frames_in_any_order_and_twice_give_the_result_and_with_one_missing_none(result, random):
    decoder = Decoder()
    decoder.feed(b"\x1c@0 0\n")
    found = decoder.feed(b"".join(frames(zlib.compress(result, 0))))
    parts = [(f.seq, f.n, f.payload) for f in found if isinstance(f, Frame)]
    mixed = parts * 2
    random.shuffle(mixed)
    assert pod_bundle.frames_result(mixed) == result
    assert pod_bundle.frames_result(parts[1:]) is None
    assert pod_bundle.frames_result([]) is None


def test_damaged_results_are_named():
    verdict = '{"kind":"ok","where":"inline","data":"%s"}'
    for data in (base64.b64encode(b"no zlib").decode(), "=="):
        with pytest.raises(PayloadError, match="damaged"):
            pod_bundle.inline_result(pod_bundle.parse_pod_verdict(verdict % data))
    with pytest.raises(PayloadError, match="damaged"):
        pod_bundle.frames_result([(1, 1, b"no zlib")])


@pytest.mark.parametrize(
    "message",
    [
        "",
        "Killed",
        "[]",
        '{"where": "inline"}',
        '{"kind":"ok","where":7}',
        '{"kind":"ok","status":"0"}',
        '{"kind":"ok","streams":[1,2]}',
        '{"kind":"ok","streams":{"stdout":[1,"a"]}}',
        '{"kind":"ok","streams":{"stdout":[1,"a"],"stderr":["1","a"]}}',
        '{"kind":"ok","streams":{"stdout":1,"stderr":2}}',
        "\udcff",
    ],
)
def test_a_message_of_somebody_elses_is_no_verdict(message):
    with pytest.raises(PayloadError):
        pod_bundle.parse_pod_verdict(message)
    assert pod_bundle.stream_counts(message) is None


@given(st.text(max_size=200))
def test_no_text_breaks_the_reading_of_messages(message):
    assert pod_bundle.stream_counts(message) is None


def test_a_store_that_fails_is_told_with_its_name_and_without_credentials(tmp_path):
    with pytest.raises(PayloadError, match=r"missing/x cannot be written: FileNotFoundError.*check store="):
        object_store.put(f"file://{tmp_path}/missing/x", b"")
    with pytest.raises(PayloadError, match="cannot be read"):
        object_store.get(f"file://{tmp_path}/none")
    with pytest.raises(PayloadError) as told:
        object_store.get("nosuch://user:secret@host/x")
    assert "secret" not in str(told.value)


def test_a_missing_driver_is_named_with_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(PayloadError, match="gcsfs"):
        object_store.get("gs://bucket/x")


def test_the_store_keeps_bytes(tmp_path):
    data = os.urandom(100_000)
    object_store.put(f"file://{tmp_path}/x", data)
    assert object_store.get(str(tmp_path / "x")) == data
    assert pod_delivery.store_problem(f"file://{tmp_path}") == ""


def test_what_is_deleted_from_the_store_is_gone_and_may_have_been_gone(tmp_path):
    url = f"file://{tmp_path}/x"
    object_store.put(url, b"data")
    object_store.delete(url)
    object_store.delete(url)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(PayloadError, match=r"cannot be deleted: .*check store="):
        object_store.delete(f"file://{tmp_path}")


def told(**facts):
    return json.dumps({"kind": "ok", "where": "store", "sha256": "ab" * 32, **facts})


def test_a_jobs_objects_in_the_store_are_known_by_its_own_words():
    large, small = {"store": "s3://b/task"}, {"store": "s3://b/task", "joblog-payload-0": "text"}
    messages = [told(), told(), told(sha256="cd" * 32), told(where="inline"), "Killed"]
    results = [f"s3://b/task.result-{'ab' * 8}", f"s3://b/task.result-{'cd' * 8}"]
    assert pod_bundle.stored_objects(large, messages) == ["s3://b/task.payload", *results]
    assert pod_bundle.stored_objects(small, messages) == results
    assert pod_bundle.stored_objects({}, messages) == []


@pytest.mark.parametrize("digest", ["", "/../../x", "AB" * 32, "ab" * 31, "ab" * 32 + "\n"])
def test_a_pod_cannot_name_an_object_of_somebody_elses(digest):
    secret, message = {"store": "file:///b/task", "joblog-payload-0": ""}, told(sha256=digest)
    with pytest.raises(PayloadError, match="no runner of ours"):
        pod_bundle.stored_result(secret, pod_bundle.parse_pod_verdict(message))
    assert pod_bundle.stored_objects(secret, [message]) == []
