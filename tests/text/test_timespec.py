# SPDX-License-Identifier: Apache-2.0
"""A time is understood in one way, or refused with what to write instead."""

from contextlib import suppress
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.model.errors import BadSelection, OutputError
from covalent_joblog_plugin.text.timespec import Bound, bound

NOON = 1714564800 * 10**9


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ("90s", 90),
        ("2h", 7200),
        ("15m", 900),
        ("1h30m", 5400),
        ("1w2d", 9 * 86400),
        ("1.5h", 5400),
        ("0s", 0),
        (" 3d ", 3 * 86400),
        (timedelta(minutes=2), 120),
    ],
)
def test_how_long_ago(spec, seconds):
    assert bound("since", spec) == Bound(seconds * 10**9, ago=True)
    assert bound("since", spec).at(1000.0) == (1000 - seconds) * 10**9


def test_how_long_ago_is_exact():
    assert bound("since", "1s1ms") == Bound(1_001_000_000, ago=True)
    assert bound("since", "0.000000001s") == Bound(1, ago=True)
    assert bound("since", "500ms") == Bound(500_000_000, ago=True)


@pytest.mark.parametrize(
    ("spec", "nanoseconds"),
    [
        ("2024-05-01T12:00:00Z", NOON),
        ("2024-05-01t12:00:00z", NOON),
        ("2024-05-01 12:00:00Z", NOON),
        ("2024-05-01T12:00:00.123456789Z", NOON + 123456789),
        ("2024-05-01T12:00:00.069Z", NOON + 69_000_000),
        ("2024-05-01T12:00:00,5Z", NOON + 500_000_000),
        ("2024-05-01T12:00:00.5+05:30", 1714545000500000000),
        ("2024-05-01T12:00:00-00:00", NOON),
        ("2024-05-01T07:00:00-05:00", NOON),
        ("2016-12-31T23:59:60Z", 1483228800 * 10**9),
        ("1969-12-31T23:59:59.5Z", -500_000_000),
        (datetime(2024, 5, 1, 12, 0, 0, 7, tzinfo=timezone.utc), NOON + 7000),
        (datetime(2024, 5, 1, 14, tzinfo=timezone(timedelta(hours=2))), NOON),
    ],
)
def test_when(spec, nanoseconds):
    assert bound("until", spec) == Bound(nanoseconds, ago=False)
    assert bound("until", spec).at(1.0) == nanoseconds


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("90", "no unit"),
        ("1714564800", "no unit"),
        ("2024-05-01T12:00:00", "no zone; add Z"),
        ("2024-05-01 12:00:00,123", "no zone; add Z"),
        (datetime(2024, 5, 1), "no zone; add Z"),  # noqa: DTZ001 - what is refused
        ("2024-05-01", "no time of day"),
        ("2024-05-01T12:00", "no time of day"),
        ("12:00", "understood"),
        ("-90s", "sign"),
        ("+1h", "sign"),
        (timedelta(seconds=-1), "positive"),
        ("1M", "understood"),
        ("2 h", "understood"),
        ("1h1h", "each unit once"),
        ("5s1h", "longest first"),
        ("1y", "understood"),
        ("yesterday", "understood"),
        ("", "understood"),
        ("1h2", "understood"),
        ("٣s", "understood"),
        ("1e3s", "understood"),
        ("2024-02-30T00:00:00Z", "not in the calendar"),
        ("2024-05-01T24:00:00Z", "not in the calendar"),
        ("2024-05-01T12:00:61Z", "not in the calendar"),
        ("0000-01-01T00:00:00Z", "not in the calendar"),
        ("2024-05-01T12:00:00+24:00", "no zone +24:00"),
        ("2024-05-01T12:00:00+0200", "understood"),
        ("x" * 1000, "x…"),
        (90, "is a int"),
        (None, "is a NoneType"),
    ],
)
def test_what_is_refused_says_what_to_write(spec, says):
    with pytest.raises(BadSelection) as refused:
        bound("since", spec)
    assert says in str(refused.value)
    assert str(refused.value).startswith("since: ")
    assert refused.value.option == "since"
    assert len(str(refused.value)) < 250
    assert isinstance(refused.value, OutputError)
    assert isinstance(refused.value, ValueError)


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.timezones()))  # noqa: DTZ001 - as asked for
def test_a_datetime_and_its_text_are_the_same_time(when):
    offset = when.utcoffset()
    if not offset.total_seconds() % 60 and abs(offset) < timedelta(hours=24):
        assert bound("since", when.isoformat()) == bound("since", when)


@given(st.text(max_size=20))
def test_any_text_is_understood_or_refused(spec):
    with suppress(BadSelection):
        assert bound("since", spec).nanoseconds >= -(1 << 63)
