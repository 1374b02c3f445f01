# SPDX-License-Identifier: Apache-2.0
"""What is skimmed is what is found when every line is looked at."""

import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from covalent_joblog_plugin.model.log_line import Severity
from covalent_joblog_plugin.text.lines import Lines
from covalent_joblog_plugin.text.records import RECORD_LINES
from covalent_joblog_plugin.text.selection import Selection
from covalent_joblog_plugin.text.selector import Selector
from covalent_joblog_plugin.text.severity import severity
from covalent_joblog_plugin.text.skimming import SkimmedLines, Skimmer
from tests.text import test_records, test_severity
from tests.text.pieces import output

KNOWN = [getattr(test_severity, name) for name in ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "NONE"]]
KNOWN += [test_records.CHAIN, test_records.GROUP, test_records.JAVA]
LINES = [line for known in KNOWN for line in known if len(line) < 1000]
JSON = [
    {"level": "error"},
    {"levelname": "E"},
    {"@l": 50},
    {"levelno": 123},
    {"level": 40},
    {"level": 30, "msg": "ok"},
]
LINES += [json.dumps(record) for record in JSON]
LINES += [
    '{"\\u006cevel":"\\u0045RROR"}',
    '{"log\\u002elevel":"F"}',
    "n1:1:1 [0] NCCL E",
    "n1:1:1 [0] NCCL F warn",
    "  indented",
    "",
    "ok",
    "é ok",
    "  0%|\r 50%|",
    "\x1b[31mERR\x1b[0mOR x",
    "EXXOR x\rERR",
    "x ok\b\bno",
]
ASKED = [{"severity": level} for level in ("WARNING", "ERROR", "CRITICAL")]
ASKED += [{"query": "ok"}, {"query": ["bad", "é"]}, {"query": "50%|"}]
ASKED += [{"severity": "ERROR", "query": "bad"}, {"query": "ok", "exclude": "é"}]
_line = st.builds(
    lambda before, line, end: (before + line).encode() + end,
    st.sampled_from(["", "", "", "[rank0]: ", "2024-05-01 12:00:00,1 - t - "]),
    st.sampled_from(LINES),
    st.sampled_from([b"\n", b"\n", b"\n", b"\r\n"]),
)
_record = st.builds(
    lambda head, inside, last, after: "".join(f"{line}\n" for line in (head, *inside, last, *after)).encode(),
    st.sampled_from(["INFO a", "WARNING b", "ERROR c", test_records.TRACEBACK[0], "fine", "INFO: a"]),
    st.lists(st.sampled_from(["  more", "  more", "  ok", "Caused by: x"]), max_size=3),
    st.sampled_from(["  ok", "ok: x", "ValueError: bad", test_records.TRACEBACK[0], "  ERROR bad"]),
    st.lists(st.sampled_from(["fine", "fine", "INFO: a", "  more", ""]), max_size=4),
)
texts = st.one_of(
    st.lists(st.one_of(_line, _line, output), max_size=40).map(b"".join),
    st.lists(_record, max_size=8).map(b"".join),
)
"""What jobs say, with and without severities; records of one line and of several."""


def selected(pieces, asked, skim):
    """The lines of pieces, each with its severity, and how many were left out why."""
    selection = Selection.of(**asked)
    selector, skimmer = Selector(selection, 0.0), Skimmer.of(selection)
    lines = SkimmedLines(skimmer, 7) if skim else Lines(7)
    found = []
    for execution, *parts in pieces:
        for number, part in enumerate(parts):
            found += selector.feed(lines.feed(part, time=float(number), execution=execution))
        found += selector.feed(lines.end())
    found += selector.caught_up()
    rejected = +selector.rejected
    if skim:
        rejected += skimmer.skipped
    return found, +rejected


@st.composite
def executions(draw):
    """Texts of one execution after the other, each in pieces."""
    found = []
    for execution in range(draw(st.integers(1, 2))):
        data = draw(texts)
        cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
        found.append((execution, *(data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True))))
    return found


@given(executions(), st.sampled_from(ASKED))
@example(
    [(0, b"WARNING x\n  y\nok\n  frame\nTraceback (most recent call last):\n  f\nok\n")], {"query": "ok"}
)
@example([(0, b"INFO:a:b\nTraceback (most recent call last):\n  f\nINFO:a:b\nINFO:ok:b\n")], {"query": "ok"})
@example([(0, b"INFO a\n" + b"  b\n" * RECORD_LINES + b"  ok\n" + b"x\n" * 9 + b"ok\n")], {"query": "ok"})
def test_what_is_skimmed_is_what_looking_at_every_line_finds(pieces, asked):
    assert selected(pieces, asked, skim=True) == selected(pieces, asked, skim=False)


@given(st.one_of(st.sampled_from(LINES), st.text(max_size=40)), st.sampled_from(LINES), st.integers(0, 20))
def test_what_is_so_bad_is_never_left_out(before, line, at):
    for text in (before, line, before[:at] + line, line[at:] + before, line[:at] + before):
        found = severity(text)
        data = b"ok\n" * 3 + text.replace("\n", " ").encode("utf-8", "replace") + b"\nok\nok\n"
        for level in (Severity.WARNING, Severity.ERROR, Severity.CRITICAL):
            if found is not None and found >= level:
                parts = Skimmer.of(Selection.of(severity=level)).parts(data)
                assert any(start <= 9 < end for start, end in parts), (text, level)


def test_most_lines_are_left_out():
    data = b"2024-05-01 12:00:00 INFO step 12 loss 0.25 accuracy 0.9\n" * 1000
    data = data + b"2024-05-01 12:00:00 ERROR bad\n" + data
    for asked in ({"severity": "WARNING"}, {"query": "bad"}):
        skimmer = Skimmer.of(Selection.of(**asked))
        skimmer.parts(data)
        assert skimmer.skipped.total() > 1990


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"severity": "INFO"},
        {"query": "a", "regex": True},
        {"query": "�"},
        {"exclude": "a"},
        {"query": "a", "since": "1h"},
        {"query": "a", "until": "1h"},
        {"query": "a", "execution": 1},
    ],
)
def test_where_every_line_counts_none_is_left_out(asked):
    assert Skimmer.of(Selection.of(**asked)) is None


@pytest.mark.parametrize(
    "line",
    [b"ok\n", b"  ok\n", b"\n", b"Caused by: ok\n", b"Traceback\n", b"  Traceback\n", b"\x1b\n", b"x\n"],
)
def test_no_output_takes_long(line):
    data = line * ((1 << 20) // len(line))
    skimmer = Skimmer.of(Selection.of(query="ok"))
    begun = time.thread_time()
    skimmer.parts(data)
    assert time.thread_time() - begun < 8
