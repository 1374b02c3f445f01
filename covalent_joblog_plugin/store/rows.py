# SPDX-License-Identifier: Apache-2.0
"""Covalent's own rows: the only module that imports ``covalent_dispatcher``.

It is imported when the first node is opened, never when a plugin is loaded: then ``covalent`` itself is only
half imported. Everything here blocks on the database and belongs into a thread.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from covalent_dispatcher._db.datastore import workflow_db
from covalent_dispatcher._object_store.local import local_store
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from covalent_joblog_plugin.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds for which a locked database is tried again; Covalent itself gives up after five."""

_NODE = text(
    "SELECT e.id, e.name, e.status, j.job_handle FROM electrons e"
    " JOIN lattices l ON l.id = e.parent_lattice_id JOIN jobs j ON j.id = e.job_id"
    " WHERE l.dispatch_id = :dispatch AND e.transport_graph_node_id = :node"
)
_ASSETS = text(
    "SELECT a.id, k.key, a.storage_type, a.storage_path, a.object_key FROM electron_assets k"
    " JOIN assets a ON a.id = k.asset_id WHERE k.meta_id = :electron AND k.key IN ('stdout', 'stderr')"
)
_DISPATCH = text("SELECT id, name, status, started_at FROM lattices WHERE dispatch_id = :dispatch")
_NODES = text(
    "SELECT e.id, e.transport_graph_node_id, e.name, e.status, e.executor,"
    " (SELECT s.dispatch_id FROM lattices s WHERE s.electron_id = e.id ORDER BY s.id DESC LIMIT 1)"
    " FROM electrons e WHERE e.parent_lattice_id = :lattice AND :node IN (-1, e.transport_graph_node_id)"
    " ORDER BY e.transport_graph_node_id"
)
_NODES_ASSETS = text(
    "SELECT e.transport_graph_node_id, a.id, k.key, a.storage_type, a.storage_path, a.object_key"
    " FROM electrons e JOIN electron_assets k ON k.meta_id = e.id JOIN assets a ON a.id = k.asset_id"
    " WHERE e.parent_lattice_id = :lattice AND :node IN (-1, e.transport_graph_node_id)"
    " AND k.key IN ('stdout', 'stderr')"
)
_NODE_IDS = text(
    "SELECT e.transport_graph_node_id FROM electrons e JOIN lattices l ON l.id = e.parent_lattice_id"
    " WHERE l.dispatch_id = :dispatch ORDER BY e.transport_graph_node_id LIMIT :most"
)
_NEWEST = text("SELECT dispatch_id FROM lattices ORDER BY id DESC LIMIT :most")
_HOME = text(
    "UPDATE assets SET storage_path = :path, object_key = :key, size = :size,"
    " digest = NULL, digest_alg = NULL, remote_uri = '' WHERE id = :id"
)
_SIZE = text("UPDATE assets SET size = :size WHERE id = :id")


@dataclass(frozen=True, slots=True)
class Electron:
    """A node's row.

    Attributes:
        row: Its primary key.
        name: The electron's name.
        status: Its status, in Covalent's spelling.
        handle: Its job handle, JSON.
    """

    row: int
    name: str
    status: str
    handle: str

    @property
    def job_handle(self) -> Any:
        """The job handle as the executor set it; None where it did not."""
        return json.loads(self.handle)


@dataclass(frozen=True, slots=True)
class Asset:
    """A node's stdout or stderr.

    Attributes:
        row: Primary key of the asset row.
        path: Where this dispatch's own file is, or will be.
        points_at: Where the row says it is; a redispatch starts with the old dispatch's.
    """

    row: int
    path: Path
    points_at: Path


@dataclass(frozen=True, slots=True)
class Node:
    """What the database says of a node to those who read it.

    Attributes:
        node_id: Its number in the dispatch.
        name: The electron's name.
        status: Its status, in Covalent's spelling.
        executor: The short name of its executor.
        sub_dispatch_id: The dispatch it stands for; None unless it is a sublattice that was dispatched.
        assets: ``stdout`` and ``stderr`` by these names; without what Covalent does not keep in files.
    """

    node_id: int
    name: str
    status: str
    executor: str
    sub_dispatch_id: str | None
    assets: dict[str, Asset] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dispatch:
    """What the database says of a dispatch.

    Attributes:
        name: The lattice's name.
        status: Its status, in Covalent's spelling.
        started: When it was started, Unix seconds; None where it was not.
        nodes: Its nodes, or the one that was asked for, by their numbers.
    """

    name: str
    status: str
    started: float | None
    nodes: dict[int, Node]


def dispatch(dispatch_id: str, node_id: int | None = None) -> Dispatch | None:
    """A dispatch with all its nodes, or the one of that number if there is one; None where there is none.

    Raises:
        StoreError: The database does not answer.
    """
    return patiently(lambda: _dispatch(dispatch_id, -1 if node_id is None else node_id), dispatch_id)


