# SPDX-License-Identifier: Apache-2.0
"""The index as readers use it, against every line of it read one by one."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from covalent_joblog_plugin.model.records import Seam, SeamKind
from covalent_joblog_plugin.store import index_view
from covalent_joblog_plugin.store.index import Index
from covalent_joblog_plugin.store.items import Append

FILES = ("stdout", "stderr", 'r"2')

_steps = st.lists(
    st.tuples(
        st.sampled_from(FILES),
        st.sampled_from(["append", "append", "append", "seam"]),
        st.floats(0, 2),
        st.integers(1, 90_000),
        st.booleans(),
    ),
    max_size=60,
)
_blocks = st.sampled_from([150, 400, 64 * 1024])


class Written:
    """An index with the appends that were handed to it (file, cursor, size, arrival), and its lines."""

    def __init__(self, folder, steps):
        self.index = Index(Path(folder) / "index.jsonl")
        self.appends = []
        length, now = dict.fromkeys(FILES, 0), 1000.0
        for file, what, pause, size, flush in steps:
            now += pause
            if what == "append":
                self.index.arrived(length[file], Append(file, b"", 0, now))
                self.appends.append((file, length[file], size, now))
                length[file] += size
            else:
                self.index.seam(file, length[file], Seam(SeamKind.LOST, f'lost, "seam": {size}', 0, size))
            if flush:
                self.index.flush()
        self.view = self.index.view()
        data = self.view.path.read_bytes()[: self.view.length] + self.view.waiting
        self.lines = [json.loads(line) for line in data.splitlines()]


@pytest.fixture(scope="module")
def written():
    """Makes a ``Written`` in a folder of its own; hypothesis wants its fixtures once for all examples."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:

        def make(steps, block):
            patch.setattr(index_view, "_BLOCK", block)
            return Written(tempfile.mkdtemp(dir=folder), steps)

        yield make


@given(steps=_steps, block=_blocks)
def test_every_line_of_an_output_is_found_once_and_in_order(written, steps, block):
    made = written(steps, block)
    for file in FILES:
        found = list(made.view.entries(file))
        assert [entry for _, entry in found] == [line for line in made.lines if line["file"] == file]
        for at, _ in found:
            later = [entry for offset, entry in found if offset > at]
            assert [entry for _, entry in made.view.entries(file, at)] == later
    assert made.view.names() == {line["file"] for line in made.lines}


@given(steps=_steps, block=_blocks, key=st.sampled_from(["cursor", "arrival"]), share=st.floats(-0.1, 1.1))
def test_halving_leaves_out_nothing_that_counts(written, steps, block, key, share):
    made = written(steps, block)
    for file in FILES:
        values = [line[key] for line in made.lines if line["file"] == file and key in line]
        value = share * max(values, default=1)
        at = made.view.before(file, key, value)
        kept = [entry[key] for _, entry in made.view.entries(file, at) if key in entry]
        assert [v for v in kept if v >= value] == [v for v in values if v >= value]
        assert made.view.before(file, key, 0) == 0


@example(
    steps=[("stdout", what, 0.0, 1, False) for what in ("append", "seam", "append")], block=150, share=0.0
)
@given(steps=_steps, block=_blocks, share=st.floats(-0.1, 1.1))
def test_a_time_leads_to_its_first_byte_or_little_before(written, steps, block, share):
    made = written(steps, block)
    for file in FILES:
        mine = [append for append in made.appends if append[0] == file]
        time = 1000 + share * (max((arrival for *_, arrival in mine), default=1000) - 1000)
        cursor = made.view.cursor_at(file, time)
        later = [start for _, start, _, arrival in mine if arrival >= time]
        if cursor is None:
            assert not later
            continue
        assert not later or cursor <= later[0]
        # All bytes from there on that are too old arrived less than a second before.
        early = [arrival for _, start, size, arrival in mine if start + size > cursor and arrival < time]
        assert all(time - arrival < 1 for arrival in early)


@given(
    steps=_steps, block=_blocks, share=st.floats(0, 1.2), size=st.integers(0, 300_000), most=st.integers(1, 9)
)
def test_pieces_tell_what_is_known_of_their_bytes_and_miss_nothing(written, steps, block, share, size, most):
    made = written(steps, block)
    for file in FILES:
        mine = [line for line in made.lines if line["file"] == file]
        cursor = int(share * max((line["cursor"] for line in mine), default=0))
        end = cursor + size
        entries, offset, stopped = made.view.until(file, made.view.start(file, cursor), cursor, end, most)
        before = [at for at, line in enumerate(mine) if "arrival" in line and line["cursor"] < cursor]
        first = before[-1] if before else 0
        assert entries == [line for line in mine[first:] if line["cursor"] <= stopped]
        assert cursor <= stopped <= end
        assert stopped == end or (stopped > cursor and len(entries) >= most)
        following, _, _ = made.view.until(file, offset, stopped, 1 << 60, 1 << 60)
        assert entries + following == mine[len(mine) - len(entries) - len(following) :]


def test_a_view_does_not_change_while_the_index_grows(written):
    made = written([("stdout", "append", 0, 10, False), ("stdout", "seam", 0, 10, False)], 150)
    before = list(made.view.entries("stdout"))
    assert made.index.flush()
    made.index.end("stdout", 10)
    assert made.index.flush()
    assert list(made.view.entries("stdout")) == before
    assert len(list(made.index.view().entries("stdout"))) == 3


def test_a_reader_of_a_silent_output_does_not_go_through_the_others_lines_again(written):
    made = written([("stdout", "append", 2, 10, False)] * 1000, 64 * 1024)
    entries, offset, _ = made.view.until("stderr", 0, 0, 0, 10)
    assert (entries, offset) == ([], made.view.end)
    made.index.arrived(0, Append("stderr", b"", 0, 9999.0))
    assert [entry["arrival"] for entry in made.index.view().until("stderr", offset, 0, 0, 10)[0]] == [9999.0]


def test_a_day_of_lines_is_halved_and_not_read_through(written, monkeypatch):
    made = written([("stdout", "append", 2, 10, n % 1000 == 0) for n in range(86_400)], 64 * 1024)
    assert made.index.flush()
    view, read = made.index.view(), []
    real = index_view.read_file

    def counting(path, start, size):
        read.append(len(data := real(path, start, size)))
        return data

    monkeypatch.setattr(index_view, "read_file", counting)
    cursor = view.cursor_at("stdout", 1000 + 2 * 80_000)
    assert cursor == 10 * (80_000 - 1)
    assert sum(read) < 2_000_000 < view.length
