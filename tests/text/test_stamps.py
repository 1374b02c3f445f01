# SPDX-License-Identifier: Apache-2.0
"""The time that lines begin with, to the nanosecond."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.text.stamps import own_time

NOON = 1714564800 * 10**9
NEW_YEAR = 1704067206.0


@pytest.mark.parametrize(
    ("line", "nanoseconds"),
    [
        ("2024-05-01T12:00:00.123456789Z x", 1714564800123456789),
        ("2024-05-01T12:00:00.069Z x", 1714564800069000000),
        ("2024-05-01T12:00:00Z x", NOON),
        ("2024-05-01T12:00:00.5+05:30 x", 1714545000500000000),
        ("2024-05-01 12:00:00,123 - n - INFO - x", NOON + 123_000_000),
        ("[2024-05-01T12:00:00.000+0200] {a.py:1} INFO", NOON - 7200 * 10**9),
        ("2024-05-01 12:00:00 UTC x", NOON),
        ("[2024-05-01 12:00:00 +0200] [7] [INFO] x", NOON - 7200 * 10**9),
        ("2024-05-01 12:00:00 -5000 items", NOON),
        ("2024/05/01 12:00:00 x", NOON),
        ("2024-05-01 12:00:00", NOON),
        ("\x1b[2m2024-05-01T12:00:00Z\x1b[0m INFO x", NOON),
        ("[rank0]: 2024-05-01T12:00:00Z x", NOON),
        ('{"time":"2024-05-01T12:00:00.5Z","msg":"x"}', NOON + 500_000_000),
        ('{"ts":1714564800.25}', NOON + 250_000_000),
        ('{"timestamp":1714564800001}', NOON + 1_000_000),
    ],
)
def test_what_a_line_says(line, nanoseconds):
    assert own_time(line) == nanoseconds


@pytest.mark.parametrize(
    "line",
    [
        "",
        "step 2024-05-01T12:00:00Z",
        "2024-05-01",
        "2024-13-01 12:00:00 x",
        "2024-02-30 12:00:00 x",
        "12:00:00 x",
        "I0501 12:00:00.5 7 a.cc:1] x",
        '{"time":"soon"}',
        '{"ts":3}',
        '{"ts":1e400}',
        '{"ts":null}',
        '{"time"',
        "{" * 100_000,
        '{"time":' * 20_000,
    ],
)
def test_a_line_without_a_stamp_has_none(line):
    assert own_time(line) is None


@pytest.mark.parametrize(
    ("line", "arrival", "nanoseconds"),
    [
        ("I1231 23:59:59.999999 7 a.cc:1] x", NEW_YEAR, 1704067199999999000),
        ("I0101 00:00:05.000001 7 a.cc:1] y", NEW_YEAR, 1704067205000001000),
        ("I0101 00:00:05.000001 7 a.cc:1] y", NEW_YEAR - 10, 1704067205000001000),
        ("I0229 12:00:00.000000 7 a.cc:1] x", 1709294400.0, 1709208000000000000),
        ("I0230 12:00:00.000000 7 a.cc:1] x", 1709294400.0, None),
    ],
)
def test_a_stamp_without_a_year_is_of_the_nearest(line, arrival, nanoseconds):
    assert own_time(line, arrival) == nanoseconds


@pytest.mark.parametrize("zone", [-12, -9.5, -5, 0, 1, 2, 5.5, 5.75, 8, 14])
@pytest.mark.parametrize("skew", [-120, -1, 0, 0.5, 120, 400])
def test_a_stamp_without_a_zone_is_in_the_one_that_fits_its_arrival(zone, skew):
    """Clocks showed 12:00:00 there, ``skew`` seconds before the line arrived."""
    there = NOON - round(zone * 3600) * 10**9
    assert own_time("2024-05-01 12:00:00 x", there / 10**9 + skew) == there


def test_a_stamp_with_a_zone_is_believed_however_far_off():
    assert own_time("2024-05-01T12:00:00Z x", NOON / 10**9 + 3600) == NOON
    assert own_time("2024-05-01 12:00:00 x", NOON / 10**9 + 86400 * 9) == NOON


@given(
    st.text(max_size=80)
    | st.dictionaries(st.sampled_from(["time", "ts"]), st.text() | st.floats()).map(json.dumps)
)
def test_any_line_has_a_time_or_none(line):
    assert own_time(line, NEW_YEAR) is None or isinstance(own_time(line, NEW_YEAR), int)
