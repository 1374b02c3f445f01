# SPDX-License-Identifier: Apache-2.0
"""Covalent's own rows: the only module that imports ``covalent_dispatcher``.

It is imported when the first node is opened, never when a plugin is loaded: then ``covalent`` itself is only
half imported. Everything here blocks on the database and belongs into a thread.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
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
        folder, object_key = local_store.get_uri_components(dispatch_id, node_id, key)
        found[key] = Asset(row, Path(folder).resolve() / object_key, Path(at).resolve() / at_key)
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
