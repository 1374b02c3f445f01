# SPDX-License-Identifier: Apache-2.0
"""Searches: every wanted line once, wherever blocks, answers and executions begin, and no other."""

import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.model.errors import BadSelection
from covalent_joblog_plugin.store.index import Index
from covalent_joblog_plugin.store.items import Append
from covalent_joblog_plugin.store.state import NodeState
from covalent_joblog_plugin.store.views import Part, Snapshot, View
from covalent_joblog_plugin.text.lines import Lines
from covalent_joblog_plugin.text.selection import Selection
from covalent_joblog_plugin.text.terminal import plain
from covalent_joblog_plugin.web import searching
from covalent_joblog_plugin.web.searching import search_back, search_on
from tests.text.test_skimming import texts

_words = [*b"er err Error \b \xff e\xcc \xc3\xa9 \x1b[1m \xc2\x9b1m".split(), b"ok ", b"a" * 30]
_word = st.sampled_from([*_words, b"\r", b"\r\n", b"\n", b"\n", b"\n"])
_bytes = st.lists(_word, max_size=40).map(b"".join)
_TRACEBACK = b"""2024-05-01 12:00:00 INFO fine
2024-05-01 12:00:01 ERROR - failed
Traceback (most recent call last):
  File "x", line 1
ValueError: bad
2024-05-01 12:00:02 INFO next
TypeError: again
"""


def wanted(query=(), **more):
    """A search as the route makes it."""
    return Selection.of(query=list(query), **more)


class Output:
    """An output in a folder of its own; ``data`` by execution."""

    def __init__(self, folder, *executions):
        folder = Path(tempfile.mkdtemp(dir=folder)).resolve()
        self.data = b"".join(executions)
        (folder / "stdout.log").write_bytes(self.data)
        index, cursor = Index(folder / "index.jsonl"), 0
        for number, data in enumerate(executions):
            if data:
                index.arrived(cursor, Append("stdout", data, number, 100.0 + number))
            cursor += len(data)
        part = Part(0, folder / "stdout.log", len(self.data))
        self.snapshot = Snapshot(NodeState.CLOSED, View((part,)), index.view())
        self.lines = []
        cursor = 0
        for data in executions:
            lines = Lines(cursor)
            self.lines += [*lines.feed(data), *lines.end()]
            cursor += len(data)

    def forwards(self, what, most):
        """All lines of a search, answer by answer."""
        found, cursor = [], 0
        while cursor < len(self.data):
            answer = search_on(self.snapshot, "stdout", what, cursor, most)
            assert len(answer.lines) <= most
            assert answer.next > cursor
            found, cursor = found + answer.lines, answer.next
        return [line.cursor for line in found]

    def backwards(self, what, most):
        """The same from the end."""
        found, before = [], len(self.data)
        while before > 0:
            answer = search_back(self.snapshot, "stdout", what, before, most)
            assert len(answer.lines) <= most
            assert answer.next < before
            found, before = answer.lines + found, answer.next
        return [line.cursor for line in found]


@pytest.fixture(scope="module")
def output():
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:

        def make(*executions, block=256 * 1024, context=64 * 1024):
            patch.setattr(searching, "BLOCK_BYTES", block)
            patch.setattr(searching, "CONTEXT_BYTES", context)
            return Output(folder, *executions)

        yield make


@given(
    executions=st.lists(_bytes, min_size=1, max_size=3),
    block=st.sampled_from([700, 256 * 1024]),
    most=st.sampled_from([1, 2, 100]),
    query=st.sampled_from(["err", "Error", "ok", "�", "rE", "é"]),
    regex=st.booleans(),
)
def test_what_is_found_is_what_reading_every_line_finds(output, executions, block, most, query, regex):
    made = output(*executions, block=block)
    expected = [line.cursor for line in made.lines if query in plain(line.written)]
    assert made.forwards(wanted([query], regex=regex), most) == expected
    if block > 700:  # a line longer than a block is begun anew in its middle
        assert made.backwards(wanted([query], regex=regex), most) == expected


@given(
    data=texts,
    most=st.sampled_from([1, 3, 100]),
    asked=st.sampled_from(
        [{"severity": "WARNING"}, {"severity": "ERROR"}, {"severity": "ERROR", "exclude": ["bad"]}]
    ),
)
def test_what_is_skimmed_is_what_looking_at_every_line_finds(output, data, most, asked):
    made, what = output(data), wanted(**asked)
    found = made.forwards(what, most), made.backwards(what, most)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "Skimmer", mock.Mock(of=lambda _: None))
        assert (made.forwards(what, most), made.backwards(what, most)) == found


@pytest.mark.parametrize("most", [1, 2, 100])
@pytest.mark.parametrize("block", [100, 256 * 1024])
def test_an_error_is_where_its_record_becomes_one(output, most, block):
    made = output(_TRACEBACK * 5, block=block, context=400)
    every = [made.data.index(b"2024-05-01 12:00:01", at) for at in range(0, len(made.data), len(_TRACEBACK))]
    every += [made.data.index(b"TypeError", at) for at in range(0, len(made.data), len(_TRACEBACK))]
    assert made.forwards(wanted(severity="ERROR"), most) == sorted(every)
    assert made.backwards(wanted(severity="ERROR"), most) == sorted(every)
    assert made.forwards(wanted(severity="CRITICAL"), most) == []
    assert made.forwards(wanted(["bad"], severity="ERROR"), most) == [
        made.data.index(b"ValueError", at) for at in range(0, len(made.data), len(_TRACEBACK))
    ]
    assert len(made.forwards(wanted(["12:00"], exclude=["INFO"]), most)) == 5


def test_a_line_says_when_it_arrived_and_which_execution_wrote_it(output):
    made = output(b"one error\nhal", b"f error\nerror")
    found = search_on(made.snapshot, "stdout", wanted(["error"]), 0, 10).lines
    assert [(line.text, line.cursor, line.time, line.execution) for line in found] == [
        ("one error", 0, 100.0, 0),
        ("f error", 13, 101.0, 1),
        ("error", 21, 101.0, 1),
    ]


def test_a_search_may_begin_inside_a_line_and_beyond_the_end(output):
    made = output(b"first error\nsecond error\n")

    def cursors(cursor):
        found = search_on(made.snapshot, "stdout", wanted(["error"]), cursor, 9)
        return [line.cursor for line in found.lines]

    assert cursors(5) == [0, 12]
    assert cursors(12) == [12]
    assert cursors(99) == []
    assert search_on(made.snapshot, "stdout", wanted(["error"]), 99, 9).next == 99
    assert [line.cursor for line in search_back(made.snapshot, "stdout", wanted(["error"]), 99, 9).lines] == [
        0,
        12,
    ]


def test_a_search_that_takes_long_stops_and_can_be_gone_on_with(output, monkeypatch):
    monkeypatch.setattr(searching, "PATIENCE", -1.0)
    made = output(b"x" * 3000 + b"\nerror\n" + b"y\n" * 400 + b"error\n", block=500)
    answer = search_on(made.snapshot, "stdout", wanted(["error"]), 0, 9)
    assert (answer.lines, answer.next) == ([], 500)
    assert made.forwards(wanted(["error"]), 9) == [3001, 3807]


def test_what_cannot_be_looked_for_is_refused():
    for query in ([""], ["a\nb"]):
        with pytest.raises(BadSelection, match="query"):
            wanted(query)
    with pytest.raises(BadSelection, match="no regular expression"):
        wanted(["["], regex=True)
