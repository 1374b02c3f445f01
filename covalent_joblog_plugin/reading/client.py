# SPDX-License-Identifier: Apache-2.0
"""Questions to the server, and what its refusals mean."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp

from covalent_joblog_plugin.model.errors import (
    BadSelection,
    OutputError,
    OutputGone,
    OutputNotFound,
    OutputNotYet,
    OutputUnsupported,
    TransportError,
)

from .answers import DispatchInfo, NodeInfo, Piece

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from types import TracebackType

    from typing_extensions import Self

PIECE_BYTES = 1 << 20
"""Most bytes that the server gives in one answer."""
_CONNECT = 10.0
_ANSWER = 120.0
"""Seconds: the server itself waits a minute for a locked database."""
_BEYOND = 416
"""The status of a range that begins behind the end."""
_KINDS: dict[str, type[OutputError]] = {
    "not_yet": OutputNotYet,
    "gone": OutputGone,
    "unsupported": OutputUnsupported,
}


class ServerBusy(TransportError):  # noqa: N818 - a state, not a mistake
    """Disk or database of the server do not answer at present."""


class Server:
    """One Covalent server, for one event loop; an async context manager.

    Args:
        address: As ``server_address`` gives it.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_ANSWER)
        # A dispatch may have hundreds of nodes to follow at a time.
        connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def dispatch(self, dispatch_id: str) -> DispatchInfo:
        """A dispatch and its nodes; raises as ``ask`` does."""
        return DispatchInfo.of(await self.ask(f"/api/v1/joblog/{dispatch_id}"))

    async def node(self, dispatch_id: str, node_id: int) -> NodeInfo:
        """A node and its outputs; raises as ``ask`` does."""
        return NodeInfo.of(await self.ask(node_path(dispatch_id, node_id)))

    async def piece(
        self,
        dispatch_id: str,
        node_id: int,
        file: str,
        *,
        cursor: int | None = None,
        since: float | None = None,
        size: int = PIECE_BYTES,
    ) -> Piece:
        """At most ``size`` bytes of an output; raises as ``ask`` does.

        Args:
            dispatch_id: The dispatch.
            node_id: The node.
            file: The output's name.
            cursor: Of the first byte; a negative one counts back from the end.
            since: In its place: what arrived then (Unix seconds) or later, or a little before it.
            size: Most bytes, up to ``PIECE_BYTES``.
        """
        asked: dict[str, Any] = {"file": file, "cursor": cursor, "since": since, "size": size}
        query = {name: value for name, value in asked.items() if value is not None}
        path, accept = node_path(dispatch_id, node_id) + "/output", {"Accept": "application/octet-stream"}
        try:
            async with await self.open(path, query, accept, patience=_ANSWER) as response:
                return Piece.of(await response.read())
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise self.unreachable(error) from error

    async def newest_dispatches(self, count: int, prefix: str = "") -> list[str]:
        """The ids of the newest dispatches that begin so, sublattices left out; raises as ``ask`` does.

        Args:
            count: At most so many, and at most 99.
            prefix: How they begin.
        """
        query = {"count": count, "search": prefix, "sort_by": "started_at", "sort_direction": "DESC"}
        answer = await self.ask("/api/v1/dispatches/list", query)
        ids = [str(item["dispatch_id"]) for item in answer["items"]]
        return [found for found in ids if found.startswith(prefix)]

    async def ask(self, path: str, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The server's answer.

        Raises:
            OutputNotFound: There is no such dispatch, node or output.
            OutputNotYet: There is none yet.
            OutputError: It cannot be had; other kinds of it say why.
            TransportError: No server answers there, or one without this plugin.
        """
        try:
            async with self._get(path, query) as response:
                return await self._answer(response)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise self.unreachable(error) from error

    async def open(
        self, path: str, query: Any, headers: Mapping[str, str], *, patience: float
    ) -> aiohttp.ClientResponse:
        """A response whose body is still to come; the caller closes it, and raises what its reading raises.

        Args:
            path: What is asked for.
            query: Its parameters.
            headers: To be sent.
            patience: Seconds without a byte after which the connection counts as broken.

        Raises:
            aiohttp.ClientError: The server cannot be reached.
            TransportError: As ``ask``.
            OutputError: As ``ask``.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=patience)
        response: aiohttp.ClientResponse = await self._get(path, query, headers=headers, timeout=timeout)
        refused = response.status >= 300 and response.status != _BEYOND
        if refused or response.content_type in {"text/html", "application/json"}:
            async with response:
                await self._answer(response)
                raise self._no_plugin()
        return response

    async def body(
        self, path: str, query: Mapping[str, Any], start: int, end: int
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of a download from ``start`` to ``end``, or to where it ends; raises as ``ask`` does."""
        headers = {"Range": f"bytes={start}-{end - 1}"}
        try:
            async with await self.open(path, query, headers, patience=_ANSWER) as response:
                if response.status == _BEYOND:
                    return
                async for data in response.content.iter_any():
                    yield data
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise self.unreachable(error) from error

    def unreachable(self, error: BaseException) -> TransportError:
        """What a fault of the connection means."""
        what = "does not answer in time" if isinstance(error, asyncio.TimeoutError) else str(error)
        return TransportError(
            f"no Covalent server at {self.address}: {what}; start it (covalent start --no-cluster), or say "
            "where it is, as the server http://host:port"
        )

    def _get(self, path: str, query: Any, **options: Any) -> Any:
        if self._session is None:
            raise RuntimeError("not inside its context")
        return self._session.get(self.address + path, params=query, allow_redirects=False, **options)

    async def _answer(self, response: aiohttp.ClientResponse) -> dict[str, Any]:
        if response.content_type != "application/json":
            if response.status >= 500:
                raise ServerBusy(
                    f"the server at {self.address} fails with {response.status}; see `covalent logs`"
                )
            raise self._no_plugin()
        answer = await response.json()
        if response.status == 200 and isinstance(answer, dict):
            return answer
        problem = answer.get("error") if isinstance(answer, dict) else None
        if not isinstance(problem, dict):
            raise self._no_plugin()
        raise refusal(problem)

    def _no_plugin(self) -> TransportError:
        return TransportError(
            f"the server at {self.address} serves no /api/v1/joblog: install covalent-joblog-plugin where "
            "that server runs and start it again (covalent stop; covalent start --no-cluster)"
        )


def refusal(problem: Mapping[str, Any]) -> OutputError | TransportError:
    """The error that a problem of the server stands for."""
    code, step = problem["code"], problem["next_step"]
    exists = [str(name) for name in problem.get("exists", [])]
    if code == "not_found":
        there = f"there is {', '.join(exists)}" if exists else step
        return OutputNotFound(f"{problem['message']}; {there}", exists)
    message = f"{problem['message']}; {step}"
    if code == "unavailable":
        return ServerBusy(message)
    if code == "bad_request":
        return BadSelection("request", message)
    return _KINDS.get(code, OutputError)(message)


def node_path(dispatch_id: str, node_id: int) -> str:
    """Where a node's answers are."""
    return f"/api/v1/joblog/{dispatch_id}/{node_id}"
