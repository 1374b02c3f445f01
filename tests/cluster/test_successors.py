# SPDX-License-Identifier: Apache-2.0
"""Logs that are rotated faster than they are read."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.cluster import log_reader, pod_log, stamped
from covalent_joblog_plugin.cluster.successors import Edge, Head
from tests.cluster.log_simulator import LogSimulator
from tests.cluster.pod_logs import Instance


@pytest.fixture(autouse=True, scope="module")
def quick():
    """Waits are short: how long they are is no business of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod_log, "LAST_BACK_OFF", 0.01)
        patch.setattr(log_reader, "HEAD_SECONDS", 0.05)
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


def follows(queries):
    return sum("follow" in query for query in queries)


def lines(letter):
    return [b"%s%d\n" % (letter, n) for n in range(9)]


@pytest.mark.parametrize("cut", [False, True])
async def test_a_stream_that_skips_files_is_left_for_theirs(simulator, instance, cut):
    """Also where lines were cut by the rotation: the rest of one is then joined to that of another."""
    simulator.slow = asyncio.Semaphore(0)
    reading = asyncio.create_task(instance.log().follow())
    expected = b""
    for number, letter in enumerate((b"a", b"b", b"c")):
        if number:
            simulator.log.rotate()
            simulator.change()
        for line in lines(letter):
            simulator.say(line)
        if cut:
            simulator.say(letter + b" is cut")
        expected += b"".join(lines(letter)) + (letter + b" is cut" if cut else b"")
        # One of them may be held back.
        simulator.slow.release()
        simulator.slow.release()
        await simulator.asked(lambda queries, streams=number + 1: follows(queries) == streams)
    for _ in range(100):
        simulator.slow.release()
    await instance.taken.until(lambda taken: b"c8" in taken.data)
    simulator.leave()
    assert await reading
    assert bytes(instance.taken.data) == expected
    assert instance.taken.gaps == []
    assert follows(simulator.queries) == 3


@pytest.mark.parametrize("cut", [False, True])
async def test_a_stream_that_comes_to_the_next_file_by_itself_goes_on(simulator, instance, cut):
    simulator.slow = asyncio.Semaphore(0)
    reading = asyncio.create_task(instance.log().follow())
    for line in lines(b"a"):
        simulator.say(line)
    simulator.say(b"cut " if cut else b"not cut\n")
    simulator.slow.release()
    await instance.taken.until(lambda taken: taken.data == b"a0\n")
    simulator.log.rotate()
    for line in lines(b"b"):
        simulator.say(line)
    simulator.slow.release()
    await simulator.asked(lambda queries: follows(queries) == 2)
    for _ in range(100):
        simulator.slow.release()
    await instance.taken.until(lambda taken: b"b8" in taken.data)
    simulator.say(b"from the first stream\n")
    await instance.taken.until(lambda taken: taken.data.endswith(b"stream\n"))
    simulator.leave()
    assert await reading
    end = b"cut " if cut else b"not cut\n"
    expected = [*lines(b"a"), end, *lines(b"b"), b"from the first stream\n"]
    assert bytes(instance.taken.data) == b"".join(expected)
    assert instance.taken.gaps == []


@pytest.mark.parametrize("skips", [False, True])
async def test_a_line_of_which_only_the_newline_is_in_the_next_file_keeps_it(simulator, instance, skips):
    simulator.slow = asyncio.Semaphore(0) if skips else None
    reading = asyncio.create_task(instance.log().follow())
    expected = b""
    for number in range(3):
        if number:
            simulator.log.rotate()
            simulator.change()
            simulator.say(b"\n")
            expected += b"\n"
        for _ in range(9):
            simulator.say(b"y\n")
        simulator.say(b"y")
        expected += b"y\n" * 9 + b"y"
        if skips:
            simulator.slow.release()
            simulator.slow.release()
            await simulator.asked(lambda queries, streams=number + 1: follows(queries) == streams)
        else:
            simulator.change()
            size = len(expected)
            await instance.taken.until(lambda taken, size=size: len(taken.data) >= size - 1)
    if skips:
        for _ in range(100):
            simulator.slow.release()
    simulator.say(b"\nlast\n")
    expected += b"\nlast\n"
    await instance.taken.until(lambda taken: taken.data.endswith(b"last\n"))
    simulator.leave()
    assert await reading
    assert bytes(instance.taken.data) == expected
    assert instance.taken.gaps == []


async def test_a_file_begun_inside_a_line_is_known_whole_however_short_its_lines_are(simulator, instance):
    """Stamps are most of such a log, and what is kept for comparing has them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stamped, "WINDOW_BYTES", 160 << 10)
        patch.setattr(log_reader, "HEAD_AFTER_BYTES", 40 << 10)
        patch.setattr(log_reader, "FLOW_BYTES", 4 << 10)
        patch.setattr(log_reader, "HEAD_SECONDS", 20.0)
        patch.setattr(log_reader, "QUIET_SECONDS", 20.0)
        reading = asyncio.create_task(instance.log().follow())
        expected = bytearray()
        for number in range(60):
            if number % 20 == 10:
                simulator.log.write(1, b"y")
                simulator.log.rotate()
                simulator.log.write(1, b"\n")
                expected += b"y\n"
            for _ in range(1000):
                simulator.log.now += 10**5
                simulator.log.write(1, b"y\n")
            simulator.change()
            expected += b"y\n" * 1000
            size = len(expected)
            await instance.taken.until(lambda taken, size=size: len(taken.data) == size)
        simulator.leave()
        assert await reading
    assert instance.taken.data == expected
    assert instance.taken.gaps == []


def stamp(milliseconds):
    return b"2025-12-01T00:00:%02d.%03d000000Z" % divmod(milliseconds, 1000)


@given(
    st.lists(st.sampled_from([b"", b"a", b"some text", b"x" * 100, stamp(9) + b" b"]), max_size=6),
    st.integers(0, 6),
    st.lists(st.integers(1, 90), min_size=1, max_size=9),
    st.integers(0, 20),
    st.integers(0, 25),
)
def test_a_stream_is_held_at_the_end_of_its_file_wherever_chunks_end(texts, later, sizes, number, late):
    """The limit is known from some chunk on, at the latest inside the first later stamp."""
    stamped = [stamp(n) + b" " + text + b"\n" for n, text in enumerate(texts)]
    whole, end = b"".join(stamped), len(b"".join(stamped[:later]))
    edge, given_on, at, n = Edge(), b"", 0, 0
    while at < len(whole) and edge.crossing is None:
        chunk = whole[at : at + sizes[n % len(sizes)]]
        known = n >= number or at + len(chunk) > end + late
        given_on += edge.feed(chunk, stamp(later) if known else b"")
        at, n = at + len(chunk), n + 1
    if edge.crossing is None:
        assert given_on + edge.rest() == whole
        assert at <= end + len(stamp(0))
    else:
        line, first = edge.crossing
        assert first == stamp(later)
        assert (given_on + line)[:end] == whole[:end]
        assert len(given_on) <= end + late
        assert line or len(given_on) >= end
        edge.drop()
        assert edge.rest() == b""


def test_a_line_may_go_on_in_a_file_only_if_its_end_and_the_next_stamp_fit():
    head = Head(stamp(5), b"rest\n" + stamp(6) + b" more\n")
    assert head.goes_on(b"the rest\n", stamp(6))
    assert not head.goes_on(b"the rest\n", stamp(7))
    assert not head.goes_on(b"another\n", stamp(6))
    assert Head(stamp(5), b"x" * 4000).goes_on(b"begun" + b"x" * 5000 + b"\n", stamp(6))
