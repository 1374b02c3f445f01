# SPDX-License-Identifier: Apache-2.0
"""Following a log to its end, whatever the answers are; by a server that can be told to give them."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalent_joblog_plugin.cluster import kubernetes, log_reader, pod_log
from covalent_joblog_plugin.cluster.kubernetes_errors import ApiError
from covalent_joblog_plugin.cluster.pod_log import InstanceState
from tests.cluster.cri_log import ContainerLog, Record
from tests.cluster.log_simulator import Fault, LogSimulator
from tests.cluster.pod_logs import Instance

FORBIDDEN = (
    'pods "writer" is forbidden: User "system:serviceaccount:ml:covalent" cannot get resource "pods/log" '
    'in API group "" in the namespace "ml"'
)


@pytest.fixture(autouse=True, scope="module")
def quick():
    """Waits are short: how long they are is no business of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod_log, "LAST_BACK_OFF", 0.01)
        for name in ("POLL_SECONDS", "REFUSED_LOOK"):
            patch.setattr(pod_log, name, 0.02)
        patch.setattr(pod_log, "KEPT_PATIENCE", 0.3)
        for name in ("HEAD_SECONDS", "SILENT_SECONDS"):
            patch.setattr(log_reader, name, 0.05)
        patch.setattr(log_reader, "SETTLE_SECONDS", 0.0)
        yield


@pytest.fixture
def simulator():
    return LogSimulator()


@pytest.fixture
async def instance(simulator, tmp_path):
    """The first start of the simulator's container."""
    async with simulator.served(tmp_path) as api:
        yield Instance(api, "ml", "writer", "1")


@pytest.fixture
async def reading(instance):
    task = asyncio.create_task(instance.log().follow())
    yield task
    task.cancel()


def first_follow(fault):
    faults = [fault]
    return lambda query: faults.pop() if faults and "follow" in query else None


async def test_a_stream_that_ends_while_the_pod_runs_is_opened_again(simulator, instance, reading):
    """K01."""
    head = b"".join(b"%d\n" % n for n in range(500))
    for line in head.splitlines(keepends=True):
        simulator.log.now += 10**6
        simulator.log.write(1, line)
    simulator.fault = first_follow(Fault(after=None))
    await instance.taken.until(lambda taken: len(taken.data) == len(head))
    for n in range(500, 901):
        simulator.say(b"%d\n" % n)
    simulator.leave()
    assert await reading
    assert bytes(instance.taken.data) == b"".join(b"%d\n" % n for n in range(901))
    assert instance.taken.gaps == []


async def test_equal_lines_of_one_second_come_as_often_as_they_were_written(simulator, instance, reading):
    """K02: the next answer begins at the same whole second and brings them all again."""
    log, begin = simulator.log, simulator.log.now
    for tenth, text in ((1, b"a\n"), (2, b"tick\n"), (2, b"tick\n")):
        log.files[-1].append(Record(begin + tenth * 10**8, 1, text))
    simulator.fault = first_follow(Fault(after=None, cut=True))
    simulator.change()
    await instance.taken.until(lambda taken: len(taken.data) == 12)
    log.files[-1].append(Record(begin + 3 * 10**8, 1, b"c\n"))
    simulator.leave()
    assert await reading
    assert bytes(instance.taken.data) == b"a\ntick\ntick\nc\n"


async def test_lines_that_the_runtime_cut_are_whole_again(simulator, instance, reading):
    """K03; which stream wrote what is not in the answer: a pod's log is one text."""
    begin = simulator.log.now
    for nanosecond, stream, text in ((1, 1, b"aaaa"), (2, 2, b"e\n"), (3, 1, b"bbb\n")):
        simulator.log.files[-1].append(Record(begin + nanosecond, stream, text))
    simulator.leave()
    assert await reading
    assert bytes(instance.taken.data) == b"aaaae\nbbb\n"


