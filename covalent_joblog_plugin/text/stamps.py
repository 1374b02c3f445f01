# SPDX-License-Identifier: Apache-2.0
"""The time that a line itself begins with: RFC 3339 and its looser kin, klog's, or a field of JSON.

A stamp without a zone says what clocks showed where the job ran. Where it is known when the line arrived, its
zone is the one that brings it nearest to that (zones differ by quarters of an hour); else it is read as UTC.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal

from .severity import source
from .terminal import plain
from .timespec import unix

HEAD_CHARACTERS = 256
"""Of a line, in which its stamp stands."""
_JSON_CHARACTERS = 64 * 1024
_ISO = re.compile(
    r"[\s\[(<\"]{0,4}(\d{4})[-/](\d\d)[-/](\d\d)[Tt ](\d\d:\d\d):(\d\d)(?:[.,](\d{1,9})\d*)?"
    r"(?: ?(?:([Zz]|UTC)|([+-])(0\d|1[0-4]):?([0-5]\d)\b))?",
    re.ASCII,
)
_KLOG = re.compile(r"\[?[DIWEF](\d\d)(\d\d) (\d\d:\d\d):(\d\d)\.(\d{1,9})", re.ASCII)
_JSON_KEYS = ("time", "timestamp", "ts", "@timestamp", "asctime")
_QUARTER = 900 * 10**9
_ZONES = range(-12 * 4, 14 * 4 + 1)


def own_time(text: str, arrival: float | None = None) -> int | None:
    """Unix nanoseconds of the stamp of a line; None where it has none.

    Args:
        text: The line.
        arrival: When it arrived, Unix seconds; klog's stamps, which have no year, are read only with it.
    """
    near = None if arrival is None else round(arrival * 10**9)
    if text.startswith("{"):
        return _of_json(text, near)
    head = plain(text[:HEAD_CHARACTERS])
    head = head[source(head) :]
    return _of_iso(head, near) if (found := _of_klog(head, near)) is None else found


def calendar_stamp(text: str) -> re.Match[str] | None:
    """Where the stamp of a line stands that has a day in the calendar and no JSON; None without one.

    Its groups: year, month, day, ``HH:MM``, seconds, their fraction or None; then Z or UTC, or the sign,
    hours and minutes of an offset, or None all of them.

    Args:
        text: The line, or its first ``HEAD_CHARACTERS``, without escape sequences.
    """
    return _ISO.match(text[:HEAD_CHARACTERS], source(text))


def _of_iso(head: str, near: int | None) -> int | None:
    match = _ISO.match(head)
    if match is None:
        return None
    year, month, day, minute, second, fraction, utc, sign, hours, minutes = match.groups()
    east = (int(hours) * 3600 + int(minutes) * 60) * (-1 if sign == "-" else 1) if sign else 0
    try:
        time = unix(f"{year}-{month}-{day}", minute, int(second), fraction or "", east)
    except ValueError:
        return None
    return time if utc or sign else _in_its_zone(time, near)


def _of_klog(head: str, near: int | None) -> int | None:
    match = _KLOG.match(head)
    if match is None or near is None:
        return None
    month, day, minute, second, fraction = match.groups()
    times = []
    this = 1970 + near // (31_556_952 * 10**9)
    # The 29th of February is not in every year, and may be nearest years away.
    for year in range(this - 4, this + 5):
        try:
            times.append(unix(f"{year:04}-{month}-{day}", minute, int(second), fraction, 0))
        except ValueError:
            continue
    return _in_its_zone(min(times, key=lambda time: abs(time - near)), near) if times else None


def _of_json(text: str, near: int | None) -> int | None:
    if len(text) > _JSON_CHARACTERS:
        return None
    try:
        record = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
    value = next((record[key] for key in _JSON_KEYS if key in record), None)
    if isinstance(value, str):
        return _of_iso(value[:HEAD_CHARACTERS], near)
    if not isinstance(value, int | Decimal):
        return None
    # Seconds or milliseconds since 1970; both are times of this age.
    unit = 10**9 if 10**9 <= value < 10**10 else 10**6 if 10**12 <= value < 10**13 else 0
    return round(value * unit) if unit else None


def _in_its_zone(time: int, near: int | None) -> int:
    if near is None:
        return time
    quarters = round((time - near) / _QUARTER)
    return time - quarters * _QUARTER if quarters in _ZONES else time
