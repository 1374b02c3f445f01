# SPDX-License-Identifier: Apache-2.0
"""Outputs of a node as they grow: the server's events, and one stream of them over many connections."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from covalent_joblog_plugin.model.errors import TransportError

from .answers import NodeInfo, Piece
from .client import ServerBusy, node_path, refusal

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .client import Server

log = logging.getLogger("covalent_joblog_plugin")

PATIENCE = 600.0
"""Seconds for which a server that went away is waited for."""
_SILENCE = 45.0
"""Seconds without a byte after which a connection is broken; the server says something every 15."""
_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream, as the HTML standard describes them."""

    kind: str
    data: str


@dataclass(frozen=True, slots=True)
class End:
    """All output was given, and none will come."""

    node: NodeInfo


class EventParser:
    """Bytes → events, wherever the pieces end."""

    def __init__(self) -> None:
        self._rest = b""
        self._kind = "message"
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[Event]:
        """The events that end in ``data``."""
        # Looking for a newline in what was looked at before would make one long event cost its square.
        if b"\n" not in data:
            self._rest += data
            return []
        *lines, self._rest = (self._rest + data).split(b"\n")
        events = (self._line(line.removesuffix(b"\r").decode("utf-8", "replace")) for line in lines)
        return [event for event in events if event]

    def _line(self, line: str) -> Event | None:
        if not line:
            event = Event(self._kind, "\n".join(self._data)) if self._data else None
            self._kind, self._data = "message", []
            return event
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        return None


async def follow(
    server: Server, dispatch_id: str, node_id: int, cursors: dict[str, int]
) -> AsyncGenerator[NodeInfo | Piece | End, None]:
    """What happens to outputs of a node, until their end; a server that goes away is waited for.

    Args:
        server: Whom to ask.
        dispatch_id: The dispatch.
        node_id: The node.
        cursors: The outputs, and where to begin in each; kept up to date, so that it says where to go on.

    Raises:
        OutputNotFound: There is no such node or output.
        OutputError: The output cannot be read from there.
        TransportError: No server answers at first, or none came back within ``PATIENCE`` seconds.
    """
    query = [("file", file) for file in cursors]
    path = node_path(dispatch_id, node_id) + "/events"
    response = await _first(server, path, query, cursors)
    while True:
        try:
            async with response, aclosing(_events(response)) as events:
                async for event in events:
                    if isinstance(event, Piece):
                        cursors[event.file] = event.next
                    yield event
                    if isinstance(event, End):
                        return
            reason = "it ended the stream"
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ServerBusy) as error:
            reason = str(error) or type(error).__name__
        log.info("the output of node %s of %s is asked for again: %s", node_id, dispatch_id, reason)
        response = await _again(server, path, query, cursors)


async def _first(server: Server, path: str, query: Any, cursors: dict[str, int]) -> aiohttp.ClientResponse:
    try:
        return await _open(server, path, query, cursors)
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
        raise server.unreachable(error) from error


async def _again(server: Server, path: str, query: Any, cursors: dict[str, int]) -> aiohttp.ClientResponse:
    """A connection to a server that went away or starts again."""
    since = time.time()
    away = (aiohttp.ClientError, asyncio.TimeoutError, OSError, TransportError)
    retrying = AsyncRetrying(
        retry=retry_if_exception_type(away),
        wait=wait_random_exponential(_PAUSE, max=3),
        stop=stop_after_delay(PATIENCE),
        reraise=True,
    )
    # A stream that breaks as soon as it is open must not become a storm.
    await asyncio.sleep(_PAUSE)
    try:
        return await retrying(_open, server, path, query, cursors)
    except away as error:
        raise TransportError(
            f"the server at {server.address} has not come back since {time.ctime(since)}: {error}; "
            f"start it again and go on from {cursors} (cursors)"
        ) from error


async def _open(server: Server, path: str, query: Any, cursors: dict[str, int]) -> aiohttp.ClientResponse:
    place = ",".join(str(cursor) for cursor in cursors.values())
    return await server.open(path, query, {"Last-Event-ID": place}, patience=_SILENCE)


async def _events(response: aiohttp.ClientResponse) -> AsyncGenerator[NodeInfo | Piece | End, None]:
    parser = EventParser()
    async for data in response.content.iter_any():
        for event in parser.feed(data):
            answer = json.loads(event.data)
            if event.kind == "output":
                yield Piece.told(answer)
            elif event.kind == "node":
                yield NodeInfo.of(answer)
            elif event.kind == "end":
                yield End(NodeInfo.of(answer))
            elif event.kind == "problem":
                raise refusal(answer)
