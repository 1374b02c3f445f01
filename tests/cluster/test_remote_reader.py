# SPDX-License-Identifier: Apache-2.0
"""Reading files of the login node, by a reader that stays and by one command a tick, over a real sshd."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
from pathlib import Path

import pytest

from covalent_joblog_plugin.cluster.reader_source import ReaderSource
from covalent_joblog_plugin.model.records import ReadRequest
from covalent_joblog_plugin.model.source import FAIR_BYTES

pytestmark = pytest.mark.slurm

MIB = 1 << 20
NAMES = [
    "a'; touch pwned; '.log",
    "$(touch pwned).log",
    "`touch pwned`.log",
    "two words.log",
    "-rf.log",
    "new\nline.log",
    "~x.log",
    "日本.log",
    "\udcff\udcfe.log",
    '"quoted" \\ back.log',
    "*?[a].log",
]


@pytest.fixture(params=["channel", "exec"])
async def source(request, shell):
    made = ReaderSource(shell, request.param, interval=0.3)
    yield made
    await made.close()


@pytest.fixture
async def channel_source(shell):
    made = ReaderSource(shell, "channel", interval=0.3)
    yield made
    await made.close()


async def ask(source, *requests, wait=0.0, size=4 * MIB):
    deltas = await source.read_deltas([ReadRequest(str(path), pos) for path, pos in requests], wait, size)
    return {delta.path: delta for delta in deltas}


@pytest.mark.parametrize("name", NAMES)
async def test_a_file_of_any_name_is_read_byte_for_byte(source, tmp_path, name):
    path = tmp_path / name
    data = bytes(range(256)) + name.encode("utf-8", "surrogateescape")
    path.write_bytes(data)
    delta = (await ask(source, (path, 0)))[str(path)]
    assert delta.data == data
    delta = (await ask(source, (path, 100)))[str(path)]
    assert (delta.pos, delta.data, delta.before) == (100, data[100:], data[36:100])
    assert not any("pwned" in str(found) for found in tmp_path.rglob("*") if found.name == "pwned")


async def test_a_poll_answers_for_every_file_and_says_which_are_missing(source, tmp_path):
    (tmp_path / "here").write_bytes(b"text")
    (tmp_path / "empty").touch()
    paths = [tmp_path / "here", tmp_path / "empty", tmp_path / "no" / "folder" / "yet"]
    found = await ask(source, *[(path, 0) for path in paths])
    here, empty, missing = (found[str(path)] for path in paths)
    assert (here.data, here.size, here.problem) == (b"text", 4, "")
    assert (empty.data, empty.size, empty.problem) == (b"", 0, "")
    assert (missing.data, missing.size, missing.problem) == (b"", None, "")
    at_end = (await ask(source, (tmp_path / "here", 4)))[str(tmp_path / "here")]
    assert (at_end.data, at_end.size, at_end.before) == (b"", 4, b"text")


async def test_a_poll_for_one_file_leaves_those_that_rest_alone_but_not_the_news(channel_source, tmp_path):
    for name in ("ended", "rests", "busy"):
        (tmp_path / name).write_bytes(b"seen")

    async def poll():
        requests = [ReadRequest(str(tmp_path / n), 4, now=n == "ended") for n in ("ended", "rests", "busy")]
        return {Path(d.path).name: d.data for d in await channel_source.read_deltas(requests, 0.0, MIB)}

    await ask(channel_source, *[(tmp_path / n, 4) for n in ("ended", "rests", "busy")])
    assert await poll() == {"ended": b""}
    with (tmp_path / "busy").open("ab") as file:
        file.write(b"news")
    found, deadline = {}, time.monotonic() + 10
    while "busy" not in found and time.monotonic() < deadline:
        found = await poll()
        assert "rests" not in found
        await asyncio.sleep(0.1)  # as often as the monitor asks; more would use up what looking may cost
    assert found == {"ended": b"", "busy": b"news"}


async def test_a_file_may_appear_after_its_folder_after_the_question(source, tmp_path):
    path = tmp_path / "late" / "folder" / "x"

    async def appear():
        await asyncio.sleep(0.3)
        path.parent.mkdir(parents=True)
        await asyncio.sleep(0.3)
        path.write_bytes(b"x\n")

    appearing = asyncio.create_task(appear())
    found = await ask(source, (path, 0), wait=20)
    assert found[str(path)].data == b"x\n"
    await appearing


async def test_what_is_no_regular_file_is_told_once_and_stops_no_other(source, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(name.encode())
    paths = [tmp_path / name for name in ("a", "fifo", "folder", "b")] + ["/dev/zero"]
    found = await ask(source, *[(path, 0) for path in paths])
    assert {path: delta.data for path, delta in found.items() if delta.data} == {
        str(tmp_path / "a"): b"a",
        str(tmp_path / "b"): b"b",
    }
    for path in ("fifo", "folder"):
        assert "not a regular file" in found[str(tmp_path / path)].problem
    assert "not a regular file" in found["/dev/zero"].problem


async def test_a_fifo_that_waits_for_its_reader_is_left_waiting(channel_source, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    written = threading.Event()

    def write():
        with fifo.open("wb") as file:
            written.set()
            file.write(b"for its reader")

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(5):
        await ask(channel_source, (fifo, 0))
    assert not written.is_set()
    assert fifo.read_bytes() == b"for its reader"
    writer.join()


async def test_a_problem_is_told_once_to_who_waits(channel_source, tmp_path):
    found = await ask(channel_source, (tmp_path, 0), wait=10)
    assert "not a regular file" in found[str(tmp_path)].problem
    assert await ask(channel_source, (tmp_path, 0), wait=1) == {}


async def test_the_same_question_gives_the_same_bytes(source, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    first, second = [(await ask(source, (path, 3)))[str(path)] for _ in range(2)]
    assert first.data == second.data == b"3456789"


async def test_several_files_share_an_answer_and_a_lone_one_gets_it_all(source, tmp_path):
    paths = [tmp_path / str(n) for n in range(8)]
    for n, path in enumerate(paths):
        path.write_bytes(bytes([n]) * 3 * MIB)
    found = await ask(source, *[(path, 0) for path in paths])
    assert [len(found[str(path)].data) for path in paths] == [FAIR_BYTES] * 8
    lone = await ask(source, (paths[0], 0), *[(path, 3 * MIB) for path in paths[1:]])
    assert len(lone[str(paths[0])].data) == 3 * MIB


async def test_who_found_no_room_in_an_answer_comes_first_in_the_next(channel_source, tmp_path):
    paths = [tmp_path / str(n) for n in range(10)]
    for path in paths:
        path.write_bytes(b"x" * MIB)
    positions = dict.fromkeys(map(str, paths), 0)
    for _ in range(5):
        found = await ask(channel_source, *positions.items(), size=2 * FAIR_BYTES)
        for path, delta in found.items():
            positions[path] += len(delta.data)
    assert set(positions.values()) == {FAIR_BYTES}


async def test_a_file_of_five_gib_is_read_at_its_end_and_its_hole_is_known(source, tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.seek(5 << 30)
        file.write(b"the end")
    delta = (await ask(source, (path, 5 << 30)))[str(path)]
    assert (delta.data, delta.size) == (b"the end", (5 << 30) + 7)
    assert delta.before == bytes(64)
    assert delta.hole == 5 << 30


async def test_a_burst_of_200_mb_arrives_whole(source, tmp_path):
    path = tmp_path / "burst"
    block = os.urandom(MIB)
    with path.open("wb") as file:
        for n in range(200):
            file.write(n.to_bytes(4, "big") + block[4:])
    read, pos = hashlib.sha256(), 0
    while pos < 200 * MIB:
        delta = (await ask(source, (path, pos), wait=10))[str(path)]
        read.update(delta.data)
        pos += len(delta.data)
    with path.open("rb") as file:
        assert read.hexdigest() == hashlib.file_digest(file, "sha256").hexdigest()


async def test_news_of_a_busy_file_arrive_within_a_moment(channel_source, tmp_path):
    path = tmp_path / "busy"
    path.write_bytes(b"")
    late = []
    for n in range(10):
        asking = asyncio.create_task(ask(channel_source, (path, n), wait=20))
        await asyncio.sleep(0.13)
        with path.open("ab") as file:
            file.write(b"x")
        wrote = time.monotonic()
        assert (await asking)[str(path)].data == b"x"
        late.append(time.monotonic() - wrote)
    assert sorted(late)[5] < 0.25


async def test_a_truncated_file_is_told_while_waiting(source, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old-line-1\nold-line-2\n")
    await ask(source, (path, 0))
    asking = asyncio.create_task(ask(source, (path, 22), wait=20))
    await asyncio.sleep(0.5)
    path.write_bytes(b"new\n")
    delta = (await asking)[str(path)]
    assert delta.size < 22
    assert delta.data == b""


async def test_a_replaced_file_of_the_same_size_is_told_while_waiting(channel_source, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old old old")
    first = (await ask(channel_source, (path, 0)))[str(path)]
    await ask(channel_source, (path, 11))
    asking = asyncio.create_task(ask(channel_source, (path, 11), wait=20))
    await asyncio.sleep(0.3)
    (tmp_path / "new").write_bytes(b"new new new")
    (tmp_path / "new").rename(path)
    delta = (await asking)[str(path)]
    assert delta.identity.head == delta.before == b"new new new"
    assert not delta.identity.continues(first.identity)


async def test_a_rewritten_file_of_the_same_size_is_told_while_waiting(channel_source, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old old old")
    await ask(channel_source, (path, 0))
    await ask(channel_source, (path, 11))
    asking = asyncio.create_task(ask(channel_source, (path, 11), wait=20))
    await asyncio.sleep(0.3)
    path.write_bytes(b"new new new")
    deltas = await asking
    while deltas[str(path)].size != 11:  # seen between the truncation and the writing
        deltas = await ask(channel_source, (path, 11), wait=20)
    assert deltas[str(path)].before == b"new new new"


async def test_a_question_given_up_costs_the_next_one_nothing(channel_source, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"")
    for n in range(20):
        given_up = asyncio.create_task(ask(channel_source, (path, n), wait=30))
        await asyncio.sleep(0.001 * n)
        given_up.cancel()
        await asyncio.wait([given_up])
        with path.open("ab") as file:
            file.write(bytes([n]))
        assert (await ask(channel_source, (path, n), wait=10))[str(path)].data == bytes([n])


async def test_conversations_wait_beside_each_other(channel_source, tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    waiting = asyncio.create_task(
        channel_source.ask(5, [ReadRequest(str(tmp_path / "b"), 0)], 20, MIB, {str(tmp_path / "b"): 0.2})
    )
    with channel_source.slot() as slot:
        (delta,) = await channel_source.ask(slot, [ReadRequest(str(tmp_path / "a"), 0)], 0, MIB)
    assert delta.data == b"a"
    assert not waiting.done()
    (tmp_path / "b").write_bytes(b"b")
    (delta,) = await waiting
    assert delta.data == b"b"


async def test_those_who_ask_at_the_same_tick_share_one_command(slurm_rig, shell, tmp_path):
    source = ReaderSource(shell, "exec", interval=5)
    (tmp_path / "file").write_bytes(b"x")
    await ask(source, (tmp_path / "file", 0))
    before = slurm_rig.commands()
    request = [ReadRequest(str(tmp_path / "file"), 0)]
    answers = await asyncio.gather(*(source.ask(slot, request, 0, MIB) for slot in range(10)))
    assert [deltas[0].data for deltas in answers] == [b"x"] * 10
    assert slurm_rig.commands() == before + 1
    await source.close()


@pytest.mark.usefixtures("noisy_login")
async def test_rc_files_that_talk_get_into_no_file(source, tmp_path):
    (tmp_path / "file").write_bytes(b"mine")
    assert (await ask(source, (tmp_path / "file", 0)))[str(tmp_path / "file")].data == b"mine"
