# SPDX-License-Identifier: Apache-2.0
"""Lines of jobs as the command writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from covalent_joblog_plugin.model.log_line import LogLine
from covalent_joblog_plugin.reading.rendering import stamp
from covalent_joblog_plugin.text.terminal import plain, safe

if TYPE_CHECKING:
    from covalent_joblog_plugin.reading.assembling import Item
    from covalent_joblog_plugin.reading.rendering import Shown
    from covalent_joblog_plugin.reading.sources import Source
    from covalent_joblog_plugin.text.selection import Selection

_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
"""Of labels; red is for faults."""


@dataclass(frozen=True, slots=True)
class TextLines:
    """How lines are written for people.

    Attributes:
        labels: Whether ``[label] `` stands before each.
        timestamps: Whether the time of its arrival does.
        colour: Whether colours may be used; those of the job pass then, too.
        marked: What is shown in reverse.
    """

    labels: bool
    timestamps: bool
    colour: bool
    marked: Selection
    paints = True
    """Whether lines without an end yet are shown, on a terminal."""
    judges = False
    """Whether lines have to have their severity, which takes most of the time."""

    def line(self, shown: Shown) -> str:
        """A line without its end, safe for a terminal."""
        time = f"{stamp(shown.item.time)} " if self.timestamps else ""
        return time + (self._label(label_of(shown.source)) if self.labels else "") + self._text(shown.item)

    def event(self, shown: Shown) -> str:
        """What is told of a break."""
        return (f"[{label_of(shown.source)}] " if self.labels else "") + shown.item.text

    def _label(self, label: str) -> str:
        text = f"[{safe(label)}]"
        if not self.colour:
            return f"{text} "
        # Python's own hash of a text is another one in each process.
        return f"\x1b[{_COLOURS[crc32(label.encode()) % len(_COLOURS)]}m{text}\x1b[0m "

    def _text(self, item: Item) -> str:
        if not isinstance(item, LogLine):
            return safe(item.text)
        found = self.marked.found(plain(item.written)) if self.colour else ()
        return safe(item.text, colour=self.colour, found=found)


class JsonLines:
    """Lines for programs, in ASCII."""

    paints = False
    judges = True

    def line(self, shown: Shown) -> str:
        """A line without its end."""
        source, item = shown.source, shown.item
        said = {
            "dispatch_id": source.dispatch_id,
            "node_id": source.node_id,
            "node": _node(source),
            "file": source.file,
            "stream": source.stream,
            "rank": source.rank,
            "time": item.time,
            "cursor": item.cursor,
            "text": item.text,
        }
        if isinstance(item, LogLine):
            severity = item.severity.name if item.severity else None
            said |= {"execution": item.execution, "severity": severity, "size": item.size}
        return json.dumps(said)

    def event(self, shown: Shown) -> str:
        """What is told of a break."""
        return f"[{label_of(shown.source)}] {shown.item.text}"


Style = TextLines | JsonLines
StyleMaker = Callable[[bool], Style]
"""Makes the style of lines, given whether they are all one node's."""


def label_of(source: Source) -> str:
    """What an output is called: its node, and which output where that is not rank 0's stdout or stderr."""
    return (
        _node(source) if source.rank == 0 and source.stream is not None else f"{_node(source)} {source.file}"
    )


def _node(source: Source) -> str:
    return source.label.removesuffix(f" {source.file}")
