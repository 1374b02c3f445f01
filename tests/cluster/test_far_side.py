# SPDX-License-Identifier: Apache-2.0
"""Programs for the login node, and their frames."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.cluster import far_side
from covalent_joblog_plugin.cluster.far_side import COMMAND, COMMANDS, NO_PYTHON, READER, FarSide
from covalent_joblog_plugin.model.errors import TransportError

FRAMES = st.lists(st.tuples(st.dictionaries(st.text(max_size=5), st.integers()), st.binary(max_size=300)))


def frame(header, raw=b""):
    text = json.dumps(header).encode()
    return b"%d %d\n" % (len(text), len(raw)) + text + raw


@given(noise=st.binary(max_size=200), frames=FRAMES, cuts=st.lists(st.integers(0, 3000)))
def test_frames_come_back_however_the_bytes_are_cut_and_whatever_comes_first(noise, frames, cuts):
    side = FarSide(READER)
    stream = noise + side.word.encode() + b"".join(frame(header, raw) for header, raw in frames)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    got = []
    for start, end in pairwise(edges):
        got += side.feed(stream[start:end])
    assert got == frames


@pytest.mark.parametrize("junk", [b"Segmentation fault\n", b"12 x\n", b"x" * 100])
def test_what_is_no_frame_is_called_garbled(junk):
    side = FarSide(READER)
    with pytest.raises(TransportError, match="garbled"):
        side.feed(side.word.encode() + junk)


def test_a_login_shell_that_prints_without_end_is_called_so():
    side = FarSide(READER)
    with pytest.raises(TransportError, match="prints without end"):
        side.feed(b"y\n" * far_side.NOISE_LIMIT)


def test_a_login_node_without_python_is_called_so():
    assert "no Python 3 on the login node" in FarSide(READER).silence(NO_PYTHON, b"")
    assert "rc files (such as ~/.bashrc)" in FarSide(READER).silence(0, b"")


def test_the_command_line_is_one_simple_line_for_any_login_shell():
    assert "\n" not in COMMAND
    assert "!" not in COMMAND
    assert len(COMMAND) < 1000


@pytest.mark.parametrize(
    "path", sorted(Path(far_side.__file__).parent.glob("remote_*.py")), ids=lambda p: p.stem
)
def test_every_part_is_python_3_6(path):
    ast.parse(path.read_text(), feature_version=(3, 6))


@pytest.mark.parametrize("program", [READER, COMMANDS])
def test_a_program_begins_with_its_word_and_ends_with_its_stdin(program):
    side = FarSide(program)
    done = subprocess.run(
        ["sh", "-c", COMMAND], input=side.opening, capture_output=True, check=True, timeout=20
    )
    assert done.stdout == side.word.encode()
    assert done.stderr == b""


def test_a_program_cut_short_on_its_way_does_nothing():
    side = FarSide(COMMANDS)
    for length in (0, 5, 8, 30, 41, len(side.opening) - 1):
        done = subprocess.run(
            ["sh", "-c", COMMAND], input=side.opening[:length], capture_output=True, check=True, timeout=20
        )
        assert done.stdout == b""


def test_a_program_sees_neither_the_users_python_settings_nor_modules_of_the_folder(tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')")
    side = FarSide(READER)
    environment = {
        "PYTHONPATH": str(tmp_path),
        "PYTHONSTARTUP": "/nope",
        "PATH": str(Path(sys.executable).parent),
    }
    done = subprocess.run(
        ["/bin/sh", "-c", COMMAND],
        input=side.opening, capture_output=True, check=True, timeout=20, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert done.stdout == side.word.encode()
