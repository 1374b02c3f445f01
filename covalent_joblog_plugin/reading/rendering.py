# SPDX-License-Identifier: Apache-2.0
"""Lines and breaks as text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.log_line import LogLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .assembling import Item
    from .sources import Source


@dataclass(frozen=True, slots=True)
class Shown:
    """A line or a break, and whose it is.

    Attributes:
        source: The output it is in.
        item: The line, or the break.
    """

    source: Source
    item: Item

    @property
    def open(self) -> bool:
        """Whether it is a line that no newline ended."""
        return isinstance(self.item, LogLine) and not self.item.ended


@dataclass(frozen=True, slots=True)
class Rendering:
    """How lines are written.

    Attributes:
        labels: Whether ``[label] `` stands before each.
        timestamps: Whether the time of its arrival stands before each, in UTC; ``-`` where it is unknown.
    """

    labels: bool
    timestamps: bool

    def line(self, shown: Shown) -> str:
        """A line without its end."""
        text = f"[{shown.source.label}] {shown.item.text}" if self.labels else shown.item.text
        return f"{stamp(shown.item.time)} {text}" if self.timestamps else text

    def text(self, shown: Iterable[Shown]) -> Iterator[str]:
        """Lines with their ends; the very last one has none if the job wrote none."""
        before: Shown | None = None
        for one in shown:
            if before is not None and before.open:
                yield "\n"
            yield self.line(one) if one.open else self.line(one) + "\n"
            before = one


def stamp(time: float | None) -> str:
    """RFC 3339 in UTC to the millisecond; ``-`` where it is unknown."""
    if time is None:
        return "-"
    moment = datetime.fromtimestamp(time, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
