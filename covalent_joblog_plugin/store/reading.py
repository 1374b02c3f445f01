# SPDX-License-Identifier: Apache-2.0
"""Stored output for those who only read: of any node, whoever wrote it, or writes it now.

Nothing here makes, changes or removes a file. Everything blocks on disk or database: use ``in_reader``.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from covalent_joblog_plugin.model.errors import OutputNotFound

from .index_view import IndexView
from .layout import INDEX_FILE, STATE_FILE, STREAMS, file_names, find_rest, stored_sizes
from .nodes import TERMINAL, judged, open_nodes, own_folder, rows
from .sanitise import UNFINISHED_BYTES, unfinished
from .state import NodeState, read_state
from .views import Part, Snapshot, View, file_length, read_file

if TYPE_CHECKING:
    from pathlib import Path

    from covalent_joblog_plugin.model.records import Stream

    from .node_output import NodeOutput
    from .rows import Dispatch, Node

FRESH = 1.0
_watched: dict[str, tuple[float, Dispatch]] = {}
_watching = threading.Lock()
_RANK = re.compile(r"rank([1-9]\d{0,8})\.(stdout|stderr|log)", re.ASCII)
_LINE_BYTES = 16 * 1024
_NAMED = 20
"""Most names of what there is in an error."""


@dataclass(frozen=True, slots=True)
class StoredNode:
    """The output of a node that this process does not write.

    Attributes:
        state: What has become of it.
        remembered: What is kept beside the output.
    """

    state: NodeState
    remembered: dict[str, Any] = field(default_factory=dict)
    _folder: Path | None = None
    _assets: dict[str, Path] = field(default_factory=dict)

    def sizes(self) -> dict[str, int]:
        """What its outputs are called, and how long they are in bytes.

        Raises:
            OSError: Our folder or its index cannot be read.
        """
        beside = stored_sizes(self._folder, self._index()) if self._folder else {}
        own = {name: self._text(name).total if name in self._assets else 0 for name in STREAMS}
        return {**own, **beside, **own}

    def snapshot(self, file: str) -> Snapshot | None:
        """One output as it is now; None where there is none.

        Raises:
            OSError: It cannot be read.
        """
        if file in STREAMS:
            view = self._text(file) if file in self._assets else View()
            return Snapshot(self.state, view, self._index())
        raw = self._raw(file)
        return None if raw is None else Snapshot(self.state, View((raw,)), self._index())

    def _text(self, file: str) -> View:
        asset = self._assets[file]
        shown = Part(0, asset, file_length(asset))
        rest = find_rest(self._folder, file) if self._folder else None
        # A rest that begins behind the asset is a piece that was never complete.
        if rest is None or rest[0] > shown.length:
            return View((self._settled(shown),))
        start, path = rest
        return View((replace(shown, length=start), Part(start, path, file_length(path))))

    def _raw(self, file: str) -> Part | None:
        if self._folder is None:
            return None
        paths = (self._folder / "files" / name for name in file_names(file))
        return next((Part(0, path, file_length(path)) for path in paths if path.exists()), None)

    def _settled(self, part: Part) -> Part:
        """Without the character that a killed server left half written, as the asset is served."""
        if self.state in (NodeState.CLOSED, NodeState.ABSENT) or not part.length:
            return part
        start = max(0, part.length - UNFINISHED_BYTES)
        tail = read_file(part.path, start, part.length - start)
        return replace(part, length=part.length - unfinished(tail))

    def _index(self) -> IndexView | None:
        if self._folder is None:
            return None
        path = self._folder / INDEX_FILE
        length = file_length(path)
        if not length:
            return None
        start = max(0, length - _LINE_BYTES)
        # A killed server may have left half a line.
        tail = read_file(path, start, length - start)
        return IndexView(path, start + tail.rfind(b"\n") + 1)


@dataclass(frozen=True, slots=True)
class OutputName:
    """What the name of an output says.

    Attributes:
        stream: ``stdout``, ``stderr`` or ``log`` (both in one); None for an extra file.
        rank: Whose it is; None for an extra file.
    """

    stream: Stream | None
    rank: int | None

    @classmethod
    def of(cls, name: str) -> OutputName:
        """Take a name apart."""
        if name in STREAMS:
            return cls(cast("Stream", name), 0)
        match = _RANK.fullmatch(name)
        return cls(cast("Stream", match[2]), int(match[1])) if match else cls(None, None)


def find(dispatch_id: str, node_id: int) -> NodeOutput | StoredNode:
    """The output of a node, to be read.

    Raises:
        OutputNotFound: There is no such dispatch or node.
        StoreError: The database does not answer.
    """
    if (node := open_nodes.get((dispatch_id, node_id))) is not None:
        return node
    dispatch = known_dispatch(dispatch_id, node_id)
    return outputs_of(dispatch_id, dispatch, dispatch.nodes[node_id])


def known_dispatch(dispatch_id: str, node_id: int | None = None) -> Dispatch:
    """What Covalent's database says of a dispatch and of all its nodes or one; raises as ``find`` does."""
    dispatch: Dispatch | None = rows().dispatch(dispatch_id, node_id)
    if dispatch is None:
        raise OutputNotFound(
            f"this server knows no dispatch {dispatch_id}; the newest it knows are listed",
            rows().newest_dispatches(_NAMED),
        )
    if node_id is not None and node_id not in dispatch.nodes:
        exists = rows().node_ids(dispatch_id, _NAMED)
        raise OutputNotFound(f"dispatch {dispatch_id} has no node {node_id}", [str(n) for n in exists])
    return dispatch


def watched_dispatch(dispatch_id: str) -> Dispatch:
    """The same of all nodes, up to ``FRESH`` seconds old: however many wait for them, it is asked once."""
    with _watching:
        now = time.monotonic()
        for known in [key for key, (asked, _) in _watched.items() if now - asked > FRESH]:
            del _watched[known]
        if dispatch_id not in _watched:
            dispatch = known_dispatch(dispatch_id)
            _watched[dispatch_id] = (time.monotonic(), dispatch)
        return _watched[dispatch_id][1]


def outputs_of(dispatch_id: str, dispatch: Dispatch, node: Node) -> NodeOutput | StoredNode:
    """The output of a node whose rows are known."""
    if (written := open_nodes.get((dispatch_id, node.node_id))) is not None:
        return written
    folder = own_folder(node)
    remembered: dict[str, Any] = {}
    try:
        state = read_state(folder / STATE_FILE) if folder else None
        judgement = judged(state, node.status, dispatch.started)
        remembered = (state or {}).get("remembered", {})
    except (OSError, ValueError, KeyError) as error:
        # Its bytes can be read all the same.
        judgement, remembered = (
            NodeState.INTERRUPTED,
            {"note": f"what became of it cannot be read: {error!r}"},
        )
    if folder is None:
        return StoredNode(judgement)
    ours = folder if folder.is_dir() and not folder.is_symlink() else None
    return StoredNode(judgement, remembered, ours, {key: a.points_at for key, a in node.assets.items()})


def will_begin(dispatch: Dispatch, node: Node, state: NodeState) -> bool:
    """Whether a node that this process does not write may still have output one day."""
    if state is not NodeState.ABSENT or node.status in TERMINAL:
        return False
    # What never started stays so when its dispatch has ended without it.
    return not (dispatch.status in TERMINAL and node.status == "NEW_OBJECT")