@pytest.mark.parametrize("text", [b"", b"text\n", b"text without an end"])
async def test_what_the_kubelet_says_inside_a_log_is_no_text_of_the_container(
    simulator, instance, reading, text
):
    why = "failed to create fsnotify watcher: too many open files"
    records = simulator.log.files[-1]
    if text:
        records.append(Record(simulator.log.now, 1, text))
    simulator.fault = first_follow(Fault(after=None, message=why))
    await instance.taken.until(lambda taken: why in taken.troubles)
    records.append(Record(simulator.log.now + 1, 1, b" and more\n"))
    simulator.leave()
    assert await reading
    assert bytes(instance.taken.data) == text + b" and more\n"
    assert instance.taken.troubles[-1] == ""


async def test_a_log_that_the_kubelet_has_removed_is_given_up(simulator, instance, reading):
    simulator.fault = lambda _: Fault(message="unable to retrieve container logs for containerd://1")
    simulator.leave()
    assert await reading is False
    assert "unable to retrieve" in instance.taken.gaps[0][1]


async def test_a_missing_right_is_named_and_the_end_is_still_noticed(simulator, instance, reading):
    simulator.fault = lambda _: Fault(403, FORBIDDEN)
    await instance.taken.until(lambda taken: taken.troubles)
    assert instance.taken.troubles[-1].startswith("needs get pods/log in namespace ml")
    simulator.leave()
    assert await reading is False
    assert "needs get pods/log" in instance.taken.gaps[0][1]


async def test_a_right_that_is_given_is_used(simulator, instance, reading, monkeypatch):
    monkeypatch.setattr(pod_log, "REFUSED_PAUSE", 0.1)
    simulator.fault = lambda _: Fault(403, FORBIDDEN)
    simulator.say(b"text\n")
    await instance.taken.until(lambda taken: taken.troubles)
    simulator.fault = lambda _: None
    await instance.taken.until(lambda taken: taken.data)
    simulator.leave()
    assert await reading
    assert bytes(instance.taken.data) == b"text\n"
    assert instance.taken.troubles[-1] == ""


async def test_a_busy_cluster_is_left_alone_for_as_long_as_it_asks(simulator, instance, reading):
    simulator.fault = first_follow(Fault(429, "too many requests", headers={"Retry-After": "1"}))
    simulator.say(b"text\n")
    began = time.monotonic()
    await instance.taken.until(lambda taken: taken.data)
    assert time.monotonic() - began >= 1
    assert not reading.done()


async def test_a_silent_stream_is_opened_again_and_nothing_comes_twice(simulator, instance, monkeypatch):
    monkeypatch.setattr(kubernetes, "IDLE_SECONDS", 0.1)
    simulator.say(b"text\n")
    reading = asyncio.create_task(instance.log().follow())
    await simulator.asked(lambda queries: sum("follow" in query for query in queries) == 4)
    simulator.say(b"more\n")
    simulator.leave()
    assert await reading
    assert bytes(instance.taken.data) == b"text\nmore\n"
    assert set(instance.taken.troubles) <= {""}


async def test_a_start_that_follows_at_once_is_not_taken_for_this_one(simulator, instance):
    simulator.say(b"of the first start\n")
    simulator.log.exit()

    async def look():
        answer = await instance.look()
        if len(instance.looks) > 1:
            return answer
        simulator.starts.append(ContainerLog(now=simulator.log.now + 10**9))
        simulator.log.write(1, b"of the second start\n")
        return InstanceState.RUNNING, False

    log = pod_log.PodLog(instance.api, "ml", "writer", "node", look, instance.taken)
    assert await log.follow()
    assert bytes(instance.taken.data) == b"of the first start\n"
    assert instance.taken.gaps == []


async def test_a_deleted_pod_ends_the_reading(simulator, instance, reading):
    simulator.fault = first_follow(Fault(after=None, cut=True))
    simulator.say(b"text\n")
    await instance.taken.until(lambda taken: taken.data)
    simulator.gone = True
    assert await reading is False
    assert instance.taken.data == b"text\n"


