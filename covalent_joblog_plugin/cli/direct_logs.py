# SPDX-License-Identifier: Apache-2.0
"""``joblog logs --direct``: one output of one node as its cluster has it, with no Covalent server."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from covalent_joblog_plugin.model.capabilities import Answer
from covalent_joblog_plugin.model.errors import BadSelection, OutputError
from covalent_joblog_plugin.text.lines import Lines
from covalent_joblog_plugin.text.selection import Selection
from covalent_joblog_plugin.text.selector import Selector
from covalent_joblog_plugin.text.terminal import plain, safe

from . import console, direct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalent_joblog_plugin.model.log_line import LogLine
    from covalent_joblog_plugin.model.records import Stream
    from covalent_joblog_plugin.store.folders import StoredJob

_ELSEWHERE = {
    "since": "the cluster does not know when lines arrived; use --tail, --query or --severity",
    "until": "the cluster does not know when lines arrived; use --tail, --query or --severity",
    "timestamps": "the cluster does not know when lines arrived; leave it out",
    "file": "outputs are known there by --stream, --rank and --execution; use these",
    "server": "no server is asked; leave it out",
}
"""Options that have no meaning on the cluster."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is wanted of a job.

    Attributes:
        stream: ``stdout``, ``stderr``, or ``log`` where both are in one.
        rank: Whose.
        execution: Which start of the job; None for all that the cluster has.
        follow: Whether to go on until the job's end.
        raw: Whether the bytes are written as they are.
        selection: Which lines, where they are not.
    """

    stream: Stream
    rank: int
    execution: int | None
    follow: bool
    raw: bool
    selection: Selection

    @classmethod
    def of(cls, options: dict[str, Any]) -> Asked:
        """Understand the options of ``joblog logs``.

        Raises:
            BadSelection: One has no meaning here.
        """
        for name, why in _ELSEWHERE.items():
            if options[name]:
                raise BadSelection(name, f"with --direct {why}")
        if options["form"] == "json":
            raise BadSelection("output", "with --direct there is text and raw")
        if options["follow"] and options["tail"] is not None:
            raise BadSelection("tail", "with --direct either the last lines or --follow; leave one out")
        selection = Selection.of(
            tail=options["tail"],
            severity=options["severity"],
            query=options["query"],
            exclude=options["exclude"],
            highlight=options["highlight"],
            regex=options["regex"],
        )
        raw = options["form"] == "raw"
        if raw and (selection.by_record or selection.tail is not None):
            raise BadSelection("output", "raw bytes are no lines that could be chosen from; use -o text")
        return cls(
            cast("Stream", _one("stream", options["stream"] or "stdout")),
            int(_one("rank", options["rank"] or "0")),
            options["execution"],
            options["follow"],
            raw,
            selection,
        )


def _one(option: str, value: str) -> str:
    if value == "all" or (option == "rank" and not (value.isascii() and value.isdigit())):
        raise BadSelection(option, f"with --direct one at a time, not {value!r}; say which")
    return value


def show(dispatch: str | None, node: int | str | None, options: dict[str, Any]) -> None:
    """Write an output to stdout, and what is said about it to stderr.

    Args:
        dispatch: The beginning of an id, ``latest``, or None for the newest.
        node: Its number, name or a pattern of names; None where only one has a job.
        options: Of ``joblog logs``.

    Raises:
        JobLogError: As ``Asked.of``, ``direct.one_job``, ``direct.opened`` and ``direct.pieces`` do.
    """
    asked = Asked.of(options)
    job = direct.one_job(dispatch, node)
    console.event(f"{job}, straight from its cluster")
    try:
        asyncio.run(_show(job, asked))
    except KeyboardInterrupt:
        back = shlex.join(["joblog", "logs", "--direct", "-f", job.dispatch_id, str(job.node_id)])
        console.event(f"\nno longer watching; nothing else has ended. To return: {back}")
        raise


async def _show(job: StoredJob, asked: Asked) -> None:
    write = _Raw() if asked.raw else _Text(asked.selection)
    async with direct.opened(job) as reader:
        capabilities = await reader.capabilities()
        if capabilities.read.answer is Answer.NO:
            raise OutputError(f"{job} cannot be read: {capabilities.read.reason}")
        before: int | None = None
        source = direct.pieces(
            reader, stream=asked.stream, rank=asked.rank, execution=asked.execution, follow=asked.follow
        )
        async with aclosing(source) as pieces:
            async for piece in pieces:
                if before not in {None, piece.execution}:
                    write.breaks()
                    console.event(f"[joblog: execution {piece.execution} of the job]")
                before = piece.execution
                write.data(piece.data)
    write.end()


class _Raw:
    """The bytes as the job wrote them."""

    def data(self, data: bytes) -> None:
        console.write_bytes(data)

    def breaks(self) -> None:
        """Nothing is held back."""

    def end(self) -> None:
        """The same."""


class _Text:
    """Lines, safe on a terminal."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._selector = Selector(selection, time.time())
        self._lines = Lines()
        self._colour = console.has_colour(sys.stdout)

    def data(self, data: bytes) -> None:
        self._write(self._selector.feed(self._lines.feed(data)))

    def breaks(self) -> None:
        """The last line of an execution has no end that could come."""
        self._write(self._selector.feed(self._lines.end()))

    def end(self) -> None:
        self.breaks()
        self._write(self._selector.caught_up())
        if rejected := {option: count for option, count in self._selector.rejected.items() if count}:
            by = ", ".join(f"{option} leaves out {count} lines" for option, count in rejected.items())
            console.event(by)

    def _write(self, lines: Iterable[LogLine]) -> None:
        for line in lines:
            found = self._selection.found(plain(line.written)) if self._colour else ()
            console.write(safe(line.text, colour=self._colour, found=found) + "\n")
