# SPDX-License-Identifier: Apache-2.0
"""How far a file has been read: truncation, replacement, holes, stale answers, a store that falls behind."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.model.records import Delta, FileRef, Seam, SeamKind
from covalent_joblog_plugin.monitor.position import Position
from tests.monitor.files import look


class Reader:
    """A position with everything stored at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.position = Position(FileRef(str(path)))
        self.text: list[bytes | Seam] = []

    def poll(self, size: int = -1, session: str = "s") -> bytes:
        seam, data = self.position.accept(look(self.path, self.position.pos, size, session))
        if seam:
            self.text.append(seam)
        if data:
            self.text.append(data)
            self.position.took(data, len(data))
        return data

    def poll_until_quiet(self) -> None:
        while self.position.empties < 2:
            self.poll()
        self.position.empties = 0

    @property
    def stored(self) -> bytes:
        return b"".join(part for part in self.text if isinstance(part, bytes))

    @property
    def seams(self) -> list[SeamKind]:
        return [part.kind for part in self.text if isinstance(part, Seam)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_text_after_a_truncation_is_read_from_the_start(log: Path) -> None:
    log.write_bytes(b"old-line-1\nold-line-2\n")
    reader = Reader(log)
    reader.poll()
    os.truncate(log, 0)
    with log.open("ab") as file:
        file.write(b"new\n")
    reader.poll_until_quiet()
    assert reader.text == [b"old-line-1\nold-line-2\n", reader.text[1], b"new\n"]
    assert reader.seams == [SeamKind.TRUNCATED]
    assert reader.position.pos == 4


@pytest.mark.parametrize("grown", [b"x" * 22, b"y" * 4000])
def test_a_file_rewritten_in_place_and_grown_past_the_position_is_not_mistaken(
    log: Path, grown: bytes
) -> None:
    log.write_bytes(b"old-line-1\nold-line-2\n")
    reader = Reader(log)
    reader.poll()
    log.write_bytes(grown)  # same inode: opened with O_TRUNC
    reader.poll_until_quiet()
    assert reader.stored == b"old-line-1\nold-line-2\n" + grown
    assert reader.seams == [SeamKind.TRUNCATED]


def test_a_rewritten_file_with_the_same_head_is_seen_by_what_stands_before_the_position(log: Path) -> None:
    head = b"=" * 100 + b"\n"
    log.write_bytes(head + b"run 1 ended here\n")
    reader = Reader(log)
    reader.poll()
    log.write_bytes(head + b"run 2 writes much more than run 1 did\n")
    reader.poll_until_quiet()
    assert reader.stored.endswith(b"run 1 ended here\n" + head + b"run 2 writes much more than run 1 did\n")
    assert reader.seams == [SeamKind.TRUNCATED]


def test_a_replaced_file_is_read_whole(log: Path) -> None:
    log.write_bytes(b"r0 step 1\n" * 3)
    reader = Reader(log)
    reader.poll()
    log.rename(log.with_suffix(".1"))
    log.write_bytes(b"r0 step 4\n" * 4)
    reader.poll_until_quiet()
    assert reader.stored == b"r0 step 1\n" * 3 + b"r0 step 4\n" * 4
    assert reader.seams == [SeamKind.REPLACED]
    assert reader.position.pos == 40


def test_a_replaced_file_with_the_same_text_is_still_another_file(log: Path) -> None:
    log.write_bytes(b"same\n")
    reader = Reader(log)
    reader.poll()
    log.rename(log.with_suffix(".1"))
    log.write_bytes(b"same\nmore\n")
    reader.poll_until_quiet()
    assert reader.stored == b"same\nsame\nmore\n"


def test_another_device_number_in_a_new_session_is_no_seam(log: Path) -> None:
    log.write_bytes(b"one\n")
    reader = Reader(log)
    reader.poll()
    with log.open("ab") as file:
        file.write(b"two\n")
    seen = look(log, 4, session="other")
    assert seen.identity
    moved = replace(seen, identity=replace(seen.identity, device=99))
    assert reader.position.accept(moved) == (None, b"two\n")


def test_a_size_that_shrinks_once_is_not_believed(log: Path) -> None:
    log.write_bytes(b"0123456789")
    reader = Reader(log)
    reader.poll()
    stale = replace(look(log, 10), size=4, data=b"", before=b"")
    assert reader.position.accept(stale) == (None, b"")
    reader.poll_until_quiet()
    assert reader.text == [b"0123456789"]


def test_the_hole_a_writer_leaves_after_a_truncation_is_named_and_left_out(log: Path) -> None:
    with log.open("wb") as writer:
        writer.write(b"A" * 100 + b"\n")
        writer.flush()
        reader = Reader(log)
        reader.poll()
        os.truncate(log, 0)
        writer.write(b"new\n")
    assert log.stat().st_size == 105
    reader.poll_until_quiet()
    assert reader.stored == b"A" * 100 + b"\nnew\n"
    assert reader.seams == [SeamKind.TRUNCATED, SeamKind.HOLE]
    hole = reader.text[-2]
    assert isinstance(hole, Seam)
    assert hole.lost == 101
    assert reader.position.pos == 105


def test_a_hole_of_500_mb_is_stepped_over_without_reading_it(log: Path) -> None:
    log.write_bytes(b"before\n")
    reader = Reader(log)
    reader.poll()
    hole = 500 * 1000 * 1000
    os.truncate(log, 0)
    with log.open("r+b") as writer:
        writer.seek(hole)
        writer.write(b"new\n")
    while reader.position.empties < 2:
        reader.poll(size=64 * 1024)
    assert reader.stored == b"before\nnew\n"
    assert reader.position.pos == hole + 4
    assert reader.position.stored == hole + 4


def test_nul_bytes_a_program_wrote_are_kept(log: Path) -> None:
    log.write_bytes(b"\0\0a\0b")
    reader = Reader(log)
    reader.poll_until_quiet()
    assert reader.stored == b"\0\0a\0b"
    assert reader.seams == []


def test_a_file_that_is_not_there_yet_is_nothing_and_no_error(log: Path) -> None:
    reader = Reader(log / "folder" / "x")
    assert reader.poll() == b""
    assert reader.poll() == b""
    (log / "folder").mkdir(parents=True)
    assert reader.poll() == b""
    reader.path.write_bytes(b"x\n")
    assert reader.poll() == b"x\n"
    assert reader.seams == []


def test_an_answer_asked_before_the_store_fell_behind_is_dropped(log: Path) -> None:
    log.write_bytes(b"0123456789")
    position = Position(FileRef(str(log)))
    _, data = position.accept(look(log, 0, 6))
    early = look(log, 6)
    assert not position.took(data, 2)
    assert position.pos == 2
    assert position.accept(early) == (None, b"")
    assert position.accept(look(log, 2)) == (None, b"23456789")


@given(st.data())
def test_any_order_of_writes_polls_and_short_stores_gives_the_bytes_once(data: st.DataObject) -> None:
    """Positions count bytes: every chunking, with a store that takes any part, ends in the same bytes."""
    source = data.draw(st.binary(max_size=300))
    written, stored = 0, b""
    position = Position(FileRef("f"))
    for _ in range(200):
        written = data.draw(st.integers(written, len(source)))
        size = data.draw(st.integers(1, 40))
        chunk = source[position.pos : min(written, position.pos + size)]
        before = source[max(0, position.pos - 64) : position.pos]
        delta = replace(
            look(Path("/nonexistent"), position.pos), path="f", data=chunk, size=written, before=before
        )
        seam, accepted = position.accept(delta)
        assert seam is None
        taken = data.draw(st.integers(0, len(accepted)))
        stored += accepted[:taken]
        position.took(accepted, taken)
        if written == len(source) == len(stored):
            break
    assert source.startswith(stored)
    assert position.stored == len(stored)


def answer(pos: int, data: bytes, *seams: Seam) -> Delta:
    return Delta("p", pos, data, 0.0, size=pos + len(data), seams=seams)


def test_a_sources_own_seams_are_told_once_however_often_the_position_is_asked_for() -> None:
    lost, more = Seam(SeamKind.LOST, "7 bytes are missing", lost=7), Seam(SeamKind.INCOMPLETE, "no end")
    position = Position(FileRef("p"))
    position.accept(answer(0, b"abc"))
    position.took(b"abc", 3)
    assert position.fresh_seams(answer(0, b"abc", lost)) == ()
    assert position.fresh_seams(answer(3, b"", lost)) == (lost,)
    assert position.fresh_seams(answer(3, b"d", lost, more)) == (more,)
    position.accept(answer(3, b"d"))
    position.took(b"d", 0)  # the store was full: it is asked for again
    assert position.pos == 3
    assert position.fresh_seams(answer(3, b"d", lost, more)) == ()
    position.accept(answer(3, b"d"))
    assert position.fresh_seams(answer(4, b"", lost)) == (lost,)
