# SPDX-License-Identifier: Apache-2.0
"""What an endpoint's loop does when something is wrong around it: it goes on, for everybody."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covalent_joblog_plugin.cluster.local_files import LocalFiles
from covalent_joblog_plugin.model.errors import TransportError
from covalent_joblog_plugin.model.records import FileRef
from covalent_joblog_plugin.monitor import monitor as monitors
from covalent_joblog_plugin.monitor.monitor import Monitor
from covalent_joblog_plugin.monitor.poll_source import PollSource
from covalent_joblog_plugin.monitor.watch import Watch
from tests.monitor.nodes import make_node, seams, text
from tests.monitor.test_monitor import gone, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from covalent_joblog_plugin.store.node_output import NodeOutput

GIB = 1 << 30


def watch(node: NodeOutput, files: Callable[[], Iterable[object]]) -> Watch:
    return Watch(node, files, GIB)  # type: ignore[arg-type]


class Slow(LocalFiles):
    """A far cluster."""

    async def read_deltas(self, requests, wait, max_bytes):  # type: ignore[no-untyped-def]
        await asyncio.sleep(0.2)
        return await super().read_deltas(requests, wait, max_bytes)


async def test_nodes_that_come_and_go_all_the_time_keep_no_text_away(tmp_path: Path) -> None:
    monitor, node, log = Monitor(Slow()), make_node(tmp_path / "n"), tmp_path / "log"
    log.write_bytes(b"text\n")
    watching = watch(node, lambda: [str(log)])
    monitor.add(watching)

    async def come_and_go() -> None:
        while True:
            await asyncio.sleep(0.05)
            monitor.files_changed(watching)

    others = asyncio.create_task(come_and_go())
    await until(lambda: text(node) == b"text\n", "the text", 5)
    await monitor.finish(watching, gone, 5)
    others.cancel()
    await monitor.stop()
    assert seams(node) == []


class Comes(LocalFiles):
    """A cluster that answers again after a while."""

    away = True
    asked = 0

    async def read_deltas(self, requests, wait, max_bytes):  # type: ignore[no-untyped-def]
        self.asked += 1
        if self.away:
            raise TransportError("login node away")
        return await super().read_deltas(requests, wait, max_bytes)


async def test_a_long_pause_after_faults_does_not_outlast_the_final_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitors, "FIRST_BACKOFF", 60.0)
    monkeypatch.setattr(monitors, "FINAL_BACKOFF", 0.2)
    source, node, log = Comes(), make_node(tmp_path / "n"), tmp_path / "log"
    log.write_bytes(b"text\n")
    monitor, watching = Monitor(source), watch(node, lambda: [str(log)])
    monitor.add(watching)
    await until(lambda: source.asked, "the first fault")
    source.away = False
    await monitor.finish(watching, gone, 10)
    await monitor.stop()
    assert (text(node), seams(node)) == (b"text\n", [])


async def test_a_fault_of_the_store_in_one_node_leaves_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor, log = Monitor(LocalFiles()), tmp_path / "log"
    log.write_bytes(b"text\n")
    bad, good = make_node(tmp_path / "bad"), make_node(tmp_path / "good")

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(type(bad._channels["stdout"].output), "store", _only(bad, broken))
    watches = [watch(node, lambda: [str(log)]) for node in (bad, good)]
    for watching in watches:
        monitor.add(watching)
    await asyncio.gather(*(monitor.finish(watching, gone, 3) for watching in watches))
    await monitor.stop()
    assert text(good) == b"text\n"
    assert seams(good) == []
    assert "ZeroDivisionError" in str(bad.trouble)


def _only(node: NodeOutput, broken: Callable[..., None]) -> Callable[..., None]:
    outputs = [channel.output for channel in node._channels.values()]
    real = type(outputs[0]).store

    def store(self: object, data: bytes) -> None:
        (broken if self in outputs else real)(self, data)  # type: ignore[arg-type]

    return store


class Hooks:
    """An author's hooks that fail for ``times`` polls after the first twelve bytes."""

    def __init__(self, fault: Exception, times: float) -> None:
        self._fault = fault
        self._times = times

    async def poll_file(self, path: str, pos: int, size: int = -1) -> bytes:  # noqa: ARG002
        if pos >= 12 and self._times > 0:
            self._times -= 1
            raise self._fault
        return b"first second third"[pos : pos + 6]

    async def stat_file(self, path: str) -> None:  # noqa: ARG002
        return None


async def test_a_passing_fault_of_a_hook_in_the_final_read_costs_no_text(tmp_path: Path) -> None:
    node, hooks = make_node(tmp_path / "n"), Hooks(ConnectionResetError("by peer"), 3)
    monitor, watching = Monitor(PollSource(hooks, 0.05)), watch(node, lambda: ["log"])
    monitor.add(watching)
    await monitor.finish(watching, gone, 10)
    await monitor.stop()
    assert (text(node), seams(node)) == (b"first second third", [])


async def test_a_lasting_fault_of_a_hook_ends_the_final_read_soon_and_is_told(tmp_path: Path) -> None:
    node, hooks = make_node(tmp_path / "n"), Hooks(ConnectionResetError("by peer"), float("inf"))
    monitor, watching = Monitor(PollSource(hooks, 0.05)), watch(node, lambda: ["log"])
    monitor.add(watching)
    begun = time.monotonic()
    await monitor.finish(watching, gone, 30)
    await monitor.stop()
    assert time.monotonic() - begun < 10
    assert text(node) == b"first second"
    assert [s["seam"] for s in seams(node)] == ["incomplete"]
    assert "by peer" in seams(node)[0]["message"]


async def test_a_hook_that_raises_file_not_found_has_no_news(tmp_path: Path) -> None:
    node, hooks = make_node(tmp_path / "n"), Hooks(FileNotFoundError("log"), float("inf"))
    monitor, watching = Monitor(PollSource(hooks, 0.05)), watch(node, lambda: ["log"])
    monitor.add(watching)
    await monitor.finish(watching, gone, 10)
    await monitor.stop()
    assert (text(node), seams(node)) == (b"first second", [])


@pytest.mark.parametrize("kind", [bytearray, memoryview])
async def test_any_kind_of_bytes_will_do(tmp_path: Path, kind: Callable[[bytes], bytes]) -> None:
    class Kind(Hooks):
        async def poll_file(self, path: str, pos: int, size: int = -1) -> bytes:
            return kind(await super().poll_file(path, pos, size))

    node = make_node(tmp_path / "n")
    monitor, watching = Monitor(PollSource(Kind(OSError(), 0), 0.05)), watch(node, lambda: ["log"])
    monitor.add(watching)
    await monitor.finish(watching, gone, 10)
    await monitor.stop()
    assert text(node) == b"first second third"


@pytest.mark.parametrize("answer", ["/x/log", None, [7], [FileRef("/x", name=Path("y"))]])  # type: ignore[arg-type]
async def test_files_that_are_none_are_complained_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: object
) -> None:
    node, log = make_node(tmp_path / "n"), tmp_path / "log"
    log.write_bytes(b"text\n")
    answers: list[object] = [[log]]  # a path object is as good as a string
    monitor, watching = Monitor(LocalFiles()), watch(node, lambda: answers[-1])  # type: ignore[arg-type,return-value]
    monitor.add(watching)
    await until(lambda: text(node), "the first text")
    answers.append(answer)
    await monitor.finish(watching, gone, 10)
    await monitor.stop()
    assert "get_files_to_monitor failed: TypeError" in caplog.text
    assert (text(node), list(watching.lanes.by_output)) == (b"text\n", ["stdout"])
