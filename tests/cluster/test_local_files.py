# SPDX-License-Identifier: Apache-2.0
"""Files on this machine as a source."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from covalent_joblog_plugin.cluster.local_files import LocalFiles
from covalent_joblog_plugin.model.records import Delta, FileRef, ReadRequest, SeamKind
from covalent_joblog_plugin.monitor.position import Position

MIB = 1 << 20


@pytest.fixture
async def source() -> AsyncIterator[LocalFiles]:
    files = LocalFiles()
    yield files
    await files.close()


async def poll(source: LocalFiles, *requests: ReadRequest, wait: float = 0.0) -> dict[str, Delta]:
    return {Path(d.path).name: d for d in await source.read_deltas(requests, wait, 4 * MIB)}


async def test_a_poll_answers_for_every_file(source: LocalFiles, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "b").write_bytes(b"de")
    found = await poll(
        source, *(ReadRequest(str(tmp_path / n), p) for n, p in (("a", 1), ("b", 2), ("missing", 0)))
    )
    assert found["a"].data == b"bc"
    assert found["a"].before == b"a"
    assert (found["b"].data, found["b"].size) == (b"", 2)
    assert (found["missing"].data, found["missing"].size) == (b"", None)


async def test_a_wait_ends_when_a_file_grows(source: LocalFiles, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    waiting = asyncio.create_task(poll(source, ReadRequest(str(path), 3), wait=30))
    assert not (await asyncio.wait([waiting], timeout=0.3))[0]
    with path.open("ab") as file:
        file.write(b"def")
    assert (await asyncio.wait_for(waiting, 5))["a"].data == b"def"


async def test_a_wait_without_news_ends_in_time_with_nothing(source: LocalFiles, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    begun = time.monotonic()
    assert await poll(source, ReadRequest(str(path), 3), wait=0.3) == {}
    assert time.monotonic() - begun >= 0.3


async def test_what_is_no_regular_file_is_told_once_and_blocks_nobody(
    source: LocalFiles, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_bytes(name.encode())
    names = ("a.log", "fifo", "folder", "b.log", "/dev/zero")
    requests = [ReadRequest(str(tmp_path / name), 0) for name in names]
    found = await poll(source, *requests, wait=5)
    assert {n: d.data for n, d in found.items() if d.data} == {"a.log": b"a.log", "b.log": b"b.log"}
    assert {n for n, d in found.items() if d.problem} == {"fifo", "folder", "zero"}
    assert await poll(source, *(r for r in requests if "log" not in r.path), wait=1.5) == {}


async def test_a_file_may_not_starve_others_and_a_lone_one_gets_all(
    source: LocalFiles, tmp_path: Path
) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(bytes(3 * MIB))
    both = await poll(source, *(ReadRequest(str(tmp_path / n), 0) for n in "ab"))
    assert [len(d.data) for d in both.values()] == [64 * 1024] * 2
    alone = await poll(source, ReadRequest(str(tmp_path / "a"), 0))
    assert len(alone["a"].data) == 3 * MIB


async def test_positions_beyond_four_gib_are_exact(source: LocalFiles, tmp_path: Path) -> None:
    path, far = tmp_path / "big", 5 * (1 << 30)
    with path.open("wb") as file:
        file.seek(far)
        file.write(b"end\n")
    found = await poll(source, ReadRequest(str(path), far - 2))
    assert found["big"].data == b"\0\0end\n"
    assert found["big"].hole > 4 * (1 << 30)


def _replace(path: Path, text: bytes) -> None:
    other = path.with_name("other")
    other.write_bytes(text)
    other.replace(path)


@pytest.mark.parametrize("write", [_replace, Path.write_bytes], ids=["replaced", "rewritten"])
@pytest.mark.parametrize("text", [b"new\n", b"abcdefghij", b"longer than before\n"])
async def test_a_replaced_or_rewritten_file_of_any_size_is_noticed(
    source: LocalFiles, tmp_path: Path, text: bytes, write: Callable[[Path, bytes], object]
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    position, stored, seams = Position(FileRef(str(path))), b"", []
    for turn in range(8):
        for delta in (await poll(source, ReadRequest(str(path), position.pos))).values():
            seam, data = position.accept(delta)
            position.took(data, len(data))
            stored += data
            seams += [seam.kind] if seam else []
        if turn == 0:
            write(path, text)
    assert stored == b"0123456789" + text
    assert seams in ([SeamKind.REPLACED], [SeamKind.TRUNCATED])
