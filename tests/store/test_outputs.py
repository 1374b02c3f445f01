# SPDX-License-Identifier: Apache-2.0
"""The bytes of one output on disk, whatever fails half way."""

import errno
import os
import stat
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalent_joblog_plugin.model.errors import StoreError
from covalent_joblog_plugin.store import growing_file
from covalent_joblog_plugin.store.growing_file import GrowingFile
from covalent_joblog_plugin.store.outputs import RawOutput, TextOutput
from tests.store.bytes_strategies import job_bytes, shown, shown_up_to


class Killed(BaseException):
    """The server died: no line of it runs any more."""


class FailingDisk:
    """Lets ``os.pwrite`` fail after a number of bytes; ``error`` is raised then."""

    def __init__(self):
        self.room, self.error = None, None
        self._pwrite = os.pwrite

    def pwrite(self, descriptor, data, at):
        if self.room is None:
            return self._pwrite(descriptor, data, at)
        part = bytes(data)[: self.room]
        if not part:
            raise self.error
        self.room -= len(part)
        return self._pwrite(descriptor, part, at)


@pytest.fixture
def failing_disk(monkeypatch):
    disk = FailingDisk()
    monkeypatch.setattr(growing_file.os, "pwrite", disk.pwrite)
    return disk


def no_space():
    return OSError(errno.ENOSPC, "No space left on device")


_faults = st.one_of(
    st.none(),
    st.tuples(st.integers(0, 12), st.sampled_from(["full", "killed"])),
)


@settings(max_examples=300)
@given(job_bytes, st.lists(st.tuples(st.integers(0, 9), _faults), max_size=12), st.integers(0, 30))
def test_no_fault_at_any_byte_loses_doubles_or_invents_one(source, steps, limit):
    """Fed from the cursor the output asks for, it ends exact, and every moment of it is a valid prefix."""
    disk = FailingDisk()
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(growing_file.os, "pwrite", disk.pwrite):
        make = lambda: TextOutput("stdout", Path(folder) / "stdout.log", Path(folder), limit)  # noqa: E731
        output = make()
        for size, fault in steps:
            before = output.end
            data = source[before : before + size]
            disk.room, kind = (None, "") if fault is None else fault
            disk.error = Killed() if kind == "killed" else no_space()
            try:
                output.store(data)
            except OSError:
                assert output.end == before
                on_disk = {path: path.stat().st_size for path in Path(folder).iterdir()}
                assert on_disk == {file.path: file.length for file in output.files}
            except Killed:
                disk.room = None
                committed = output.length
                output = make()
                assert output.length >= committed
            disk.room = None
            assert output.view().read(0, 1000) == source[: output.length]
            asset = (Path(folder) / "stdout.log").read_bytes()[: output.files[0].length]
            assert shown_up_to(source, limit).startswith(asset)
        output.store(source[output.end :])
        output.break_off()
        output.flush()
        assert output.length == output.end == len(source)
        assert output.view().read(0, 1000) == source
        assert (Path(folder) / "stdout.log").read_bytes() == shown_up_to(source, limit)


@given(st.lists(job_bytes, max_size=6), st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_any_range_can_be_read(chunks, limit, start, size):
    source = b"".join(chunks)
    with tempfile.TemporaryDirectory() as folder:
        output = TextOutput("stdout", Path(folder) / "stdout.log", Path(folder), limit)
        for chunk in chunks:
            output.store(chunk)
        output.break_off()
        output.flush()
        assert output.view().read(start, size) == source[start : start + size]


@given(st.lists(job_bytes, min_size=1, max_size=6))
def test_each_break_ends_its_character(executions):
    with tempfile.TemporaryDirectory() as folder:
        output = TextOutput("stdout", Path(folder) / "stdout.log", Path(folder), 1 << 20)
        for text in executions:
            output.store(text)
            output.break_off()
            output.flush()
        assert (Path(folder) / "stdout.log").read_bytes() == b"".join(map(shown, executions))
        assert output.view().read(0, 1000) == b"".join(executions)


def test_a_write_that_fails_half_way_leaves_the_file_as_it_was(tmp_path, failing_disk):
    file = GrowingFile.create(tmp_path / "f")
    file.append(b"kept\n")
    failing_disk.room, failing_disk.error = 37, no_space()
    with pytest.raises(OSError, match="No space"):
        file.append(b"x" * 64)
    assert (tmp_path / "f").read_bytes() == b"kept\n"
    failing_disk.room = None
    file.append(b"x" * 64)
    assert (tmp_path / "f").read_bytes() == b"kept\n" + b"x" * 64


def test_what_a_failed_cut_left_is_gone_with_the_next_write(tmp_path):
    file = GrowingFile.create(tmp_path / "f")
    file.append(b"kept\n")
    with (tmp_path / "f").open("ab") as other:
        other.write(b"a failed write that could not be cut off")
    file.append(b"x")
    assert (tmp_path / "f").read_bytes() == b"kept\nx"


def test_a_file_shortened_or_removed_by_somebody_else_is_never_written_with_a_hole(tmp_path):
    file = GrowingFile.create(tmp_path / "f")
    file.append(b"0123456789")
    os.truncate(tmp_path / "f", 4)
    with pytest.raises(StoreError, match="shortened from 10 to 4"):
        file.append(b"more")
    (tmp_path / "f").unlink()
    with pytest.raises(StoreError, match="removed"):
        file.append(b"more")


def test_links_are_not_followed(tmp_path):
    (tmp_path / "outside").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="Too many levels"):
        RawOutput(tmp_path / "link")
    assert (tmp_path / "outside").read_bytes() == b"secret"


def test_files_have_their_own_mode_whatever_the_umask_or_an_earlier_mode(tmp_path):
    (tmp_path / "old").write_bytes(b"")
    (tmp_path / "old").chmod(0o666)
    RawOutput(tmp_path / "old")
    before = os.umask(0)
    try:
        RawOutput(tmp_path / "new")
    finally:
        os.umask(before)
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("old", "new")} == {0o600}


def test_the_asset_ends_at_its_limit_and_the_rest_goes_on(tmp_path):
    output = TextOutput("stdout", tmp_path / "stdout.log", tmp_path, 100)
    line = "0123456789é\n".encode()
    for _ in range(50):
        output.store(line)
    assert (tmp_path / "stdout.log").read_bytes() == (line * 50)[:100]
    assert output.length == 50 * len(line)
    assert output.view().read(90, 30) == (line * 50)[90:120]
