# SPDX-License-Identifier: Apache-2.0
"""What the server says, as records; it describes its JSON itself, at ``/docs``."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.capabilities import Answer, Capabilities, Capability
from covalent_joblog_plugin.model.records import Seam, SeamKind

if TYPE_CHECKING:
    from covalent_joblog_plugin.model.records import Stream

ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "POSTPROCESSING_FAILED"})
"""Covalent's words for what will not change any more."""
NOT_STARTED = frozenset({"NEW_OBJECT", "PENDING"})
"""Covalent's words for a node that nobody has begun to run."""


@dataclass(frozen=True, slots=True)
class OutputFile:
    """One output of a node.

    Attributes:
        name: What it is asked for by.
        stream: ``stdout``, ``stderr`` or ``log`` (both in one); None for an extra file.
        rank: Whose it is; None for an extra file.
        size: Its length in bytes when the server was asked.
    """

    name: str
    stream: Stream | None
    rank: int | None
    size: int


@dataclass(frozen=True, slots=True)
class SourceState:
    """How the job's files are being read.

    Attributes:
        at: When they last answered, with news or without, Unix seconds; None before the first answer.
        trouble: Why reading fails now, and since when; empty while it does not.
        sources: Output → the file that feeds it now, as its cluster calls it.
    """

    at: float | None
    trouble: str
    sources: dict[str, str]


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node and its output, as they were when the server was asked.

    Attributes:
        dispatch_id: The dispatch.
        node_id: Its number in the dispatch.
        name: The electron's name.
        status: Its status, in Covalent's spelling.
        executor: The short name of its executor.
        sub_dispatch_id: The dispatch it stands for; None unless it is a sublattice that was dispatched.
        state: ``live``: the server writes the output. ``closed``: it is complete, or seams say what is
            missing. ``interrupted``: the server stopped while the job wrote. ``orphaned``: another server
            left the node running, and it stays so. ``absent``: none of this plugin's executors wrote any.
        growing: Whether more may come.
        note: What a reader should know of it; empty mostly.
        trouble: Why output is not stored at present; empty while it is.
        job: What identifies the job on its cluster, as its executor keeps it; None where there is none.
        capabilities: What can be done with the output.
        files: Its outputs.
        reading: How the job's files are being read; None while they are not.
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
    capabilities: Capabilities
    files: list[OutputFile]
    reading: SourceState | None

    @classmethod
    def of(cls, answer: dict[str, Any]) -> NodeInfo:
        """Take an answer of the server."""
        values = _known(cls, answer)
        asked: dict[str, dict[str, str]] = values["capabilities"]
        words = {f.name for f in fields(Capabilities)} & asked.keys()
        values["capabilities"] = Capabilities(
            **{name: Capability(Answer(asked[name]["answer"]), asked[name]["reason"]) for name in words}
        )
        values["files"] = [OutputFile(**_known(OutputFile, file)) for file in values["files"]]
        reading = values["reading"]
        values["reading"] = reading and SourceState(**_known(SourceState, reading))
        return cls(**values)


@dataclass(frozen=True, slots=True)
class NodeName:
    """A node of a dispatch; the attributes are those of ``NodeInfo``."""

    node_id: int
    name: str
    status: str
    executor: str
    sub_dispatch_id: str | None


@dataclass(frozen=True, slots=True)
class DispatchInfo:
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

    @classmethod
    def of(cls, answer: dict[str, Any]) -> DispatchInfo:
        """Take an answer of the server."""
        values = _known(cls, answer)
        values["nodes"] = [NodeName(**_known(NodeName, node)) for node in values["nodes"]]
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of the bytes from a cursor on.

    Attributes:
        cursor: Byte offset in the stored output.
        execution: Which start of the job wrote them.
        arrival: When the first of them arrived, Unix seconds; None for a break.
        seam: The break right before the cursor; None for an arrival.
    """

    cursor: int
    execution: int
    arrival: float | None
    seam: Seam | None

    @classmethod
    def of(cls, answer: dict[str, Any]) -> Entry:
        """Take an entry of the server's index."""
        seam = None
        if "seam" in answer:
            seam = Seam(SeamKind(answer["seam"]), answer["message"], answer["execution"], answer.get("lost"))
        return cls(answer["cursor"], answer["execution"], answer.get("arrival"), seam)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of an output.

    Attributes:
        file: The output.
        cursor: Of the first byte.
        data: The bytes.
        total: The output's length when they were read.
        entries: What is known of them; the first may be of an earlier cursor, and one may be told twice.
    """

    file: str
    cursor: int
    data: bytes
    total: int
    entries: list[Entry] = field(default_factory=list)

    @property
    def next(self) -> int:
        """The cursor behind the last byte."""
        return self.cursor + len(self.data)

    @classmethod
    def of(cls, answer: bytes) -> Piece:
        """Take an answer of the server: a line of JSON, then the bytes."""
        head, _, data = answer.partition(b"\n")
        return cls.told(json.loads(head), data)

    @classmethod
    def told(cls, answer: dict[str, Any], data: bytes | None = None) -> Piece:
        """Take an answer whose bytes are ``data``, or in itself in Base64."""
        values = _known(cls, answer)
        values["data"] = b64decode(values["data"]) if data is None else data
        values["entries"] = [Entry.of(e) for e in values["entries"] if "arrival" in e or "seam" in e]
        return cls(**values)

    def upto(self, end: int) -> Piece:
        """The same without what lies behind ``end``."""
        if self.next <= end:
            return self
        entries = [entry for entry in self.entries if entry.cursor <= end]
        return Piece(self.file, self.cursor, self.data[: max(0, end - self.cursor)], self.total, entries)


def _known(record: Any, answer: dict[str, Any]) -> dict[str, Any]:
    """The values we know of: a newer server may say more."""
    return {f.name: answer[f.name] for f in fields(record)}
