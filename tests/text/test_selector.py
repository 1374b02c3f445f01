# SPDX-License-Identifier: Apache-2.0
"""What is wanted comes out whole, in order, once; what is not, never."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.model.errors import BadSelection
from covalent_joblog_plugin.model.log_line import LogLine
from covalent_joblog_plugin.text.lines import Lines
from covalent_joblog_plugin.text.selection import Selection
from covalent_joblog_plugin.text.selector import Selector
from tests.text.pieces import in_pieces

NOON = 1714564800.0
FAILED = [
    "2024-05-01 12:00:00,1 - t - ERROR - failed",
    "Traceback (most recent call last):",
    '  File "x", line 1',
    "ValueError: bad",
]
NEXT = "2024-05-01 12:00:01,1 - t - INFO - next"


def lines_of(texts, **fields):
    return [LogLine(text, number, **fields) for number, text in enumerate(texts)]


def selected(texts, now=NOON, time=None, **asked):
    selector = Selector(Selection.of(**asked), now)
    passed = selector.feed(lines_of(texts, time=time)) + selector.caught_up()
    return [line.text for line in passed]


@pytest.mark.parametrize(
    "asked", [{"severity": "ERROR"}, {"query": "bad"}, {"query": "failed"}, {"exclude": "next"}]
)
def test_no_filter_cuts_a_traceback_apart(asked):
    assert selected([*FAILED, NEXT], **asked) == FAILED


def test_a_lower_severity_has_the_higher_ones_too():
    assert selected(["x", *FAILED, NEXT, "y"], severity="INFO") == [*FAILED, NEXT]
    assert selected(["x", *FAILED, NEXT, "y"], severity="CRITICAL") == []
    assert selected([*FAILED, NEXT], exclude="bad") == [NEXT]


@pytest.mark.parametrize("query", ["[", "*", "a.b"])
def test_a_query_is_a_text(query):
    assert selected(["axb", query, "z"], query=query) == [query]


def test_a_query_sees_what_people_read():
    line = "\x1b[31mERR\x1b[0mOR x"
    assert selected([line, "y"], query="ERROR") == [line]
    assert selected([line, "y"], query="31m") == []


def test_a_query_does_not_find_the_mark_of_a_cut_line():
    lines = Lines().feed(b"x" * 100_000 + b"\n")
    selector = Selector(Selection.of(query="cut here"), NOON)
    assert selector.feed(lines) + selector.caught_up() == []
    assert lines[0].text.endswith("[cut here: this line has 100000 bytes]")


@pytest.mark.parametrize("regex", [False, True])
def test_filters_apply_together(regex):
    texts = ["ERROR a", "ERROR b", "INFO a", "ERROR a b", "a", "ERROR a c"]
    asked = {"severity": "ERROR", "query": "a", "exclude": "b", "regex": regex}
    assert selected(texts, **asked) == ["ERROR a", "ERROR a c"]
    assert selected(texts, **asked, tail=1) == ["ERROR a c"]


def test_where_a_line_comes_from_is_looked_at_first():
    lines = [
        LogLine("a", 0, stream="stdout", rank=0, execution=0),
        LogLine("b", 1, stream="stdout", rank=0, execution=1),
        LogLine("c", 2, stream="stderr", rank=1, execution=1),
    ]
    for asked, expected in (
        ({"stream": "stdout"}, "ab"),
        ({"rank": 1}, "c"),
        ({"rank": 0, "execution": 1}, "b"),
        ({"execution": 0}, "a"),
    ):
        selector = Selector(Selection.of(**asked), NOON)
        assert "".join(line.text for line in selector.feed(lines)) == expected


def test_why_there_is_nothing():
    selector = Selector(Selection.of(severity="ERROR", query="x", rank=0, tail=0), NOON)
    lines = lines_of(["INFO x", "INFO y", "ERROR y", "ERROR x"], rank=0)
    assert selector.feed([*lines, LogLine("z", 9, rank=1)]) + selector.caught_up() == []
    assert +selector.rejected == {"severity": 2, "query": 1, "rank": 1, "tail": 1}


@pytest.mark.parametrize("skew", [-120, 0, 120])
def test_how_long_ago_counts_from_the_arrival(skew):
    """The line arrived five seconds ago, whatever the clock of its node showed."""
    stamped = f"2024-05-01T12:{2 + skew // 60:02}:00Z x"
    arrived = NOON + 120
    assert selected([stamped], now=arrived + 5, time=arrived, since="60s") == [stamped]
    assert selected([stamped], now=arrived + 61, time=arrived, since="60s") == []
    assert selected([stamped], now=arrived + 61, time=arrived, until="60s") == [stamped]


@pytest.mark.parametrize("skew", [-120, 120])
def test_an_exact_time_is_compared_with_the_stamp_both_ends_included(skew):
    stamped = "2024-05-01T12:00:00.5Z x"
    asked = {"now": NOON + 999, "time": NOON - skew}
    assert selected([stamped], **asked, since="2024-05-01T12:00:00.5Z") == [stamped]
    assert selected([stamped], **asked, since="2024-05-01T12:00:00.500000001Z") == []
    assert selected([stamped], **asked, until="2024-05-01T12:00:00.5Z") == [stamped]
    assert selected([stamped], **asked, until="2024-05-01T12:00:00.499999999Z") == []


def test_a_line_without_a_stamp_stands_where_it_arrived_or_else_with_the_one_before():
    since = "2024-05-01T12:00:00Z"
    assert selected(["x"], time=NOON, since=since) == ["x"]
    assert selected(["x"], time=NOON - 1, since=since) == []
    texts = ["a", "2024-05-01T11:59:59Z b", "c", "2024-05-01T12:00:00Z d", "e"]
    assert selected(texts, since=since) == ["2024-05-01T12:00:00Z d", "e"]
    assert selected(texts, until="2024-05-01T11:59:59Z") == ["2024-05-01T11:59:59Z b", "c"]


def test_a_record_has_the_time_of_its_first_line():
    texts = ["2024-05-01T12:00:00Z ERROR x", *FAILED[1:], "2024-05-01T12:00:01Z INFO y"]
    assert selected(texts, until="2024-05-01T12:00:00Z") == texts[:-1]


@pytest.mark.parametrize("asked", [{"since": "1h"}, {"until": "1h"}, {"since": "2024-05-01T12:00:00Z"}])
def test_a_span_that_cannot_be_compared_with_anything_is_refused(asked):
    (option,) = asked
    with pytest.raises(BadSelection, match=f"{option}: nothing says when these lines were written"):
        selected(["x", "y"], **asked)
    assert selected([], **asked) == []
    with pytest.raises(BadSelection, match="nothing says when"):
        selected(["2024-05-01T12:00:00Z x"], since="1h")


def test_without_filters_no_line_waits():
    selector = Selector(Selection.of(), NOON)
    assert [line.text for line in selector.feed(lines_of(FAILED[:2]))] == FAILED[:2]


def test_a_record_waits_until_it_is_whole_or_nothing_comes():
    selector = Selector(Selection.of(severity="ERROR"), NOON)
    lines = lines_of([*FAILED, NEXT])
    assert selector.feed(lines[:2]) == []
    assert selector.idle() == lines[:2]
    assert selector.idle() == []
    assert selector.feed(lines[2:4]) == lines[2:4]
    assert selector.feed(lines[4:]) == []


def test_what_comes_late_of_a_record_that_did_not_pass_is_judged_by_itself():
    selector = Selector(Selection.of(query="bad"), NOON)
    lines = lines_of([*FAILED, NEXT])
    assert selector.feed(lines[:2]) == []
    assert selector.idle() == []
    assert selector.feed(lines[2:]) == lines[2:4]


def test_a_tail_is_held_until_all_that_was_there_is_seen():
    selector = Selector(Selection.of(tail=2), NOON)
    lines = lines_of("abcdef")
    assert selector.feed(lines[:3]) == []
    assert selector.caught_up() == lines[1:3]
    assert selector.feed(lines[3:]) == lines[3:]
    assert selector.caught_up() == []


OUTPUT = st.lists(
    st.sampled_from(
        [*FAILED, NEXT, "step", "  indented", " 37%|##\r 38%|##", "a\r", "ERROR a", "", "\x1b[31mbad\x1b[0m"]
    ),
    max_size=30,
).flatmap(lambda texts: st.sampled_from(["", "\n"]).map(lambda end: ("\n".join(texts) + end).encode()))
ASKED = st.fixed_dictionaries(
    {},
    optional={
        "severity": st.sampled_from(["INFO", "ERROR"]),
        "query": st.sampled_from(["bad", "a", "step"]),
        "exclude": st.sampled_from(["next", "failed"]),
        "regex": st.booleans(),
        "since": st.sampled_from(["2024-05-01T12:00:01Z", "1h"]),
    },
)


def followed(pieces, now, **asked):
    lines, selector, passed = Lines(), Selector(Selection.of(**asked), now), []
    for piece in pieces:
        passed += selector.feed(lines.feed(piece, time=NOON))
    passed += selector.feed(lines.end())
    return passed + selector.caught_up()


@given(in_pieces(OUTPUT), ASKED)
def test_any_split_selects_the_same(case, asked):
    whole, pieces = case
    assert followed(pieces, NOON, **asked) == followed([whole], NOON, **asked)


@given(in_pieces(OUTPUT), ASKED, st.integers(0, 8))
def test_the_tail_of_a_follow_is_the_tail_of_the_whole(case, asked, tail):
    whole, pieces = case
    everything = followed([whole], NOON, **asked)
    assert followed(pieces, NOON, **asked, tail=tail) == (everything[-tail:] if tail else [])


@given(in_pieces(OUTPUT), st.integers(0, 8), st.integers(0, 9))
def test_a_follow_shows_the_tail_of_what_was_there_and_all_that_comes(case, tail, joined):
    _, pieces = case
    lines, selector, before, shown = Lines(), Selector(Selection.of(tail=tail), NOON), [], []
    for number, piece in enumerate(pieces):
        if number == joined:
            shown += selector.caught_up()
            before = before[-tail:] if tail else []
        new = lines.feed(piece)
        shown += selector.feed(new)
        before += new
    if joined < len(pieces):
        assert shown == before
    else:
        assert shown == []
        assert selector.caught_up() == (before[-tail:] if tail else [])


@given(in_pieces(OUTPUT), ASKED, st.data())
def test_idle_moments_lose_and_double_nothing(case, asked, data):
    """What was judged early may differ from what is judged at the end, but lines stay in order, each once."""
    _, pieces = case
    lines, selector, passed, fed = Lines(), Selector(Selection.of(**asked), NOON), [], []
    for piece in pieces:
        new = lines.feed(piece, time=NOON)
        fed += new
        passed += selector.feed(new)
        if data.draw(st.booleans()):
            passed += selector.idle()
    passed += selector.caught_up()
    cursors = [line.cursor for line in passed]
    assert cursors == sorted(set(cursors))
    assert len(passed) + sum(selector.rejected.values()) == len(fed)
