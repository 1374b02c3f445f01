# SPDX-License-Identifier: Apache-2.0
"""Which lines are wanted.

The filters apply in this order, each to what the one before left:

1. ``stream``, ``rank``, ``execution``: line by line.
2. ``since`` and ``until``, both inclusive: how long ago counts from the arrival of a line; an exact time is
   compared with the line's own stamp, and where it has none with its arrival.
3. ``severity``: that one or worse.
4. ``query``: one of the texts.
5. ``exclude``: none of the texts.
6. ``tail``: the last lines of what is left.

From 2 to 5 a record (``records``) is taken or left as a whole: by the time of its first line, by its worst
severity, by a text in any of its lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from covalent_joblog_plugin.model.errors import BadSelection
from covalent_joblog_plugin.model.log_line import Severity
from covalent_joblog_plugin.model.records import Stream

from .patterns import Patterns
from .severity import LEVELS
from .timespec import Bound, bound

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

Texts = str | list[str] | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is asked for, understood; made by ``of``.

    Attributes:
        stream: Only this one.
        rank: Only what this one wrote.
        execution: Only what this start of the job wrote.
        since: From when on.
        until: Up to when.
        severity: The least severity.
        query: What has to be in a record.
        exclude: What must not be in it.
        highlight: What is to be shown in reverse besides ``query``; filters nothing.
        tail: How many lines at the end.
    """

    stream: Stream | None = None
    rank: int | None = None
    execution: int | None = None
    since: Bound | None = None
    until: Bound | None = None
    severity: Severity | None = None
    query: Patterns | None = None
    exclude: Patterns | None = None
    highlight: Patterns | None = None
    tail: int | None = None

    @classmethod
    def of(
        cls,
        *,
        stream: Stream | None = None,
        rank: int | None = None,
        execution: int | None = None,
        since: str | datetime | timedelta | None = None,
        until: str | datetime | timedelta | None = None,
        severity: str | Severity | None = None,
        query: Texts = (),
        exclude: Texts = (),
        highlight: Texts = (),
        regex: bool = False,
        tail: int | None = None,
    ) -> Selection:
        """Understand what is asked for.

        Args:
            stream: ``stdout``, ``stderr`` or ``log``.
            rank: 0 or more, like ``execution`` and ``tail``.
            execution: Which start of the job.
            since: A time as in ``timespec``, like ``until``.
            until: Up to when.
            severity: In any usual spelling.
            query: A text, or several.
            exclude: A text, or several.
            highlight: A text, or several.
            regex: Whether these are regular expressions.
            tail: How many lines.

        Raises:
            BadSelection: Something is ambiguous, cannot be used, or contradicts itself.
        """
        if stream is not None and stream not in get_args(Stream):
            raise BadSelection(
                "stream", f"there is no {stream!r}; take stdout, stderr, or log where both are one"
            )
        return cls(
            stream=stream,
            rank=_count("rank", rank),
            execution=_count("execution", execution),
            since=None if since is None else bound("since", since),
            until=None if until is None else bound("until", until),
            severity=_level(severity),
            query=_patterns("query", query, regex),
            exclude=_patterns("exclude", exclude, regex),
            highlight=_patterns("highlight", highlight, regex),
            tail=_count("tail", tail),
        )

    @property
    def by_record(self) -> bool:
        """Whether a line may have to wait for the rest of its record."""
        return any((self.since, self.until, self.severity, self.query, self.exclude))

    def found(self, text: str) -> list[tuple[int, int]]:
        """Where ``query`` and ``highlight`` are in ``text``: starts and ends in characters, in order."""
        merged: list[tuple[int, int]] = []
        spans = [
            span for patterns in (self.query, self.highlight) if patterns for span in patterns.found(text)
        ]
        for start, end in sorted(spans):
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged

    def window(self, now: float) -> Window:
        """The span of time, where ``now`` is in Unix seconds.

        Raises:
            BadSelection: It ends before it begins.
        """
        since = None if self.since is None else self.since.at(now)
        until = None if self.until is None else self.until.at(now)
        if since is not None and until is not None and until < since:
            raise BadSelection("until", "it is before since, so nothing lies between; exchange them")
        return Window(
            since,
            until,
            since_ago=self.since is not None and self.since.ago,
            until_ago=self.until is not None and self.until.ago,
        )


@dataclass(frozen=True, slots=True)
class Window:
    """A span of time, both ends included.

    Attributes:
        since: Unix nanoseconds; None where it is open.
        until: The same.
        since_ago: Whether that end is about arrivals; else it is about the stamps of lines.
        until_ago: The same.
    """

    since: int | None
    until: int | None
    since_ago: bool
    until_ago: bool

    def __bool__(self) -> bool:
        return self.since is not None or self.until is not None

    def beyond(self, own: int | None, arrival: int | None) -> str:
        """Why a line is not between the ends: ``since``, ``until`` or ``no time``; empty if it is.

        Args:
            own: The time of its stamp, or of its arrival where it has none, Unix nanoseconds.
            arrival: When it arrived, Unix nanoseconds.
        """
        if self.unknown(own, arrival):
            return "no time"
        if self.since is not None and ((arrival if self.since_ago else own) or 0) < self.since:
            return "since"
        too_late = self.until is not None and ((arrival if self.until_ago else own) or 0) > self.until
        return "until" if too_late else ""

    def unknown(self, own: int | None, arrival: int | None) -> str:
        """Which end cannot be compared with these times; empty if both can."""
        if self.since is not None and (arrival if self.since_ago else own) is None:
            return "since"
        return "until" if self.until is not None and (arrival if self.until_ago else own) is None else ""


def _count(option: str, value: int | None) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise BadSelection(option, f"{value!r} is not a number from 0 on")
    return value


def _level(severity: str | Severity | None) -> Severity | None:
    if severity is None or isinstance(severity, Severity):
        return severity
    level = LEVELS.get(severity.strip().upper()) if isinstance(severity, str) else None
    if level is None:
        names = ", ".join(known.name for known in Severity)
        raise BadSelection("severity", f"{severity!r} is none; take one of {names}")
    return level


def _patterns(option: str, texts: Texts, regex: bool) -> Patterns | None:
    several: Sequence[str] = [texts] if isinstance(texts, str) else texts
    return Patterns(option, several, regex=regex) if several else None
