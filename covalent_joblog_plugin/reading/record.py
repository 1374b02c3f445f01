# SPDX-License-Identifier: Apache-2.0
"""What Covalent itself keeps of the nodes of a dispatch: times, the executor's options, the error."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from .client import Server

_MOST_BYTES = 256 * 1024
"""So much of an error's text is read."""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """What Covalent's manifest says of a node.

    Attributes:
        started: When it began, Unix seconds; None before that.
        ended: When it ended, Unix seconds; None before that.
        options: The options of its executor.
        error_path: Where the server serves its error; empty where there is none.
    """

    started: float | None
    ended: float | None
    options: dict[str, Any]
    error_path: str


async def records(server: Server, dispatch_id: str) -> dict[int, NodeRecord]:
    """The records of a dispatch's nodes, by their numbers.

    Raises:
        OutputNotFound: There is no such dispatch.
        TransportError: The server does not answer.
    """
    manifest = await server.ask(f"/api/v2/dispatches/{dispatch_id}")
    nodes = manifest["lattice"]["transport_graph"]["nodes"]
    return {int(node["id"]): _record(node) for node in nodes}


async def error_of(server: Server, record: NodeRecord) -> str:
    """Why a node failed, as its executor said it; empty where nobody did.

    Raises:
        TransportError: The server does not answer.
    """
    if not record.error_path:
        return ""
    data = b"".join([part async for part in server.body(record.error_path, {}, 0, _MOST_BYTES)])
    return data.decode("utf-8", "replace").strip()


def _record(node: dict[str, Any]) -> NodeRecord:
    known, error = node["metadata"], node["assets"].get("error") or {}
    # The address is that of Covalent's configuration; we have reached the server already.
    path = urlsplit(error.get("remote_uri") or "").path if error.get("size") else ""
    options = (known.get("executor_data") or {}).get("attributes") or {}
    return NodeRecord(_unix(known.get("start_time")), _unix(known.get("end_time")), options, path)


def _unix(time: str | None) -> float | None:
    """Covalent keeps times in UTC and does not say so."""
    return datetime.fromisoformat(time).replace(tzinfo=timezone.utc).timestamp() if time else None
