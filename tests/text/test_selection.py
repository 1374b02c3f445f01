# SPDX-License-Identifier: Apache-2.0
"""What is asked for is understood in one way, or refused before anything is read."""

import re
from datetime import datetime, timedelta, timezone

import pytest

from covalent_joblog_plugin.model.errors import BadSelection
from covalent_joblog_plugin.model.log_line import Severity
from covalent_joblog_plugin.text.selection import Selection
from covalent_joblog_plugin.text.timespec import Bound


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"stream": "stdin"}, "stream: there is no 'stdin'"),
        ({"rank": -1}, "rank: -1 is not a number"),
        ({"rank": "0"}, "rank: '0' is not a number"),
        ({"execution": 1.0}, "execution: 1.0 is not a number"),
        ({"tail": True}, "tail: True is not a number"),
        ({"tail": -5}, "tail: -5 is not a number"),
        ({"since": "90"}, "since: '90' has no unit"),
        ({"until": "2024-05-01T12:00:00"}, "until: '2024-05-01T12:00:00' has no zone"),
        ({"severity": "loud"}, "severity: 'loud' is none; take one of DEBUG, INFO, WARNING, ERROR, CRITICAL"),
        ({"severity": 40}, "severity: 40 is none"),
        ({"query": ""}, "query: an empty text"),
        ({"query": ["a", ""]}, "query: an empty text"),
        ({"exclude": "[", "regex": True}, "exclude: '[' is no regular expression"),
        ({"highlight": "(", "regex": True}, "highlight: '(' is no regular expression"),
    ],
)
def test_what_cannot_be_used_is_refused(asked, says):
    with pytest.raises(BadSelection, match=re.escape(says)) as refused:
        Selection.of(**asked)
    assert refused.value.option == says.split(":")[0]


def test_a_span_that_ends_before_it_begins_is_refused():
    selection = Selection.of(since="2024-05-01T12:00:00Z", until="2h")
    assert selection.window(1714564800 + 7200.0)
    with pytest.raises(BadSelection, match="until: it is before since"):
        selection.window(1714564800 + 7199.0)
    with pytest.raises(BadSelection, match="until: it is before since"):
        Selection.of(since="1h", until="2h").window(0.0)


@pytest.mark.parametrize("spelled", ["warn", "WARNING", " Warning ", "wrn", Severity.WARNING])
def test_a_severity_may_be_spelled_as_in_any_log(spelled):
    assert Selection.of(severity=spelled).severity is Severity.WARNING


def test_times_may_be_objects():
    selection = Selection.of(since=timedelta(seconds=90), until=datetime(2024, 5, 1, 12, tzinfo=timezone.utc))
    assert selection.since == Bound(90 * 10**9, ago=True)
    assert selection.until == Bound(1714564800 * 10**9, ago=False)


def test_nothing_asked_for_is_everything():
    assert Selection.of() == Selection()
    assert not Selection.of(tail=3, rank=1, stream="log", highlight="x").by_record
    assert not Selection().window(0.0)


@pytest.mark.parametrize(
    "asked", [{"since": "0s"}, {"until": "1s"}, {"severity": "debug"}, {"query": "x"}, {"exclude": "x"}]
)
def test_what_filters_records_makes_lines_wait_for_them(asked):
    assert Selection.of(**asked).by_record


def test_what_was_looked_for_is_found_to_be_shown():
    selection = Selection.of(query=["ab", "cd"], highlight="bc")
    assert selection.found("abcd bc x") == [(0, 4), (5, 7)]
    assert Selection.of(query="a.b", regex=True).found("axb a.b") == [(0, 3), (4, 7)]
    assert Selection().found("x") == []
