# SPDX-License-Identifier: Apache-2.0
"""What a view gives: the committed bytes of its moment, from our own files and from nothing else."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.model.errors import OutputGone
from covalent_joblog_plugin.store import views
from covalent_joblog_plugin.store.outputs import RawOutput, TextOutput
from covalent_joblog_plugin.store.reading import StoredNode
from covalent_joblog_plugin.store.state import NodeState
from covalent_joblog_plugin.store.views import Part, View, file_length, read_file
from tests.store.bytes_strategies import job_bytes

_STATES = [NodeState.CLOSED, NodeState.INTERRUPTED, NodeState.ORPHANED]


@given(st.lists(job_bytes, max_size=8), st.integers(0, 40), st.sampled_from(_STATES), st.booleans())
def test_who_does_not_write_sees_the_same_bytes_as_who_does(chunks, limit, state, ended):
    """Also those that a killed server left, wherever an asset ends and whatever it cannot show."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        output = TextOutput("stdout", folder / "stdout.log", folder, limit)
        for chunk in chunks:
            output.store(chunk)
        if ended:
            output.break_off()
            output.flush()
        stored = StoredNode(state, {}, folder, {"stdout": folder / "stdout.log"})
        theirs, ours = stored.snapshot("stdout").view, output.view()
        assert theirs.read(0, 1000) == ours.read(0, 1000) == b"".join(chunks)[: output.length]
        assert theirs.total == ours.total == output.length


@pytest.mark.parametrize("size", [1, 2, 3])
def test_half_a_character_of_a_killed_server_is_not_shown(tmp_path, size):
    (tmp_path / "stdout.log").write_bytes("ab€".encode() + "😀".encode()[:size])
    for state, length in ((NodeState.ORPHANED, 5), (NodeState.INTERRUPTED, 5), (NodeState.ABSENT, 5 + size)):
        node = StoredNode(state, {}, tmp_path, {"stdout": tmp_path / "stdout.log"})
        assert node.snapshot("stdout").view.total == length


def test_a_view_keeps_its_length_while_the_output_grows(tmp_path):
    output = TextOutput("stdout", tmp_path / "stdout.log", tmp_path, 10)
    output.store(b"0123\xff")
    view = output.view()
    output.store(b"456789abc")
    assert view.read(0, 100) == b"0123\xff"
    assert view.read(2, 2) == b"23"
    assert (view.total, output.view().total) == (5, 14)
    assert view.read(5, 10) == b""
    assert view.read(99, 10) == b""


def test_no_more_is_read_than_asked_for(tmp_path, monkeypatch):
    output = TextOutput("stdout", tmp_path / "stdout.log", tmp_path, 1_000_000)
    output.store(b"\xff" + b"x" * 900_000)
    raw = RawOutput(tmp_path / "raw")
    raw.store(b"y" * 1_000_000)
    read = []
    real = os.pread

    def counting(descriptor, size, at):
        read.append(size)
        return real(descriptor, size, at)

    monkeypatch.setattr(views.os, "pread", counting)
    assert len(output.view().read(800_000, 1000)) == 1000
    assert len(raw.view().read(999_990, 1000)) == 10
    assert sum(read) == 1010


def test_a_file_that_is_no_longer_ours_is_gone_and_nothing_else_is_shown(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret" * 10)
    path = tmp_path / "node" / "stdout.log"
    path.parent.mkdir()
    view = View((Part(0, path, 20),))

    def message():
        with pytest.raises(OutputGone) as caught:
            view.read(0, 20)
        return str(caught.value)

    assert "removed" in message()
    path.write_bytes(b"x" * 19)
    assert "shortened" in message()
    assert view.read(0, 19) == b"x" * 19
    path.unlink()
    path.symlink_to(secret)
    assert "link" in message()
    path.unlink()
    os.mkfifo(path)  # opening one to read would wait for a writer
    assert "not a file" in message()
    path.unlink()
    path.parent.rmdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "stdout.log").write_bytes(b"s" * 20)
    path.parent.symlink_to(tmp_path / "other")
    assert "link" in message()


def test_what_is_no_file_has_no_length(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    names = ("file", "link", "none", "file/below", ".")
    assert [file_length(tmp_path / name) for name in names] == [3, 0, 0, 0, 0]
    assert read_file(tmp_path / "file", 1, 100) == b"bc"
