# SPDX-License-Identifier: Apache-2.0
"""Jobs found in Covalent's results folder and read straight from their cluster: no server takes part."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import (
    AuthenticationError,
    BadSelection,
    JobLogError,
    OutputNotFound,
    OutputNotYet,
    OutputUnsupported,
    TransportError,
)
from covalent_joblog_plugin.store.folders import find_dispatch, find_jobs

from . import console

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from covalent_joblog_plugin.model.reader import OutputReader
    from covalent_joblog_plugin.model.records import Stream
    from covalent_joblog_plugin.store.folders import StoredJob

AGAIN = 5.0
"""Seconds until a cluster that did not answer, or a job that has not begun, is asked again."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of one output as the cluster has them.

    Attributes:
        execution: Which start of the job wrote them; None where the cluster does not number them.
        data: The bytes; none where that is all an execution wrote.
    """

    execution: int | None
    data: bytes


def jobs(dispatch: str | None, node: int | str | None) -> list[StoredJob]:
    """The nodes asked for, from the results folder of Covalent's configuration.

    Raises:
        BadSelection: Several dispatches begin so.
        OutputNotFound: There is no such dispatch or node.
    """
    from covalent._shared_files.config import get_config

    results = Path(get_config("dispatcher.results_dir"))
    try:
        return find_jobs(results, find_dispatch(results, dispatch), node)
    except JobLogError:
        raise
    except (OSError, ValueError) as error:
        raise OutputNotFound(
            f"{results} cannot be read: {error}; run this as the user of Covalent's server"
        ) from error


def one_job(dispatch: str | None, node: int | str | None) -> StoredJob:
    """The one node asked for; raises as ``jobs`` does, and ``BadSelection`` where there are several."""
    found = jobs(dispatch, node)
    if len(found) > 1:
        there = ", ".join(f"{job.node_id} ({job.name})" for job in found[:20])
        raise BadSelection("node", f"{found[0].dispatch_id} has several: {there}; say which")
    return found[0]


@asynccontextmanager
async def opened(job: StoredJob) -> AsyncIterator[OutputReader]:
    """A reader of the node's job, closed in the end.

    Raises:
        OutputNotYet: No job was submitted for it.
        OutputUnsupported: It cannot be read without a server.
        OptionError: An option of its executor cannot work any more.
    """
    from covalent_joblog_plugin.executors.direct import open_output, restored

    if job.handle is None:
        raise OutputNotYet(
            f"{job} has no job: it waited when its server was stopped, or its executor is of another kind; "
            "dispatch again, or read what is stored: joblog logs"
        )
    if job.executor is None:
        raise OutputUnsupported(
            f"{job} was run by an earlier version, which did not keep how its cluster is reached; in Python, "
            f"covalent_joblog_plugin.open_output(executor, {job.handle!r}) reads it"
        )
    reader = open_output(restored(job.executor), job.handle)
    try:
        yield reader
    finally:
        await reader.close()


async def pieces(
    reader: OutputReader,
    *,
    stream: Stream,
    rank: int = 0,
    execution: int | None = None,
    since: int = 0,
    start: int = 0,
    follow: bool = False,
    gaps: bool = False,
) -> AsyncGenerator[Piece, None]:
    """The bytes of one output, execution after execution; each is read to its end before the next one.

    With ``follow`` a cluster that does not answer is asked again, and so is a job that has not begun.

    Args:
        reader: Of the job.
        stream: Which one.
        rank: Whose.
        execution: Only this one; None for all from ``since`` on.
        since: The execution to begin with.
        start: Byte offset in that execution.
        follow: Whether to go on until the job's end.
        gaps: Whether an execution that has no such rank is passed over.

    Raises:
        OutputError: See ``OutputReader.output``.
        TransportError: The cluster cannot be reached, and ``follow`` is not wanted, or it refuses us.
    """
    done: set[int | None] = set()
    first = since if execution is None else execution
    while True:
        known = await _patiently(reader, execution, stream, follow=follow)
        fresh = [n for n in known if n not in done and (n is None or n >= first)]
        if not fresh:
            return
        for number in fresh:
            last = follow and number == known[-1]
            done.add(number)
            pos = start if number in {None, first} else 0
            silent = True
            try:
                async with aclosing(_one(reader, number, stream, rank, pos, follow=last)) as found:
                    async for data in found:
                        silent = False
                        yield Piece(number, data)
            except OutputNotFound:
                if not gaps:
                    raise
            else:
                if silent:
                    yield Piece(number, b"")
        if not follow or execution is not None or fresh == [None]:
            return


async def _one(
    reader: OutputReader, number: int | None, stream: Stream, rank: int, pos: int, *, follow: bool
) -> AsyncGenerator[bytes, None]:
    said = ""
    while True:
        source = reader.output(execution=number, rank=rank, stream=stream, follow=follow, start=pos)
        try:
            async with aclosing(source):
                async for data in source:
                    pos += len(data)
                    if said:
                        console.event("the text goes on")
                        said = ""
                    yield data
        except AuthenticationError:
            raise
        except (OutputNotYet, TransportError) as error:
            if not follow:
                raise
            if str(error) != said:
                said = str(error)
                console.event(f"asked again: {said}")
        else:
            return
        await asyncio.sleep(AGAIN)


async def _patiently(
    reader: OutputReader, execution: int | None, stream: Stream, *, follow: bool
) -> list[int | None]:
    """The executions to be read, of which there is at least one."""
    said = ""
    while True:
        try:
            return await _executions(reader, execution, stream)
        except AuthenticationError:
            raise
        except (OutputNotYet, TransportError) as error:
            if not follow:
                raise
            if str(error) != said:
                said = str(error)
                console.event(f"asked again: {said}")
        await asyncio.sleep(AGAIN)


async def _executions(reader: OutputReader, execution: int | None, stream: Stream) -> list[int | None]:
    if execution is not None:
        return [execution]
    try:
        if not (found := await reader.executions()):
            async with aclosing(reader.output(stream=stream)) as why:
                await anext(why, b"")  # raises the reason, unless it has begun meanwhile
            found = await reader.executions()
    except OutputUnsupported:
        return [None]
    return [*found]
