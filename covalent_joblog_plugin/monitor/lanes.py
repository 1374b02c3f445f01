# SPDX-License-Identifier: Apache-2.0
"""Which file feeds which stored output, and in what order.

A *lane* is one stored output of a node (its stdout, its stderr, an extra file, …) with the files that feed
it: one for each execution of the job, read one after the other.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.records import FileRef

from .position import Position

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(slots=True)
class Lane:
    """One stored output and the files that feed it, in the order of their executions."""

    output: str
    positions: list[Position] = field(default_factory=list)
    current: int = 0
    taken: int = 0
    """Source bytes of all executions handed to the store."""
    capped: bool = False

    @property
    def position(self) -> Position:
        """The file that is read now; its place in the order is fixed by its first byte."""
        return self.positions[self.current]

    @property
    def superseded(self) -> bool:
        """Whether a later execution's file waits for the current one to be read to its end."""
        return self.current + 1 < len(self.positions)


class Lanes:
    """The lanes of one node; files may be added at any time, and what a file feeds never changes."""

    def __init__(self) -> None:
        self.by_output: dict[str, Lane] = {}
        self._output_of: dict[tuple[str, int], str] = {}
        self._owner: dict[tuple[str, int], str] = {}

    def update(self, files: Iterable[FileRef | str]) -> bool:
        """Take in what ``get_files_to_monitor`` answers now; True if there was something new.

        A plain string whose stem is ``stderr`` or whose suffix is ``.err`` is the node's stderr; any
        other first one is its stdout, for good; the rest are extra files under their base names. A path
        object is as good as a string.

        Raises:
            TypeError: Something else was given; what came before it is taken in.
        """
        if isinstance(files, (str, FileRef)):
            raise TypeError(f"it must give a list of files, not {files!r}")
        known = len(self._output_of)
        for given in files:
            ref = given if isinstance(given, FileRef) else FileRef(os.fspath(given))
            if (ref.path, ref.execution) not in self._output_of:
                self._add(ref, plain=ref is not given)
        return len(self._output_of) > known

    def sources(self) -> dict[str, str]:
        """Output → the file that feeds it now."""
        return {output: lane.position.ref.path for output, lane in self.by_output.items()}

    def stored(self) -> dict[str, int]:
        """Path of each file → bytes of it that are stored."""
        return {
            position.ref.path: position.stored
            for lane in self.by_output.values()
            for position in lane.positions
        }

    def _add(self, ref: FileRef, *, plain: bool) -> None:
        if not (isinstance(ref.name, str | None) and isinstance(ref.execution, int)):
            raise TypeError(f"{ref}: its name must be a string and its execution a number")
        output = self._free_name(_guess(ref.path) if plain else _name(ref), ref)
        self._output_of[ref.path, ref.execution] = output
        self._owner[output, ref.execution] = ref.path
        lane = self.by_output.setdefault(output, Lane(output))
        begun = lane.current + 1 if lane.positions and lane.position.pos else lane.current
        waiting = [*lane.positions[begun:], Position(ref)]
        lane.positions[begun:] = sorted(waiting, key=lambda position: position.ref.execution)

    def _free_name(self, wanted: str, ref: FileRef) -> str:
        if (wanted, ref.execution) not in self._owner:
            return wanted
        base = PurePosixPath(ref.path).name or ref.path
        name, n = base, 1
        while (name, ref.execution) in self._owner:
            n += 1
            name = f"{base}~{n}"
        return name


def _guess(path: str) -> str:
    name = PurePosixPath(path)
    return "stderr" if name.stem == "stderr" or name.suffix == ".err" else "stdout"


def _name(ref: FileRef) -> str:
    if ref.stream is None:
        return ref.name or PurePosixPath(ref.path).name or ref.path
    if ref.rank:
        return ref.name or f"rank{ref.rank}.{ref.stream}"
    return "stderr" if ref.stream == "stderr" else "stdout"
