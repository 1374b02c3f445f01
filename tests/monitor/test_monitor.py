# SPDX-License-Identifier: Apache-2.0
"""The loop of one endpoint, on real files and the real store."""

import asyncio
import hashlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from covalent_joblog_plugin.cluster.local_files import LocalFiles
from covalent_joblog_plugin.model.errors import TransportError
from covalent_joblog_plugin.model.records import FileRef
from covalent_joblog_plugin.monitor import monitor as monitors
from covalent_joblog_plugin.monitor.monitor import Monitor
from covalent_joblog_plugin.monitor.poll_source import PollSource
from covalent_joblog_plugin.monitor.watch import Watch
from covalent_joblog_plugin.store.node_output import NodeOutput
from tests.monitor.nodes import Faulty, end, make_node, seams, text

GIB = 1 << 30


async def gone() -> bool:
    return True


@pytest.fixture
async def monitor() -> AsyncIterator[Monitor]:
    made = Monitor(LocalFiles())
    yield made
    await made.stop()


async def until(condition: Callable[[], object], what: str, timeout: float = 20) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {timeout} s"
        await asyncio.sleep(0.01)


def watch(node: NodeOutput, *files: FileRef | str, max_log_bytes: int = GIB) -> Watch:
    return Watch(node, lambda: files, max_log_bytes)


async def test_text_is_stored_while_it_grows_and_a_final_read_takes_the_rest(
    monitor: Monitor, tmp_path: Path
) -> None:
    node, log = make_node(tmp_path / "n"), tmp_path / "log"
    watching = watch(node, str(log))
    monitor.add(watching)
    for n in range(3):
        with log.open("ab") as file:
            file.write(b"%d\n" % n)
        await until(lambda n=n: text(node).endswith(b"%d\n" % n), f"line {n}")
    with log.open("ab") as file:
        file.write(b"last, written right before the end")
    await monitor.finish(watching, gone, 10)
    assert text(node) == b"0\n1\n2\nlast, written right before the end"
    assert seams(node) == []


async def test_a_job_shorter_than_a_poll_is_read_whole(monitor: Monitor, tmp_path: Path) -> None:
    node, log = make_node(tmp_path / "n"), tmp_path / "log"
    watching = watch(node, str(log))
    monitor.add(watching)
    log.write_bytes(b"only\n")
    await monitor.finish(watching, gone, 10)
    assert text(node) == b"only\n"


async def test_what_is_written_until_the_writers_are_gone_is_read(monitor: Monitor, tmp_path: Path) -> None:
    node, log = make_node(tmp_path / "n"), tmp_path / "log"
    log.write_bytes(b"step 1\n")
    watching, ended = watch(node, str(log)), asyncio.Event()
    monitor.add(watching)

    async def writers() -> bool:
        return ended.is_set()

    finishing = asyncio.create_task(monitor.finish(watching, writers, 30))
    assert not (await asyncio.wait([finishing], timeout=0.5))[0]
    with log.open("ab") as file:
        file.write(b"slurmstepd: error: *** JOB 42 CANCELLED DUE TO TIME LIMIT ***\n")
    ended.set()
    await finishing
    assert text(node).endswith(b"TIME LIMIT ***\n")


