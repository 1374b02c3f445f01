# SPDX-License-Identifier: Apache-2.0
"""What there is to say of a node and its output, of whatever executor."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.capabilities import Answer, Capabilities, Capability
from covalent_joblog_plugin.model.errors import OutputNotFound, OutputNotYet
from covalent_joblog_plugin.store.node_output import NodeOutput, NodeState
from covalent_joblog_plugin.store.nodes import open_nodes
from covalent_joblog_plugin.store.reading import OutputName, known_dispatch, outputs_of, will_begin

from .answers import NodeAnswer, OutputFile, SourceState

if TYPE_CHECKING:
    from covalent_joblog_plugin.store.items import Reading
    from covalent_joblog_plugin.store.reading import StoredNode
    from covalent_joblog_plugin.store.rows import Dispatch, Node
    from covalent_joblog_plugin.store.views import Snapshot


def snapshot_of(dispatch_id: str, node_id: int, file: str) -> Snapshot:
    """One output as it is now; blocks on the disk.

    Raises:
        OutputNotFound: There is no such dispatch or node, or it has ended without such an output.
        OutputNotYet: The node has no such output yet.
        StoreError: The database does not answer.
        OSError: It cannot be read.
    """
    found = open_nodes.get((dispatch_id, node_id))
    if found is not None and (snapshot := found.snapshot(file)) is not None:
        return snapshot
    known = known_dispatch(dispatch_id, node_id)
    row = known.nodes[node_id]
    output = outputs_of(dispatch_id, known, row)
    growing = is_growing(known, row, output)
    if (snapshot := output.snapshot(file)) is not None:
        return snapshot
    names = list(output.sizes())
    if growing:
        raise OutputNotYet(f"node {node_id} of {dispatch_id} has no output {file!r} yet; it has {names}")
    raise OutputNotFound(f"node {node_id} of {dispatch_id} has no output {file!r}", names)


def is_growing(dispatch: Dispatch, node: Node, output: NodeOutput | StoredNode) -> bool:
    """Whether more output may come; asked before the output is read, so that no means all is there."""
    return output.state is NodeState.LIVE or will_begin(dispatch, node, output.state)


def reading_of(output: NodeOutput | StoredNode) -> Reading | None:
    """How the node's sources are being read, if they are; for the event loop."""
    return output.reading() if isinstance(output, NodeOutput) and output.reading else None


def describe(
    dispatch_id: str, dispatch: Dispatch, node: Node, output: NodeOutput | StoredNode, reading: Reading | None
) -> NodeAnswer:
    """Everything known of a node; blocks on the disk.

    Raises:
        OSError: Its folder cannot be read.
    """
    growing = is_growing(dispatch, node, output)
    known: dict[str, Any] = output.remembered
    trouble = output.trouble if isinstance(output, NodeOutput) and growing else None
    return NodeAnswer(
        dispatch_id=dispatch_id,
        node_id=node.node_id,
        name=node.name,
        status=node.status,
        executor=node.executor,
        sub_dispatch_id=node.sub_dispatch_id,
        state=output.state.value,
        growing=growing,
        note=str(known.get("note") or known.get("fallback", "")),
        trouble=str(trouble or ""),
        job=known.get("job"),
        capabilities=known.get("capabilities") or _capabilities(node, output.state, growing),
        files=[_file(name, size) for name, size in output.sizes().items()],
        reading=SourceState(reading.at, reading.trouble, reading.sources) if reading else None,
    )


def essence(answer: NodeAnswer) -> NodeAnswer:
    """The same without what changes all the time: who follows a node is told of the rest at once."""
    files = [replace(file, size=0) for file in answer.files]
    return replace(answer, files=files, reading=answer.reading and replace(answer.reading, at=None))


def _file(name: str, size: int) -> OutputFile:
    said = OutputName.of(name)
    return OutputFile(name, said.stream, said.rank, size)


def _capabilities(node: Node, state: NodeState, growing: bool) -> dict[str, dict[str, str]]:
    """Of a node whose executor has told us nothing."""
    if growing:
        follow = Capability(
            Answer.UNKNOWN, f"nothing is written yet, and it depends on the executor {node.executor!r}"
        )
    elif state is NodeState.ABSENT:
        follow = Capability(Answer.NO, f"the executor {node.executor!r} hands its output over at the end")
    else:
        follow = Capability(Answer.NO, "the server that ran the task has ended")
    unknown = Capability(Answer.UNKNOWN, f"the executor {node.executor!r} does not say")
    return Capabilities(follow=follow, truncation=unknown, complete=unknown).to_json()
