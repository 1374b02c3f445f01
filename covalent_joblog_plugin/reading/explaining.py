# SPDX-License-Identifier: Apache-2.0
"""Why there is nothing to show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .answers import ENDED, NOT_STARTED

if TYPE_CHECKING:
    from .answers import NodeInfo
    from .evaluation import Evaluation


def why_nothing(evaluation: Evaluation) -> str:
    """Why an evaluation that was read shows nothing, and what to do."""
    if rejected := evaluation.rejected:
        total = sum(rejected.values())
        by = ", ".join(f"{option} leaves out {count}" for option, count in rejected.most_common())
        return f"none of {total} lines passes: {by}"
    if len(evaluation.nodes) == 1:
        node = evaluation.nodes[0]
        return f"node {node.node_id} ({node.name}) is {node.status}: {_of_node(node)}"
    waiting = sum(node.status in NOT_STARTED for node in evaluation.nodes)
    others = [f"{node.name} {_others(node)}" for node in evaluation.nodes if _others(node)]
    said = f"{len(evaluation.nodes)} nodes, {waiting} of them not started, have written nothing there"
    return f"{said}; {'; '.join(others[:3])}" if others else said


def _of_node(node: NodeInfo) -> str:
    if node.trouble:
        return f"its output is not stored at present: {node.trouble}"
    if node.reading and node.reading.trouble:
        return f"its files cannot be read: {node.reading.trouble}"
    if others := _others(node):
        return f"nothing was written there; {others}"
    return node.note or why_no_output(node)


def why_no_output(node: NodeInfo) -> str:
    """Why a node has written nothing at all."""
    if node.status in NOT_STARTED:
        return "it waits for the results of other nodes" if node.growing else "it was never started"
    if node.state == "orphaned":
        return "its server was stopped before it had written anything"
    if node.status in ENDED:
        return "it wrote nothing"
    reason = node.capabilities.follow.reason
    return f"nothing is here yet; {reason}" if reason else "it runs and has written nothing yet"


def _others(node: NodeInfo) -> str:
    """Where there is something instead."""
    others = [file for file in node.files if file.size]
    return ", ".join(f"{file.name} has {file.size} bytes (ask for the file {file.name!r})" for file in others)
