# SPDX-License-Identifier: Apache-2.0
"""Names, folders and the small files beside a node's output."""

import json
import stat
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.model.records import Seam, SeamKind
from covalent_joblog_plugin.store.index import Index
from covalent_joblog_plugin.store.items import Append
from covalent_joblog_plugin.store.layout import make_folder, safe_name
from covalent_joblog_plugin.store.state import read_state, write_state

_names = st.one_of(
    st.text(st.characters(exclude_categories=())),
    st.text(st.sampled_from("./%~aA0 "), max_size=6),
    st.text(min_size=140, max_size=400),
)


@given(_names)
def test_any_name_is_one_plain_file_in_its_folder(name):
    safe = safe_name(name)
    assert Path(safe).name == safe
    assert safe not in ("", ".", "..")
    assert not safe.startswith(".")
    assert safe.isascii()
    assert len(safe) <= 255
    assert "\0" not in safe


@given(_names, _names)
def test_two_names_never_share_a_file(one, other):
    assert (safe_name(one) == safe_name(other)) == (one == other)


@pytest.mark.parametrize("name", ["stdout", "rank1.stdout", "train-2.csv", "slurm.log"])
def test_plain_names_stay_as_they_are(name):
    assert safe_name(name) == name


def test_a_folder_is_ours_alone_whatever_it_was(tmp_path):
    (tmp_path / "old").mkdir(mode=0o755)
    for name in ("old", "new"):
        make_folder(tmp_path / name)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700
    (tmp_path / "link").symlink_to(tmp_path / "old")
    with pytest.raises(OSError, match="link"):
        make_folder(tmp_path / "link")


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_half_line_of_a_killed_server_is_cut_off(tmp_path):
    path = tmp_path / "index.jsonl"
    index = Index(path)
    index.seam("stdout", 5, Seam(SeamKind.LOST, "gone", 0, 3))
    assert index.flush()
    whole = path.read_bytes()
    for torn in (b'{"file": "std', b"x" * 200_000):
        path.write_bytes(whole + torn)
        again = Index(path)
        again.end("stdout", 9)
        assert again.flush()
        assert [line["cursor"] for line in lines(path)] == [5, 9]


def test_a_file_that_is_nothing_but_a_half_line_is_emptied(tmp_path):
    path = tmp_path / "index.jsonl"
    path.write_bytes(b"{" * 150_000)
    index = Index(path)
    index.end("stdout", 0)
    assert index.flush()
    assert lines(path) == [{"file": "stdout", "cursor": 0, "end": True}]


def test_lines_wait_while_the_file_cannot_be_written(tmp_path):
    path = tmp_path / "index.jsonl"
    index = Index(path)
    path.unlink()
    index.end("stdout", 1)
    assert not index.flush()
    path.write_bytes(b"")
    assert index.flush()
    assert [line["cursor"] for line in lines(path)] == [1]


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 100_000), st.integers(0, 1)), max_size=30))
def test_arrivals_are_neither_too_many_nor_too_few(appends):
    """Between two records: under a second, under 64 KiB, one execution."""
    seen = []
    index = Index.__new__(Index)
    index._waiting, index._last = [], {}
    cursor, now = 0, 100.0
    for pause, size, execution in appends:
        now += pause
        before = len(index._waiting)
        index.arrived(cursor, Append("stdout", b"", execution, now))
        if len(index._waiting) > before:
            seen.append((cursor, now, execution))
        at, then, which = seen[-1]
        assert cursor - at < 64 * 1024
        assert now - then < 1
        assert which == execution
        cursor += size
    for (at, then, which), (cursor, now, execution) in pairwise(seen):
        assert cursor - at >= 64 * 1024 or now - then >= 1 or which != execution


def test_a_clock_that_jumps_back_begins_a_new_record(tmp_path):
    index = Index(tmp_path / "index.jsonl")
    for cursor, now in enumerate((100.0, 100.1, 40.0, 40.1)):
        index.arrived(cursor, Append("stdout", b"x", 0, now))
    index.flush()
    assert [line["arrival"] for line in lines(tmp_path / "index.jsonl")] == [100.0, 40.0]


def test_a_state_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "state.json"
    write_state(path, {"state": "live"})
    with pytest.raises(TypeError):
        write_state(path, {"state": object()})
    assert read_state(path) == {"state": "live"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_state_that_is_not_ours_is_named(tmp_path):
    (tmp_path / "state.json").write_text("[]")
    with pytest.raises(ValueError, match=r"state\.json does not hold"):
        read_state(tmp_path / "state.json")
    assert read_state(tmp_path / "none.json") is None