def _dispatch(dispatch_id: str, node_id: int) -> Dispatch | None:
    with workflow_db.session() as session:
        row = session.execute(_DISPATCH, {"dispatch": dispatch_id}).first()
        if row is None:
            return None
        wanted = {"lattice": row.id, "node": node_id}
        nodes = {number: Node(number, *rest) for _, number, *rest in session.execute(_NODES, wanted)}
        for number, asset_row, key, kind, at, at_key in session.execute(_NODES_ASSETS, wanted):
            if kind == local_store.scheme:
                nodes[number].assets[key] = _asset(dispatch_id, number, key, asset_row, at, at_key)
    started = row.started_at and datetime.fromisoformat(row.started_at).replace(tzinfo=timezone.utc)
    return Dispatch(row.name, row.status, started.timestamp() if started else None, nodes)


def _asset(dispatch_id: str, node_id: int, key: str, row: int, at: str, at_key: str) -> Asset:
    folder, object_key = local_store.get_uri_components(dispatch_id, node_id, key)
    return Asset(row, Path(folder).resolve() / object_key, Path(at).resolve() / at_key)


def node_ids(dispatch_id: str, most: int) -> list[int]:
    """The numbers of a dispatch's nodes, at most so many; raises as ``dispatch`` does."""
    return _column(_NODE_IDS, {"dispatch": dispatch_id, "most": most})


def newest_dispatches(most: int) -> list[str]:
    """The ids of the newest dispatches, at most so many; raises as ``dispatch`` does."""
    return _column(_NEWEST, {"most": most})


def _column(statement: Any, values: dict[str, Any]) -> list[Any]:
    def ask() -> list[Any]:
        with workflow_db.session() as session:
            return [row[0] for row in session.execute(statement, values)]

    return patiently(ask, "what there is")


def electron(dispatch_id: str, node_id: int) -> Electron:
    """The node's row.

    Raises:
        StoreError: There is none, or the database does not answer.
    """
    return patiently(lambda: _electron(dispatch_id, node_id), f"node {node_id} of {dispatch_id}")


def _electron(dispatch_id: str, node_id: int) -> Electron:
    with workflow_db.session() as session:
        row = session.execute(_NODE, {"dispatch": dispatch_id, "node": node_id}).first()
    if row is None:
        raise StoreError(
            f"dispatch {dispatch_id} has no node {node_id} in Covalent's database; check the dispatch id"
        )
    return Electron(*row)


def assets(dispatch_id: str, node_id: int, electron_row: int) -> dict[str, Asset]:
    """The assets of stdout and stderr by these names.

    Raises:
        StoreError: Covalent keeps them elsewhere than in files, or the database does not answer.
    """
    where = f"assets of node {node_id} of {dispatch_id}"
    rows = patiently(lambda: _assets(electron_row), where)
    found = {}
    for row, key, kind, at, at_key in rows:
        if kind != local_store.scheme:
            raise StoreError(f"{where}: storage type {kind!r}; only files ({local_store.scheme!r}) can grow")
        found[key] = _asset(dispatch_id, node_id, key, row, at, at_key)
    if len(found) != 2:
        raise StoreError(f"{where}: stdout and stderr expected, {sorted(found)} found in Covalent's database")
    return found


def _assets(electron_row: int) -> list[Any]:
    with workflow_db.session() as session:
        return list(session.execute(_ASSETS, {"electron": electron_row}))


def point_home(dispatch_id: str, node_id: int, lengths: dict[str, tuple[int, int]]) -> None:
    """Point the rows at this dispatch's own files.

    Args:
        dispatch_id: The dispatch.
        node_id: The node.
        lengths: For ``stdout`` and ``stderr``, the asset's row and the file's length in bytes.

    Raises:
        StoreError: The database does not answer.
    """
    values = []
    for name, (row, length) in lengths.items():
        folder, object_key = local_store.get_uri_components(dispatch_id, node_id, name)
        values.append({"id": row, "path": folder, "key": object_key, "size": length})
    patiently(lambda: _execute(_HOME, values), f"assets of node {node_id} of {dispatch_id}")


def set_sizes(sizes: Iterable[tuple[int, int]]) -> None:
    """Record lengths of asset files (row, bytes) in one short transaction.

    Raises:
        OperationalError: The database is locked or does not answer.
    """
    _execute(_SIZE, [{"id": row, "size": size} for row, size in sizes])


def _execute(statement: Any, values: list[dict[str, Any]]) -> None:
    with workflow_db.session() as session:
        session.execute(statement, values)


def patiently(action: Callable[[], T], what: str) -> T:
    """``action()``, again while the database is locked.

    Raises:
        StoreError: It was locked for ``PATIENCE`` seconds.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return action()
        except OperationalError as error:
            if time.monotonic() > deadline:
                raise StoreError(
                    f"{what}: Covalent's database does not answer ({error.orig}); see who holds it locked"
                ) from error
            time.sleep(0.2)
