# SPDX-License-Identifier: Apache-2.0
"""Leaves out the lines of much output that are not in a span of time, without taking each of them apart.

Lines that follow each other and whose stamps have the day, the hour, the minute or the second in common are
judged at once, by the first and the last moment of it. Lines whose stamps are no RFC 3339 or near it are left
to the selection, and so is the last line of what is left out: what follows may belong to it.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from .records import begins_anyhow
from .skimming import ODD, compiled
from .stamps import HEAD_CHARACTERS, calendar_stamp, own_time

if TYPE_CHECKING:
    from .selection import Selection, Window

_ODD = compiled(ODD)
_UNITS = (
    (86_400, r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d", "00:00:00", "23:59:59"),
    (3600, r":[0-5]\d:[0-5]\d", ":00:00", ":59:59"),
    (60, r":[0-5]\d", ":00", ":59"),
    (1, "", "", ""),
)
"""Seconds that stamps have in common; what is different in them; its first and its last value."""
_NO_ZONE = r"(?! ?(?:[Zz]|UTC|[+-]\d\d))"
_OFFSET_ENDS = r"(?![0-9A-Za-z_\x80-\xff])"


class TimeSkimmer:
    """Skims one output.

    Args:
        window: The span of time.

    Attributes:
        skipped: How many lines were left out, by the end of the span that they are beyond.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self.skipped: Counter[str] = Counter()

    @classmethod
    def of(cls, selection: Selection, now: float) -> TimeSkimmer | None:
        """What skims for ``selection``; None where that spares nothing, or every line has to be looked at.

        Raises:
            BadSelection: The span of time ends before it begins.
        """
        # What is asked for by how long ago it arrived is found by the index.
        exact = any(bound is not None and not bound.ago for bound in (selection.since, selection.until))
        return cls(selection.window(now)) if exact and selection.execution is None else None

    def parts(self, data: bytes, time: float | None) -> list[tuple[int, int]]:
        """The parts of whole lines that have to be taken apart, as starts and ends, in order.

        Args:
            data: Whole lines.
            time: When they arrived, Unix seconds.
        """
        parts: list[tuple[int, int]] = []
        begun = at = 0
        odd = _odd(data, 0)
        while at < len(data):
            if odd < at:
                odd = _odd(data, at)
            line_end = data.find(b"\n", at) + 1
            end, reason = self._run(data, at, line_end, odd, time) if odd >= line_end else (line_end, "")
            last = data.rfind(b"\n", at, end - 1) + 1
            if reason and last > at:
                parts.append((begun, at))
                begun = last
                self.skipped[reason] += data.count(b"\n", at, last)
            at = end
        parts.append((begun, len(data)))
        return parts

    def _run(self, data: bytes, at: int, line_end: int, odd: int, time: float | None) -> tuple[int, str]:
        """Where the lines end that are like the one at ``at``, and why they are not wanted, if so."""
        text = data[at : min(line_end, at + HEAD_CHARACTERS)].decode("utf-8", "replace")
        stamp = calendar_stamp(text)
        if stamp is None or not text[: stamp.end()].isascii() or not begins_anyhow(text):
            return line_end, ""
        arrival = None if time is None else round(time * 10**9)
        for (seconds, digits, first, last), upto in zip(_UNITS, _ends(stamp), strict=True):
            common, zone = text[:upto], _zone(stamp)
            low = own_time(f"{common}{first}.000000000{zone}", time)
            high = own_time(f"{common}{last}.999999999{zone}", time)
            # Without a zone, each is put into the one in which it is nearest to its arrival.
            if low is None or high is None or high - low != seconds * 10**9 - 1:
                continue
            reason = self._window.beyond(low, arrival)
            if reason == "no time" or reason != self._window.beyond(high, arrival):
                continue
            like = re.escape(common) + digits + _behind(stamp, zone)
            if re.compile(like.encode(), re.DOTALL).match(data, at) is None:
                continue
            other = re.compile(rb"\n(?!%s)" % like.encode()).search(data, at)
            end = other.end() if other else len(data)
            return (end if end <= odd else data.rfind(b"\n", 0, odd) + 1), reason
        return line_end, ""


def _odd(data: bytes, at: int) -> int:
    """Where the next bytes are that make a line be looked at by itself."""
    match = _ODD.search(data, at)
    return int(match.start()) if match else len(data)


def _ends(stamp: re.Match[str]) -> tuple[int, int, int, int]:
    """Where what is common ends in the text, for each of ``_UNITS``."""
    return stamp.start(4), stamp.start(4) + 2, stamp.end(4), stamp.end(5)


def _zone(stamp: re.Match[str]) -> str:
    """Its zone, as it is written."""
    start = max(stamp.start(7), stamp.start(8))
    if start < 0:
        return ""
    return stamp.string[start - (stamp.string[start - 1] == " ") : stamp.end()]


def _behind(stamp: re.Match[str], zone: str) -> str:
    """What stands behind the seconds of stamps that are read as this one."""
    fraction = r"(?![.,]\d)" if stamp[6] is None else r"[.,]\d+(?!\d)"
    if not zone:
        return fraction + _NO_ZONE
    return fraction + re.escape(zone) + (_OFFSET_ENDS if stamp[8] else "")
