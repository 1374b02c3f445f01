# SPDX-License-Identifier: Apache-2.0
"""``/api/v1/joblog``: the output of nodes of every executor, by cursor, as events, and to download.

These routes only read. What blocks is done in threads of the store's readers, and no answer costs more than
the piece it holds. FastAPI takes the annotations here at run time, so they are no strings.
"""

import logging
from collections.abc import AsyncIterator, Callable
from importlib.metadata import version
from typing import Any, TypeVar

import anyio
from fastapi import APIRouter
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from covalent_joblog_plugin.store.layout import safe_name
from covalent_joblog_plugin.store.nodes import open_nodes
from covalent_joblog_plugin.store.pieces import cursor_from_end
from covalent_joblog_plugin.store.reading import known_dispatch, outputs_of
from covalent_joblog_plugin.store.state import INSTANCE, STARTED
from covalent_joblog_plugin.store.threads import in_reader
from covalent_joblog_plugin.store.views import View
from covalent_joblog_plugin.text.selection import Selection

from .answers import (
    HEADERS,
    DispatchAnswer,
    FoundLine,
    Health,
    JsonResponse,
    NodeAnswer,
    NodeName,
    PieceAnswer,
    SearchAnswer,
    encoded,
)
from .description import describe, reading_of, snapshot_of
from .following import PIECE_BYTES, Follower, Start, follow
from .hanging_up import ended_with_the_server
from .parameters import (
    Before,
    Cursor,
    DispatchId,
    File,
    Files,
    LastEventId,
    Most,
    NodeId,
    Severity,
    Since,
    Size,
    Texts,
)
from .ranges import asked_range, content_range
from .refusals import REFUSED, STATUSES, BadRequestError, RefusingRoute
from .searching import search_back, search_on

log = logging.getLogger("covalent_joblog_plugin")

OCTETS = "application/octet-stream"
CLOSING_PATIENCE = 2.0
"""Seconds a follower has, when the server stops, to send what it holds."""
_OUTPUT = """A piece of an output, from a cursor or a time on.

It is empty where there is nothing yet, and beyond the output's end: `total` tells.

With `Accept: application/octet-stream` the answer is the same JSON without data in one line, and behind it
the bytes as they are: faster for long outputs."""
_EVENTS = """A stream of server-sent events, until the output's end:

- `node`: the node as its own route answers it; first, and when something other than sizes has changed
- `output`: a piece of an output, as `output` answers it
- `end`: the node; all output was sent and none will come. Close the stream, or it is opened again.
- `problem`: why the stream ends before

The `id` of an event is the cursor to go on from, or several with commas, in the order of `file`: sent back as
`Last-Event-ID` it continues without gap or repeat, also on a server that was started again."""

_SEARCH = """Lines with a text, or of a severity, forwards from `cursor` or backwards from `before`.

One answer takes about half a second at most: go on from `next` for more. The next error of an output is
`severity=ERROR&most=1` behind the line of the last one; of a traceback only its beginning counts. A line
without an end yet may be found again when it has grown."""

_EVENT_STREAM = {"text/event-stream": {"schema": {"type": "string"}}}
_BYTES = {OCTETS: {"schema": {"type": "string", "format": "binary"}}}

router = APIRouter(prefix="/api/v1/joblog", tags=["Job output"], route_class=RefusingRoute)

F = TypeVar("F", bound=Callable[..., Any])


def _read(
    path: str, answer: type | None, media: dict[str, Any] | None = None, **options: Any
) -> Callable[[F], F]:
    """Add a route for GET and HEAD; it answers with a record in JSON, or with ``media``, or as one asks."""
    known = ({"model": answer} if answer else {}) | ({"content": media} if media else {})
    responses = {200: {"description": "What was asked for", **known}, **STATUSES}

    def add(function: F) -> F:
        for method in (router.get, router.head):
            method(path, responses=responses, response_class=Response, **options)(function)
        return function

    return add


@_read("/health", Health)
async def health() -> Response:
    """Whether this plugin serves here, and since when."""
    versions = version("covalent-joblog-plugin"), version("covalent")
    return JsonResponse(encoded(Health(*versions, INSTANCE, STARTED, len(open_nodes))))


@_read("/{dispatch_id}", DispatchAnswer)
async def dispatch(dispatch_id: DispatchId) -> Response:
    """A dispatch and its nodes."""

    def answer() -> bytes:
        known = known_dispatch(dispatch_id)
        nodes = [
            NodeName(node.node_id, node.name, node.status, node.executor, node.sub_dispatch_id)
            for node in known.nodes.values()
        ]
        return encoded(DispatchAnswer(dispatch_id, known.name, known.status, nodes))

    return JsonResponse(await in_reader(answer))


@_read("/{dispatch_id}/{node_id}", NodeAnswer)
async def node(dispatch_id: DispatchId, node_id: NodeId) -> Response:
    """A node, its outputs, and what can be done with them."""
    output = open_nodes.get((dispatch_id, node_id))
    reading = reading_of(output) if output else None

    def answer() -> bytes:
        known = known_dispatch(dispatch_id, node_id)
        row = known.nodes[node_id]
        found = outputs_of(dispatch_id, known, row)
        return encoded(describe(dispatch_id, known, row, found, reading))

    return JsonResponse(await in_reader(answer))


