# SPDX-License-Identifier: Apache-2.0
"""Times as people write them: how long ago, or exactly when.

``500ms``, ``90s``, ``15m``, ``2h``, ``3d``, ``1w`` and sums such as ``1h30m`` count back from now. An RFC
3339 time, ``2024-05-01T12:00:00.5+02:00``, says when. What can be read in two ways is refused, with what to
write instead: a time without a zone, a number without a unit, a day without a time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from typing import NoReturn

from covalent_joblog_plugin.model.errors import BadSelection

_UNITS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
"""In milliseconds."""
_SUM = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:ms|[wdhms]))+", re.ASCII)
_PART = re.compile(r"([\d.]+)(ms|[wdhms])", re.ASCII)
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d):(\d\d)(?:[.,](\d{1,9}))?(?:([Zz])|([+-])(\d\d):(\d\d))?", re.ASCII
)
_NUMBER = re.compile(r"\d{1,19}", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a span of time.

    Attributes:
        nanoseconds: Unix time; or how long before now, where ``ago``.
        ago: Whether it counts back from now.
    """

    nanoseconds: int
    ago: bool

    def at(self, now: float) -> int:
        """The same as Unix nanoseconds, where ``now`` is in Unix seconds."""
        return round(now * 10**9) - self.nanoseconds if self.ago else self.nanoseconds


def bound(option: str, spec: str | datetime | timedelta) -> Bound:
    """What ``spec`` says.

    Args:
        option: What it is given for, for the message: ``since`` or ``until``.
        spec: As above; a ``timedelta`` for how long ago, a ``datetime`` with a zone for when.

    Raises:
        BadSelection: It can be read in two ways, or in none.
    """
    if isinstance(spec, timedelta):
        if spec < timedelta(0):
            raise BadSelection(
                option, f"{spec} ago has not been yet; it counts back from now, so give it positive"
            )
        return Bound(spec // timedelta(microseconds=1) * 1000, ago=True)
    if isinstance(spec, datetime):
        if spec.utcoffset() is None:
            _without_zone(option, spec.isoformat())
        return Bound((spec - _EPOCH) // timedelta(microseconds=1) * 1000, ago=False)
    if not isinstance(spec, str):
        raise BadSelection(option, f"{_show(spec)} is a {type(spec).__name__}; {_HOW}")
    spec = spec.strip()
    if match := _RFC3339.fullmatch(spec):
        return Bound(_when(option, spec, match), ago=False)
    if _SUM.fullmatch(spec):
        return Bound(_how_long(option, spec), ago=True)
    return _refuse(option, spec)


def unix(day: str, minute: str, second: int, fraction: str, east: int) -> int:
    """Unix nanoseconds of a time in the calendar.

    Args:
        day: ``YYYY-MM-DD``.
        minute: ``HH:MM``.
        second: 0 to 60; 60, a leap second, is the next minute's 0.
        fraction: Up to 9 digits of a second.
        east: Seconds by which its zone is ahead of UTC.

    Raises:
        ValueError: There is no such time.
    """
    if second > 60:
        raise ValueError("seconds go to 59, or 60 in a leap second")
    start = datetime.fromisoformat(f"{day} {minute}").replace(tzinfo=timezone.utc)
    return ((start - _EPOCH) // timedelta(seconds=1) + second - east) * 10**9 + int(fraction.ljust(9, "0"))


def _when(option: str, spec: str, match: re.Match[str]) -> int:
    day, minute, second, fraction, utc, sign, hours, minutes = match.groups()
    if not utc and not sign:
        _without_zone(option, spec)
    east = 0
    if sign:
        if int(hours) > 23 or int(minutes) > 59:
            raise BadSelection(
                option, f"{_show(spec)}: there is no zone {sign}{hours}:{minutes}; write Z for UTC"
            )
        east = (int(hours) * 3600 + int(minutes) * 60) * (-1 if sign == "-" else 1)
    try:
        return unix(day, minute, int(second), fraction or "", east)
    except ValueError as error:
        raise BadSelection(option, f"{_show(spec)} is not in the calendar: {error}; {_HOW}") from None


def _how_long(option: str, spec: str) -> int:
    parts = _PART.findall(spec)
    units = [unit for _, unit in parts]
    if units != sorted(set(units), key=list(_UNITS).index):
        raise BadSelection(
            option, f"{_show(spec)}: write each unit once and the longest first, such as 1h30m"
        )
    return round(sum(Fraction(number) * _UNITS[unit] for number, unit in parts) * 10**6)


_HOW = "write how long ago, such as 90s, 15m, 2h, 1h30m or 3d, or when, such as 2024-05-01T12:00:00Z"


def _refuse(option: str, spec: str) -> NoReturn:
    if _NUMBER.fullmatch(spec):
        raise BadSelection(option, f"{_show(spec)} has no unit; {_HOW}")
    if _DAY.fullmatch(spec):
        raise BadSelection(option, f"{_show(spec)} has no time of day to the second with a zone; {_HOW}")
    if spec.startswith(("-", "+")):
        raise BadSelection(option, f"{_show(spec)} has a sign; {_HOW}")
    raise BadSelection(option, f"{_show(spec)} is no time that can be understood; {_HOW}")


def _without_zone(option: str, spec: str) -> NoReturn:
    raise BadSelection(option, f"{_show(spec)} has no zone; add Z for UTC, or an offset such as +02:00")


def _show(spec: object) -> str:
    shown = repr(spec)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
