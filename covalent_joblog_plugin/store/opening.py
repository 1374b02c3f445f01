# SPDX-License-Identifier: Apache-2.0
"""Makes a node's files and points its rows at them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import StoreError

from .layout import OUR_FOLDER, make_folder
from .news import tell
from .nodes import open_nodes, rows
from .outputs import TextOutput

if TYPE_CHECKING:
    from .node_output import NodeOutput


def open_node(
    kind: type[NodeOutput], dispatch_id: str, node_id: int, max_node_bytes: int, min_free: int
) -> NodeOutput:
    """See ``NodeOutput.open``; blocks on disk and database."""
    key = (dispatch_id, node_id)
    if key in open_nodes:
        raise StoreError(f"node {node_id} of {dispatch_id} is being written already; close it first")
    electron = rows().electron(*key)
    assets = rows().assets(*key, electron.row)
    folder = assets["stdout"].path.parent / OUR_FOLDER
    try:
        if not folder.parent.exists():
            folder.parent.parent.mkdir(parents=True, exist_ok=True)
            make_folder(folder.parent)
        make_folder(folder)
        node = kind(*key, electron.name, folder, min_free)
        for name, asset in assets.items():
            node.add(name, TextOutput(name, asset.path, folder, max_node_bytes), asset.row)
        node.save_state()
    except (OSError, ValueError) as error:
        raise StoreError(f"the output of node {node_id} of {dispatch_id} cannot be kept: {error}") from error
    rows().point_home(*key, node.asset_lengths())
    node.show()
    open_nodes[key] = node
    tell(key)
    return node