async def test_without_a_free_stream_a_log_is_polled(simulator, instance):
    instance.api.streams = asyncio.Semaphore(0)
    reading = asyncio.create_task(instance.log().follow())
    for word in (b"one\n", b"two\n"):
        simulator.say(word)
        await instance.taken.until(lambda taken, word=word: taken.data.endswith(word))
    simulator.leave()
    assert await reading
    assert bytes(instance.taken.data) == b"one\ntwo\n"
    assert not any("follow" in query for query in simulator.queries)


async def test_a_stream_stuck_on_a_rotated_file_is_opened_again_without_a_gap(simulator, instance, reading):
    simulator.stuck = True
    simulator.say(b"first file\n")
    await instance.taken.until(lambda taken: taken.data)
    simulator.log.rotate()
    simulator.say(b"second file\n")
    # The head is read because of text that came since the last time.
    simulator.log.files[0].append(Record(simulator.log.now - 5 * 10**7, 1, b"end of the first file\n"))
    simulator.change()
    await instance.taken.until(lambda taken: b"second" in taken.data)
    simulator.leave()
    assert await reading
    assert bytes(instance.taken.data) == b"first file\nend of the first file\nsecond file\n"
    assert instance.taken.gaps == []


async def test_a_file_that_the_kubelet_shows_twice_is_taken_once(simulator, instance, reading):
    simulator.say(b"one\n")
    simulator.say(b"two\n")
    await instance.taken.until(lambda taken: len(taken.data) == 8)
    simulator.again = True
    simulator.say(b"three\n")
    await instance.taken.until(lambda taken: len(taken.data) == 14)
    simulator.leave()
    assert await reading
    assert bytes(instance.taken.data) == b"one\ntwo\nthree\n"
    assert instance.taken.gaps == []


async def test_no_more_is_taken_than_there_is_room_for(simulator, instance):
    free = asyncio.Event()
    instance.taken.room = free.wait
    for _ in range(100):
        simulator.say(b"x" * 100_000 + b"\n")
    reading = asyncio.create_task(instance.log().follow())
    await instance.taken.until(lambda taken: taken.data)
    await simulator.asked(lambda queries: len(queries) == 2)  # a head is read meanwhile
    assert len(instance.taken.data) < 2_000_000
    free.set()
    simulator.leave()
    assert await reading
    assert bytes(instance.taken.data) == simulator.log.truth


async def test_looks_that_fail_are_waited_out(simulator, instance):
    failures = [ApiError("the cluster does not answer"), ApiError("the cluster does not answer")]

    async def look():
        if failures:
            raise failures.pop()
        return await instance.look()

    simulator.say(b"text\n")
    simulator.leave()
    assert await pod_log.PodLog(instance.api, "ml", "writer", "node", look, instance.taken).follow()
    assert instance.taken.troubles == ["the cluster does not answer", ""]


steps = st.lists(
    st.tuples(
        st.sampled_from([b"line\n", b"part", b"\n", b"\r\n", b"\xff\x00\n", b"y" * 20_000]),
        st.sampled_from([1, 2]),
        st.one_of(st.none(), st.builds(Fault, after=st.integers(0, 3000), cut=st.just(True))),
    ),
    max_size=15,
)


@given(steps)
@settings(max_examples=25)
def test_cut_anywhere_it_is_what_was_written(steps):
    async def run(folder):
        simulator = LogSimulator()
        faults = [fault for _, _, fault in steps]
        simulator.fault = lambda query: faults.pop() if faults and "limitBytes" not in query else None
        async with simulator.served(folder) as api:
            instance = Instance(api, "ml", "writer", "1")
            reading = asyncio.create_task(instance.log().follow())
            for text, stream, _ in steps:
                simulator.say(text, stream)
                await asyncio.sleep(0.003)
            simulator.leave()
            assert await reading
        assert bytes(instance.taken.data) == simulator.log.truth
        assert instance.taken.gaps == []

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))
