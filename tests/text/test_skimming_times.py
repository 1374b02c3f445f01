# SPDX-License-Identifier: Apache-2.0
"""A span of time leaves out the same lines whether all of them are looked at or most are skimmed."""

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from covalent_joblog_plugin.text.lines import Lines
from covalent_joblog_plugin.text.selection import Selection
from covalent_joblog_plugin.text.selector import Selector
from covalent_joblog_plugin.text.skimming import SkimmedLines
from covalent_joblog_plugin.text.skimming_times import TimeSkimmer
from tests.text.test_skimming import texts

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
FORMS = [
    "%Y-%m-%dT%H:%M:%SZ",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M:%S,%f",
    "%Y/%m/%d %H:%M:%S.%f UTC",
    "[%Y-%m-%dT%H:%M:%S.%f+02:00",
    "%Y-%m-%d %H:%M:%S -0530",
    "[rank0]: %Y-%m-%d %H:%M:%S,%f",
    "[é]: %Y-%m-%d %H:%M:%S,%f",
    "3: %Y-%m-%d %H:%M:%S.%f000000",
    "  %Y-%m-%d %H:%M:%SZ",
    "I%m%d %H:%M:%S.%f       7 main.go:1]",
    '{"ts":"%Y-%m-%dT%H:%M:%SZ"}',
    "%Y-%m-%d %H:%M:60",
    "%Y-%m-%d %H:%M:%S.",
    "%Y-%m-%d %H:%M:%SZulu",
]
_near = st.builds(
    lambda unit, count: timedelta(seconds=unit * count),
    st.sampled_from([0.000001, 0.5, 1, 60, 449.9999995, 900, 3600, 86_400]),
    st.integers(-3, 3),
)
REST = ["", " x", " +0200 x", "Z", " UTC", "5", "+02:009", "\r", "\r 50%", "\x1b[1m", "\u009bx", "é"]
REST += [" Traceback (most recent call last):", " ERROR x"]
_stamped = st.builds(
    lambda form, offset, rest: (NOON + offset).strftime(form) + rest,
    st.sampled_from(FORMS),
    _near,
    st.sampled_from(REST),
)
_many = st.builds(
    lambda form, first, step, count, rests: [
        (NOON + first + step * n).strftime(form) + rests[n % len(rests)] for n in range(count)
    ],
    st.sampled_from(FORMS),
    _near,
    st.sampled_from([timedelta(0), timedelta(microseconds=7), timedelta(seconds=1), timedelta(minutes=7)]),
    st.integers(1, 30),
    st.lists(st.sampled_from(REST), min_size=1, max_size=3),
)
_others = st.sampled_from(["", "  more", "ValueError: bad", "fine", "Traceback (most recent call last):"])
_lines = st.lists(st.one_of(_many, _stamped.map(lambda line: [line]), _others.map(lambda line: [line])))
_said = _lines.map(lambda found: "".join(f"{line}\n" for lines in found for line in lines).encode())


@st.composite
def arrivals(draw):
    """What came in pieces, each with the time of its arrival."""
    data = draw(st.one_of(_said, _said, _said, texts))
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=4)))
    known = st.one_of(st.none(), _near.map(lambda offset: (NOON + offset).timestamp()))
    return [(draw(known), data[a:b]) for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@st.composite
def spans(draw):
    """A span of time, one end of it a time in the calendar."""
    bound = _near.map(lambda offset: NOON + offset)
    exact = draw(st.sampled_from([("since",), ("until",), ("since", "until")]))
    asked = dict(zip(exact, sorted(draw(bound) for _ in exact), strict=True))
    if exact == ("until",) and draw(st.booleans()):
        asked["since"] = timedelta(days=9)
    return {**asked, "query": draw(st.sampled_from([(), (), "ERROR"]))}


def selected(pieces, asked, skim):
    """The lines of pieces, each with its severity, and how many were left out why."""
    now = (NOON + timedelta(days=5)).timestamp()
    selection = Selection.of(**asked)
    selector, skimmer = Selector(selection, now), TimeSkimmer.of(selection, now)
    lines = SkimmedLines(skimmer, 7) if skim else Lines(7)
    found = []
    for arrival, data in pieces:
        found += selector.feed(lines.feed(data, time=arrival))
    found += selector.feed(lines.end()) + selector.idle()
    return found, +(selector.rejected + skimmer.skipped)


@given(arrivals(), spans())
@example([(NOON.timestamp(), b"2024-05-01 11:00:00Z a\n2024-05-01 11:00:01Z b\n  more\n")], {"since": NOON})
@example([(None, b"2024-05-01 13:00:00 a\n" * 3 + b"  more\n" + b"2024-05-01 11:00:00 b\n")], {"until": NOON})
@example(
    [((NOON - timedelta(hours=3)).timestamp(), b"2024-05-01 12:00:00 x\n2024-05-01 12:00:00Z\n" * 3)],
    {"since": NOON - timedelta(hours=1)},
)
def test_what_is_skimmed_is_what_looking_at_every_line_finds(pieces, asked):
    assert selected(pieces, asked, skim=True) == selected(pieces, asked, skim=False)


@pytest.mark.parametrize("form", [form for form in FORMS[:9] if "é" not in form])
def test_lines_that_are_like_each_other_are_not_taken_apart(form):
    arrival = (NOON + timedelta(seconds=30)).timestamp()
    lines = [(NOON + timedelta(milliseconds=5 * n)).strftime(form) + " step" for n in range(4000)]
    data = "".join(f"{line}\n" for line in lines).encode()
    for asked in ({"since": NOON + timedelta(days=2)}, {"until": NOON - timedelta(days=2)}):
        skimmer = TimeSkimmer.of(Selection.of(**asked), arrival)
        assert sum(end - start for start, end in skimmer.parts(data, arrival)) < len(data) / 20
        assert skimmer.skipped.total() > 3900
    skimmer = TimeSkimmer.of(Selection.of(since=NOON - timedelta(days=2)), arrival)
    assert sum(end - start for start, end in skimmer.parts(data, arrival)) == len(data)


@pytest.mark.parametrize(
    "asked", [{"since": "2h"}, {"until": "1h"}, {"query": "x"}, {"since": NOON, "execution": 0}]
)
def test_nothing_is_skimmed_where_nothing_is_spared(asked):
    assert TimeSkimmer.of(Selection.of(**asked), 0.0) is None
