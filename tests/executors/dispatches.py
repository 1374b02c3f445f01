# SPDX-License-Identifier: Apache-2.0
"""Dispatching lattices to a server of the tests, and looking at their nodes while they run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.rigs.covalent_server import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.rigs.covalent_server import CovalentServer

DISPATCH = """
import covalent as ct
answer = ct.dispatch(flow, disable_run=False)()
"""

SNAPSHOT = """
import covalent as ct
result = ct.get_result(dispatch_id, wait=False)
nodes = [result.get_node_result(n) for n in nodes]
answer = {
    "status": str(result.status),
    "nodes": [
        {"status": str(n["status"]), "stdout": n["stdout"], "stderr": n["stderr"], "error": n["error"]}
        for n in nodes
    ],
}
"""


def dispatch(server: CovalentServer, script: str, **values: Any) -> str:
    """Run ``script``, which defines the lattice ``flow``, in a client and dispatch it; its id."""
    return str(server.client(script + DISPATCH, **values))


def snapshot(server: CovalentServer, dispatch_id: str, *nodes: int) -> dict[str, Any]:
    """What ``ct.get_result(dispatch_id, wait=False)`` says of the nodes now, in a fresh client."""
    return dict(server.client(SNAPSHOT, dispatch_id=dispatch_id, nodes=list(nodes)))


def node(server: CovalentServer, dispatch_id: str, node_id: int) -> dict[str, Any]:
    """One node's status, stdout, stderr and error."""
    return dict(snapshot(server, dispatch_id, node_id)["nodes"][0])


def electron_ids(server: CovalentServer, dispatch_id: str, name: str) -> list[int]:
    """The node ids of the electrons of that name."""
    graph = json.loads(server.get(f"/api/v1/dispatches/{dispatch_id}/graph").body)["graph"]
    return [node["node_id"] for node in graph["nodes"] if node["name"] == name]


def cancel(server: CovalentServer, dispatch_id: str, *nodes: int) -> None:
    """``ct.cancel`` of these nodes, or of the whole dispatch."""
    server.client(
        "import covalent as ct\nanswer = ct.cancel(dispatch_id, task_ids=nodes or None)",
        dispatch_id=dispatch_id,
        nodes=list(nodes),
    )


def electron(server: CovalentServer, dispatch_id: str, node_id: int) -> dict[str, Any]:
    """What the server says of a node without loading its text."""
    body = server.get(f"/api/v1/dispatches/{dispatch_id}/electron/{node_id}").body
    return dict(json.loads(body))


def wait_for_text(
    server: CovalentServer,
    dispatch_id: str,
    node_id: int,
    enough: Callable[[bytes], bool],
    stream: str = "stdout",
    timeout: float = 60,
) -> bytes:
    """The node's text, as served, as soon as there is ``enough`` of it."""

    def look() -> bytes | None:
        response = server.get(f"/api/v0/files/{dispatch_id}/node_{node_id}/{stream}.log")
        return bytes(response.body) if response.status == 200 and enough(response.body) else None

    return bytes(eventually(look, timeout, f"enough text of node {node_id}'s {stream}"))
