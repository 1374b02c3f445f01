# SPDX-License-Identifier: Apache-2.0
"""The JSON our routes answer with; the documentation at ``/docs`` is made from these records."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import WithJsonSchema
from starlette.responses import Response

from covalent_joblog_plugin.text.terminal import plain

if TYPE_CHECKING:
    from covalent_joblog_plugin.model.log_line import LogLine
    from covalent_joblog_plugin.store.pieces import Piece

MOST_CHARACTERS = 2000
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""Of every answer: output grows, and its text is never anything else than text."""
Base64 = Annotated[str, WithJsonSchema({"type": "string", "format": "byte", "contentEncoding": "base64"})]
"""Bytes as they stand in JSON; in the words of OpenAPI 3.0 and of 3.1."""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether this plugin serves here.

    Attributes:
        version: Of the plugin.
        covalent: Covalent's version.
        instance: Names the server process: nodes that another one left running are orphaned.
        started: When it began to serve, Unix seconds.
        writing: How many nodes' output it writes now.
    """

    version: str
    covalent: str
    instance: str
    started: float
    writing: int


@dataclass(frozen=True, slots=True)
class NodeName:
    """A node of a dispatch.

    Attributes:
        node_id: Its number in the dispatch.
        name: The electron's name.
        status: Its status, in Covalent's spelling.
        executor: The short name of its executor.
        sub_dispatch_id: The dispatch it stands for; null unless it is a sublattice that was dispatched.
    """

    node_id: int
    name: str
    status: str
    executor: str
    sub_dispatch_id: str | None


@dataclass(frozen=True, slots=True)
class DispatchAnswer:
    """A dispatch and its nodes.

    Attributes:
        dispatch_id: The dispatch.
        name: The lattice's name.
        status: Its status, in Covalent's spelling.
        nodes: Its nodes, by their numbers.
    """

    dispatch_id: str
    name: str
    status: str
    nodes: list[NodeName]


@dataclass(frozen=True, slots=True)
class OutputFile:
    """One output of a node.

    Attributes:
        name: What it is asked for by.
        stream: ``stdout``, ``stderr`` or ``log`` (both in one); null for an extra file.
        rank: Whose it is; null for an extra file.
        size: Its length so far in bytes.
    """

    name: str
    stream: str | None
    rank: int | None
    size: int


@dataclass(frozen=True, slots=True)
class SourceState:
    """How the job's files are being read.

    Attributes:
        at: When they last answered, with news or without, Unix seconds; null before the first answer.
        trouble: Why reading fails now, and since when; empty while it does not.
        sources: Output → the file that feeds it now, as its cluster calls it.
    """

    at: float | None
    trouble: str
    sources: dict[str, str]


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """A node and its output.

    Attributes:
        dispatch_id: The dispatch.
        node_id: Its number in the dispatch.
        name: The electron's name.
        status: Its status, in Covalent's spelling.
        executor: The short name of its executor.
        sub_dispatch_id: The dispatch it stands for; null unless it is a sublattice that was dispatched.
        state: ``live``: this server writes the output. ``closed``: it is complete, or seams say what is
            missing. ``interrupted``: the server stopped while the job wrote. ``orphaned``: another server
            left the node running, and it stays so. ``absent``: none of this plugin's executors wrote any.
        growing: Whether more may come.
        note: What a reader should know of it; empty mostly.
        trouble: Why output is not stored at present; empty while it is.
        job: What identifies the job on its cluster, as its executor keeps it; null where there is none.
        capabilities: What can be done with the output: name → ``answer`` (yes, no, unknown) and ``reason``.
        files: Its outputs.
        reading: How the job's files are being read; null while they are not.
    """

    dispatch_id: str
    node_id: int
    name: str
    status: str
    executor: str
    sub_dispatch_id: str | None
    state: str
    growing: bool
    note: str
    trouble: str
    job: Any
    capabilities: dict[str, dict[str, str]]
    files: list[OutputFile]
    reading: SourceState | None


@dataclass(frozen=True, slots=True)
class PieceAnswer:
    """Some of an output.

    Attributes:
        file: The output.
        cursor: Of the first byte.
        next: The cursor to ask from next.
        total: The output's length so far in bytes.
        data: The bytes in Base64, exactly as the job wrote them; they may begin and end inside a character.
        entries: What is known of them, by ``cursor``: ``arrival`` and ``source_time`` (Unix seconds; the
            latter on the job's clock, or null) with ``execution``; ``seam`` (a break right before the cursor)
            with ``message``, ``execution`` and ``lost`` (bytes, or null); ``end``. The first may be of an
            earlier cursor, and one may be told twice.
    """

    file: str
    cursor: int
    next: int
    total: int
    data: Base64
    entries: list[dict[str, Any]]

    @classmethod
    def of(cls, file: str, piece: Piece) -> PieceAnswer:
        """A piece as it is answered."""
        entries = [{key: value for key, value in entry.items() if key != "file"} for entry in piece.entries]
        data = b64encode(piece.data).decode("ascii")
        return cls(file, piece.cursor, piece.next, piece.total, data, entries)

    @classmethod
    def in_bytes(cls, file: str, piece: Piece) -> bytes:
        """A piece for those who take no Base64: the answer without data in one line, then the bytes."""
        told = replace(cls.of(file, replace(piece, data=b"")), next=piece.next)
        return b"\n".join([encoded(told), piece.data])


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A line that was looked for.

    Attributes:
        cursor: Of its first byte.
        size: Its bytes, the newline included.
        text: What people read of it, without colours; at most its first 2000 characters.
        severity: ``DEBUG``, ``INFO``, ``WARNING``, ``ERROR`` or ``CRITICAL``; null without any, and where the
            search was not for one.
        time: When it arrived, Unix seconds; null where that is not known.
        execution: Which start of the job wrote it; null where that is not known.
    """

    cursor: int
    size: int
    text: str
    severity: str | None
    time: float | None
    execution: int | None

    @classmethod
    def of(cls, line: LogLine) -> FoundLine:
        """A line as it is answered."""
        severity = None if line.severity is None else line.severity.name
        text = plain(line.written)[:MOST_CHARACTERS]
        return cls(line.cursor, line.size, text, severity, line.time, line.execution)


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Lines that were looked for.

    Attributes:
        file: The output.
        lines: In the output's order.
        next: Where to go on: ``cursor`` of a search forwards, ``before`` of one backwards.
        total: The output's length so far in bytes. Forwards, all was searched when ``next`` is there;
            backwards, when it is 0.
    """

    file: str
    lines: list[FoundLine]
    next: int
    total: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request cannot be answered.

    Attributes:
        code: ``bad_request``, ``not_found``, ``not_yet``, ``gone``, ``unsupported``, ``unavailable``.
        message: What is wrong, and why.
        next_step: What to do.
        exists: What there is instead of what was asked for; perhaps only the first or newest of many.
    """

    code: str
    message: str
    next_step: str
    exists: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ProblemAnswer:
    """A request that cannot be answered."""

    error: Problem


def encoded(answer: Any) -> bytes:
    """An answer as JSON, in ASCII: names of files may hold what is not valid text."""
    return json.dumps(asdict(answer), separators=(",", ":")).encode("ascii")


class JsonResponse(Response):
    """JSON that was made elsewhere, in a thread if it is large."""

    media_type = "application/json"

    def __init__(self, content: bytes, status_code: int = 200) -> None:
        super().__init__(content, status_code, HEADERS)
