# SPDX-License-Identifier: Apache-2.0
"""A client of a node's events: what it gets is checked for gaps and repeats as it comes."""

from __future__ import annotations

import http.client
import json
from base64 import b64decode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tests.rigs.covalent_server import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = "/api/v1/joblog"
LOST = (ConnectionError, http.client.HTTPException, TimeoutError)


@dataclass(frozen=True)
class Event:
    """One event; its data is JSON."""

    kind: str
    id: str
    data: Any


def events(server: Any, path: str, last: str | None = None) -> Iterator[Event]:
    """The events of one connection, until the server closes it; a lost one raises one of ``LOST``."""
    connection = http.client.HTTPConnection("localhost", server.port, timeout=30)
    try:
        connection.request("GET", path, headers={"Last-Event-ID": last} if last else {})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        known: dict[str, str] = {}
        while line := response.readline():
            name, _, value = line.decode("ascii").rstrip("\n").partition(": ")
            if name:
                known[name] = value
            elif "data" in known:
                yield Event(known["event"], known.get("id", ""), json.loads(known["data"]))
                known = {}
    finally:
        connection.close()


@dataclass
class Reader:
    """Follows outputs of a node, over as many connections as it takes.

    Attributes:
        path: Of the events.
        last: The id of the last event.
        texts: Output → the bytes so far.
        seen: All events but those with output.
        seams: The seams that were told, each once.
        connections: How many there were.
    """

    server: Any
    path: str
    last: str | None = None
    texts: dict[str, bytes] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    seen: list[Event] = field(default_factory=list)
    seams: list[dict[str, Any]] = field(default_factory=list)
    connections: int = 0

    def take(self, event: Event) -> None:
        """Add what an event brings."""
        self.last = event.id or self.last
        if event.kind != "output":
            self.seen.append(event)
            return
        piece, data = event.data, b64decode(event.data["data"])
        file = piece["file"]
        start = self.starts.setdefault(file, piece["cursor"])
        text = self.texts.get(file, b"")
        assert piece["cursor"] == start + len(text), "a gap or a repeat"
        assert piece["next"] == piece["cursor"] + len(data)
        assert piece["next"] <= piece["total"] or not data
        self.texts[file] = text + data
        for entry in piece["entries"]:
            if "seam" in entry and {"file": file, **entry} not in self.seams:
                self.seams.append({"file": file, **entry})

    def to_end(self) -> Reader:
        """Read until the event ``end``, connecting again as a browser does."""
        while not self.ended:
            self.connections += 1
            try:
                for event in events(self.server, self.path, self.last):
                    self.take(event)
            except LOST:
                eventually(self._answers, 60, "the server")
        return self

    @property
    def ended(self) -> bool:
        """Whether the end was told."""
        return bool(self.seen) and self.seen[-1].kind == "end"

    def _answers(self) -> bool:
        try:
            return bool(self.server.get(f"{ROOT}/health").status == 200)
        except OSError:
            return False


def path_of(dispatch_id: str, node_id: int = 0, what: str = "", **asked: Any) -> str:
    """The path of one of our routes; a list asks for each of its values."""
    query = f"?{urlencode(asked, doseq=True)}" if asked else ""
    return f"{ROOT}/{dispatch_id}/{node_id}{what and '/'}{what}{query}"


def ask(server: Any, path: str, status: int = 200) -> Any:
    """The JSON of one answer."""
    response = server.get(path)
    assert response.status == status, response.body
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-content-type-options"] == "nosniff"
    return json.loads(response.body)


def piece(server: Any, dispatch_id: str, **asked: Any) -> tuple[Any, bytes]:
    """A piece, and its bytes."""
    answer = ask(server, path_of(dispatch_id, what="output", **asked))
    return answer, b64decode(answer["data"])


def downloaded(server: Any, dispatch_id: str, node_id: int = 0, file: str = "stdout") -> bytes:
    """All bytes of an output."""
    response = server.get(path_of(dispatch_id, node_id, "download", file=file))
    assert response.status == 200, response.body
    return bytes(response.body)