@_read("/{dispatch_id}/{node_id}/output", PieceAnswer, _BYTES, description=_OUTPUT)
async def output(
    request: Request,
    dispatch_id: DispatchId,
    node_id: NodeId,
    file: File = "stdout",
    cursor: Cursor = None,
    since: Since = None,
    size: Size = PIECE_BYTES,
) -> Response:
    """A piece of an output."""
    start = _start(cursor, since)
    in_bytes = request.headers.get("accept") == OCTETS

    def answer() -> bytes:
        snapshot = snapshot_of(dispatch_id, node_id, file)
        piece = start.place(file, snapshot).take(snapshot, size)
        return PieceAnswer.in_bytes(file, piece) if in_bytes else encoded(PieceAnswer.of(file, piece))

    content = await in_reader(answer)
    headers = {**HEADERS, "Vary": "Accept"}
    return Response(content, headers=headers, media_type=OCTETS if in_bytes else "application/json")


@_read("/{dispatch_id}/{node_id}/events", None, _EVENT_STREAM, description=_EVENTS)
async def events(
    request: Request,
    dispatch_id: DispatchId,
    node_id: NodeId,
    file: Files = ["stdout"],  # noqa: B006 - FastAPI copies it
    cursor: Cursor = None,
    since: Since = None,
    last_event_id: LastEventId = None,
) -> Response:
    """Follow outputs of a node."""
    if len(set(file)) < len(file):
        raise BadRequestError("file: each output can be asked for once; leave out the second")
    starts = dict.fromkeys(file, _start(cursor, since))
    if last_event_id is not None:
        cursors = [int(known) for known in last_event_id.split(",")]
        if len(cursors) != len(file):
            raise BadRequestError(
                f"Last-Event-ID: {len(cursors)} cursors for {len(file)} outputs; ask for the same ones again"
            )
        starts = {name: Start(known) for name, known in zip(file, cursors, strict=True)}
    follower = Follower(dispatch_id, node_id, starts)
    first = await in_reader(follower.look, None)
    if request.method == "HEAD":
        return Response(media_type="text/event-stream", headers=HEADERS)
    closing = anyio.Event()
    return EventSourceResponse(
        follow(follower, first, closing, request.client),
        headers=HEADERS,
        sep="\n",
        shutdown_event=closing,
        shutdown_grace_period=CLOSING_PATIENCE,
    )


@_read("/{dispatch_id}/{node_id}/search", SearchAnswer, description=_SEARCH)
async def search(
    dispatch_id: DispatchId,
    node_id: NodeId,
    file: File = "stdout",
    query: Texts = [],  # noqa: B006 - FastAPI copies it
    exclude: Texts = [],  # noqa: B006 - the same
    regex: bool = False,
    severity: Severity = None,
    cursor: Cursor = None,
    before: Before = None,
    most: Most = 100,
) -> Response:
    """Lines with a text, or of a severity."""
    selection = Selection.of(query=query, exclude=exclude, regex=regex, severity=severity)
    if selection.query is None and selection.severity is None:
        raise BadRequestError("query or severity: one of them says what is looked for; give one")
    if cursor is not None and before is not None:
        raise BadRequestError("cursor and before: one searches forwards, one backwards; leave one out")

    def answer() -> bytes:
        snapshot = snapshot_of(dispatch_id, node_id, file)
        if before is None:
            start = cursor_from_end(snapshot, cursor or 0)
            found = search_on(snapshot, file, selection, start, most)
        else:
            found = search_back(snapshot, file, selection, before, most)
        lines = [FoundLine.of(line) for line in found.lines]
        return encoded(SearchAnswer(file, lines, found.next, snapshot.view.total))

    return JsonResponse(await in_reader(answer))


@_read("/{dispatch_id}/{node_id}/download", None, _BYTES)
async def download(
    request: Request, dispatch_id: DispatchId, node_id: NodeId, file: File = "stdout"
) -> Response:
    """The true bytes of an output, or a range of them; while it grows, those that are there now.

    The header `Joblog-State` is the node's `state`: of a live one, this is a beginning.
    """
    snapshot = await in_reader(snapshot_of, dispatch_id, node_id, file)
    start, end, status = 0, snapshot.view.total, 200
    name = f"{dispatch_id[:8]}-{node_id}-{safe_name(file)}"
    headers = {
        **HEADERS,
        "Accept-Ranges": "bytes",
        "Content-Disposition": f'attachment; filename="{name}"',
        "Joblog-State": snapshot.state.value,
    }
    asked = asked_range(request.headers.get("range"), request.headers.get("if-range"), end)
    if asked is not None:
        headers["Content-Range"] = content_range(*asked, end)
        start, end = asked
        status = 206 if start < end else 416
    headers["Content-Length"] = str(end - start)
    body = _bytes(snapshot.view, start, end if request.method == "GET" else start, request.client)
    return StreamingResponse(body, status, headers, media_type=OCTETS)


def _start(cursor: int | None, since: float | None) -> Start:
    if cursor is not None and since is not None:
        raise BadRequestError("cursor and since: both say where to begin; leave one out")
    return Start(cursor or 0, since)


async def _bytes(view: View, start: int, end: int, client: tuple[str, int] | None) -> AsyncIterator[bytes]:
    async with ended_with_the_server(client):
        while start < end:
            try:
                data = await in_reader(view.read, start, min(PIECE_BYTES, end - start))
            except REFUSED as error:
                # The server closes the connection of a body that is too short.
                log.warning("a download ends early: %s", error)
                return
            start += len(data)
            yield data
