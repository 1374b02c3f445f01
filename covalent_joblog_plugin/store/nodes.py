# SPDX-License-Identifier: Apache-2.0
"""What Covalent's database and our files say of a node, opened or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import StoreError

from .layout import OUR_FOLDER, STATE_FILE
from .state import INSTANCE, STARTED, NodeState, read_state
from .threads import in_database

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from .node_output import NodeOutput
    from .rows import Node

RUNNING = "RUNNING"
TERMINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED"})

open_nodes: dict[tuple[str, int], NodeOutput] = {}
"""The nodes this process writes, by dispatch id and node id."""


def rows() -> ModuleType:
    """Covalent's rows. Importing them brings in the dispatcher: not when a plugin is loaded."""
    from . import rows as module  # noqa: PLC0415 - see above

    return module


async def job_handle(dispatch_id: str, node_id: int) -> Any:
    """The node's own job handle as its executor set it; None where it set none.

    Covalent hands ``cancel`` the handles of several nodes in the wrong order; this one is right.

    Raises:
        StoreError: There is no such node, or the database does not answer.
    """
    return (await in_database(lambda: rows().electron(dispatch_id, node_id))).job_handle


async def node_status(dispatch_id: str, node_id: int) -> str:
    """The node's status in Covalent's spelling.

    Raises:
        StoreError: There is no such node, or the database does not answer.
    """
    return str((await in_database(lambda: rows().electron(dispatch_id, node_id))).status)


async def node_state(dispatch_id: str, node_id: int) -> NodeState:
    """What has become of the node's output, as the server that asks sees it.

    Raises:
        StoreError: There is no such node, or the database does not answer.
        OSError: Its state cannot be read.
    """
    if (node := open_nodes.get((dispatch_id, node_id))) is not None:
        return node.state
    return await in_database(_stored_state, dispatch_id, node_id)


def _stored_state(dispatch_id: str, node_id: int) -> NodeState:
    dispatch = rows().dispatch(dispatch_id, node_id)
    if dispatch is None or node_id not in dispatch.nodes:
        raise StoreError(f"dispatch {dispatch_id} has no node {node_id} in Covalent's database")
    node = dispatch.nodes[node_id]
    folder = own_folder(node)
    return judged(read_state(folder / STATE_FILE) if folder else None, node.status, dispatch.started)


def own_folder(node: Node) -> Path | None:
    """Our folder of a node, whether it exists or not; None while it has no files of its own."""
    asset = node.assets.get("stdout")
    # The files of a redispatched node that has not begun are the old dispatch's.
    if asset is None or (asset.points_at != asset.path and node.status not in TERMINAL):
        return None
    return asset.points_at.parent / OUR_FOLDER


def judged(state: dict[str, Any] | None, status: str, started: float | None) -> NodeState:
    """What has become of the output of a node that this process does not write.

    Args:
        state: What its ``state.json`` holds; None where there is none.
        status: The node's status, in Covalent's spelling.
        started: When its dispatch was started, Unix seconds; None where it was not.
    """
    if state is None:
        # Covalent never goes on with a dispatch that an earlier server had started.
        left = status not in TERMINAL and started is not None and started < STARTED
        return NodeState.ORPHANED if left else NodeState.ABSENT
    if state["instance"] != INSTANCE and status == RUNNING:
        # Also where its output is complete: read to its end without a server, or just before that was killed.
        return NodeState.ORPHANED
    if state["state"] == NodeState.CLOSED:
        return NodeState.CLOSED
    if state["instance"] != INSTANCE:
        return NodeState.INTERRUPTED
    # Not open here and yet live: it was closed, and the disk had no room to say so.
    return NodeState.INTERRUPTED if state["state"] == NodeState.INTERRUPTED else NodeState.CLOSED