async def test_a_final_read_that_cannot_be_done_ends_in_time_with_a_seam(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Away(LocalFiles):
        async def read_deltas(self, *_: object) -> list[object]:  # type: ignore[override]
            raise TransportError("login node away")

    monkeypatch.setattr(monitors, "FIRST_BACKOFF", 0.01)
    monitor, node = Monitor(Away()), make_node(tmp_path / "n")
    watching = watch(node, "/x/log")
    monitor.add(watching)
    begun = time.monotonic()
    await monitor.finish(watching, gone, 1)
    assert time.monotonic() - begun < 3
    assert [s["seam"] for s in seams(node)] == ["incomplete"]
    assert "login node away" in seams(node)[0]["message"]
    await monitor.stop()


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_the_way_does_every_byte_is_stored_once(
    seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(monitors, "FIRST_BACKOFF", 0.001)
    monkeypatch.setattr(monitors, "LAST_BACKOFF", 0.01)
    monkeypatch.setattr(monitors, "PROBE_PAUSE", 0.001)
    source, chance = Faulty(seed), random.Random(seed)
    monitor = Monitor(source)
    nodes = [make_node(tmp_path / f"n{n}") for n in range(3)]
    logs = [tmp_path / f"log{n}" for n in range(3)]
    watches = [watch(node, str(log)) for node, log in zip(nodes, logs, strict=True)]
    for watching in watches:
        monitor.add(watching)
    for _ in range(60):
        with chance.choice(logs).open("ab") as file:
            file.write(chance.randbytes(chance.choice([1, 3, 80, 5000])))
        await asyncio.sleep(0.005)
    await asyncio.gather(*(monitor.finish(watching, gone, 60) for watching in watches))
    await monitor.stop()
    assert source.faults
    for node, log in zip(nodes, logs, strict=True):
        await end(node)
        whole = log.read_bytes() if log.exists() else b""
        assert hashlib.sha256(text(node)).digest() == hashlib.sha256(whole).digest()
        assert seams(node) == []


async def test_executions_follow_each_other_with_a_seam_between(monitor: Monitor, tmp_path: Path) -> None:
    node = make_node(tmp_path / "n")
    files = [FileRef(str(tmp_path / "x0"), stream="stdout")]
    watching = Watch(node, lambda: files, GIB)
    monitor.add(watching)
    (tmp_path / "x0").write_bytes(b"first run\n")
    await until(lambda: text(node), "the first execution")
    (tmp_path / "x1").write_bytes(b"second run\n")
    files.append(FileRef(str(tmp_path / "x1"), stream="stdout", execution=1))
    with (tmp_path / "x0").open("ab") as file:
        file.write(b"its last words\n")
    monitor.files_changed(watching)
    await monitor.finish(watching, gone, 10)
    first = b"first run\nits last words\n"
    assert text(node) == first + b"second run\n"
    assert [(s["seam"], s["cursor"], s["execution"]) for s in seams(node)] == [("restart", len(first), 1)]


async def test_a_limit_keeps_exactly_so_many_bytes_and_says_so(monitor: Monitor, tmp_path: Path) -> None:
    node, log = make_node(tmp_path / "n"), tmp_path / "log"
    log.write_bytes(bytes(range(32, 127)) * 10)
    watching = watch(node, str(log), max_log_bytes=100)
    monitor.add(watching)
    await monitor.finish(watching, gone, 10)
    assert text(node) == log.read_bytes()[:100]
    assert [s["seam"] for s in seams(node)] == ["capped"]


async def test_a_file_of_exactly_the_limit_is_not_called_capped(monitor: Monitor, tmp_path: Path) -> None:
    node, log = make_node(tmp_path / "n"), tmp_path / "log"
    log.write_bytes(b"x" * 100)
    watching = watch(node, str(log), max_log_bytes=100)
    monitor.add(watching)
    await monitor.finish(watching, gone, 10)
    assert (text(node), seams(node)) == (b"x" * 100, [])


async def test_a_full_disk_pauses_and_nothing_is_missing_afterwards(
    monitor: Monitor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(monitors, "STORE_PAUSE", 0.05)
    node, log = make_node(tmp_path / "n", min_free=1 << 60), tmp_path / "log"
    log.write_bytes(b"0123456789\n" * 1000)
    watching = watch(node, str(log))
    monitor.add(watching)
    await until(lambda: node.trouble, "the store's refusal")
    with log.open("ab") as file:
        file.write(b"written meanwhile\n")
    for channel in node._channels.values():
        channel._reserve = 0
    await monitor.finish(watching, gone, 10)
    assert text(node) == log.read_bytes()
    assert [s["seam"] for s in seams(node)] == ["paused", "resumed"]


async def test_a_disk_that_stays_full_does_not_hold_the_task(
    monitor: Monitor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(monitors, "STORE_PAUSE", 0.05)
    node, log = make_node(tmp_path / "n", min_free=1 << 60), tmp_path / "log"
    log.write_bytes(b"text\n")
    watching = watch(node, str(log))
    monitor.add(watching)
    await monitor.finish(watching, gone, 1)
    assert text(node) == b""
    assert [s["seam"] for s in seams(node)] == ["paused", "incomplete"]


async def test_two_nodes_may_read_one_file_though_one_began_later(monitor: Monitor, tmp_path: Path) -> None:
    first, second, log = make_node(tmp_path / "a"), make_node(tmp_path / "b"), tmp_path / "log"
    log.write_bytes(b"one\n")
    early, late = watch(first, str(log)), watch(second, str(log))
    monitor.add(early)
    await until(lambda: text(first), "the first node's text")
    monitor.add(late)
    with log.open("ab") as file:
        file.write(b"two\n")
    await asyncio.gather(monitor.finish(early, gone, 10), monitor.finish(late, gone, 10))
    assert text(first) == text(second) == b"one\ntwo\n"


async def test_one_round_trip_serves_all_nodes(tmp_path: Path) -> None:
    class Counting(LocalFiles):
        asked: list[int]

        async def read_deltas(self, requests, wait, max_bytes):  # type: ignore[no-untyped-def]
            self.asked = [*getattr(self, "asked", []), len(requests)]
            return await super().read_deltas(requests, wait, max_bytes)

    source = Counting()
    monitor = Monitor(source)
    nodes = [make_node(tmp_path / f"n{n}") for n in range(20)]
    for n, node in enumerate(nodes):
        (tmp_path / f"log{n}").write_bytes(b"%d\n" % n)
        monitor.add(watch(node, str(tmp_path / f"log{n}")))
    await until(lambda: all(text(node) for node in nodes), "all texts")
    assert [text(node) for node in nodes] == [b"%d\n" % n for n in range(20)]
    assert source.asked[0] == 20
    assert len(source.asked) <= 4
    await monitor.stop()


class Hooks:
    """An author's hooks, with faults."""

    def __init__(self, poll: Callable[[str, int, int], Awaitable[bytes]]) -> None:
        self._poll = poll

    async def poll_file(self, path: str, pos: int, size: int = -1) -> bytes:
        return await self._poll(path, pos, size)

    async def stat_file(self, path: str) -> None:  # noqa: ARG002
        return None


async def test_an_author_whose_hook_is_wrong_for_one_file_still_has_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def poll(path: str, pos: int, _: int) -> bytes:
        if path == "text":
            return "text"  # type: ignore[return-value]
        if path == "raises":
            raise ValueError("an author's mistake")
        return b"good\n"[pos:]

    node = make_node(tmp_path / "n")
    monitor = Monitor(PollSource(Hooks(poll), 0.05))
    watching = watch(node, "good", "text", "raises")
    monitor.add(watching)
    await until(lambda: text(node), "the good file")
    await monitor.finish(watching, gone, 10)
    await monitor.stop()
    assert text(node) == b"good\n"
    assert "must return bytes, not str" in caplog.text
    assert "an author's mistake" in caplog.text


async def test_a_connection_lost_in_the_middle_is_asked_again_from_what_arrived(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(monitors, "FIRST_BACKOFF", 0.01)
    whole, asked = random.Random(1).randbytes(60_000), []

    async def poll(_: str, pos: int, size: int) -> bytes:
        asked.append(pos)
        if len(asked) in {3, 5}:
            raise TransportError("connection lost")
        return whole[pos : pos + min(size, 20_000)]

    node = make_node(tmp_path / "n")
    monitor = Monitor(PollSource(Hooks(poll), 0.01))
    watching = watch(node, "log")
    monitor.add(watching)
    await monitor.finish(watching, gone, 20)
    await monitor.stop()
    await end(node)
    assert hashlib.sha1(text(node)).digest() == hashlib.sha1(whole).digest()
    assert set(asked) == {0, 20_000, 40_000, 60_000}


async def test_get_files_to_monitor_that_raises_costs_no_known_file(
    monitor: Monitor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node, log = make_node(tmp_path / "n"), tmp_path / "log"
    broken = False

    def files() -> list[str]:
        if broken:
            raise KeyError("gone")
        return [str(log)]

    watching = Watch(node, files, GIB)
    monitor.add(watching)
    log.write_bytes(b"a")
    await until(lambda: text(node), "the first text")
    broken = True
    with log.open("ab") as file:
        file.write(b"b")
    await monitor.finish(watching, gone, 10)
    assert text(node) == b"ab"
    assert "get_files_to_monitor failed" in caplog.text
