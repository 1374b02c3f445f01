# SPDX-License-Identifier: Apache-2.0
"""Dispatches and nodes from Covalent's results folder alone: neither its server nor its database is asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import BadSelection, OutputNotFound

from .layout import OUR_FOLDER, STATE_FILE
from .state import read_state

if TYPE_CHECKING:
    from pathlib import Path

RESULT_FILE = "results.tobj"
"""Where Covalent keeps a node's value: a TransportableObject in its archive form."""
_DISPATCH = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NODE = re.compile(r"node_(\d{1,9})")
_NAMED = 20
"""Most names of what there is in an error."""


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A node as its folder tells of it; one that no executor of this plugin ran has little to tell.

    Attributes:
        dispatch_id: The dispatch.
        node_id: Its number in the dispatch.
        name: The electron's name; empty where it was stored by an earlier version.
        folder: The node's folder.
        handle: Its job's, as its executor announced it; None where none was submitted.
        executor: What is kept of its executor; None where none was submitted.
        state: What its writer said last of it, in the words of ``NodeState``; empty where there was none.
        writer: The process that writes or wrote its output, see ``state.writer_lives``.
    """

    dispatch_id: str
    node_id: int
    name: str
    folder: Path
    handle: Any
    executor: dict[str, Any] | None
    state: str
    writer: dict[str, Any] | None

    @property
    def result_file(self) -> Path:
        """Where Covalent keeps its value, when it has it."""
        return self.folder / RESULT_FILE

    def __str__(self) -> str:
        named = f" ({self.name})" if self.name else ""
        return f"node {self.node_id}{named} of {self.dispatch_id}"


def find_dispatch(results: Path, asked: str | None) -> str:
    """The id of a dispatch.

    Args:
        results: Covalent's ``dispatcher.results_dir``.
        asked: The beginning of its id; ``latest`` or None for the newest.

    Raises:
        BadSelection: Several begin so.
        OutputNotFound: None does.
        OSError: The folder cannot be read.
    """
    ids = _dispatches(results)
    if asked in {None, "latest"} and ids:
        return ids[0]
    found = [known for known in ids if asked and known.startswith(asked)]
    if len(found) > 1:
        raise BadSelection("dispatch", f"{asked!r} begins {len(found)} ids: {', '.join(found[:_NAMED])}")
    if not found:
        what = f"dispatch that begins with {asked!r}" if asked else "dispatch at all"
        raise OutputNotFound(
            f"{results} has no {what}; it is dispatcher.results_dir of Covalent's configuration here: "
            f"look whether the dispatch's server has another one",
            ids[:_NAMED],
        )
    return found[0]


def find_jobs(results: Path, dispatch_id: str, node: int | str | None) -> list[StoredJob]:
    """The nodes of a dispatch, in the order of their numbers.

    Args:
        results: Covalent's ``dispatcher.results_dir``.
        dispatch_id: The dispatch.
        node: A node's number, its electron's name, or a pattern of names; None for all that had a job.

    Raises:
        OutputNotFound: There is no such node.
        OSError: A folder cannot be read.
    """
    jobs = [_job(dispatch_id, folder) for folder in _nodes(results / dispatch_id)]
    if node is None:
        found = [job for job in jobs if job.handle is not None]
    elif isinstance(node, int):
        found = [job for job in jobs if job.node_id == node]
    else:
        found = [job for job in jobs if fnmatchcase(job.name, node)]
    if not found:
        there = [f"{job.node_id} ({job.name})" for job in jobs if job.handle is not None][:_NAMED]
        what = "node with a job" if node is None else f"node {node!r}"
        raise OutputNotFound(
            f"dispatch {dispatch_id} has no {what} in {results}; with jobs: {', '.join(there) or 'none'}",
            there,
        )
    return found


def _dispatches(results: Path) -> list[str]:
    """Ids, the newest first: a dispatch's folder is changed when its nodes' folders are made."""
    if not results.is_dir():
        raise OutputNotFound(
            f"there is no folder {results}, which is dispatcher.results_dir of Covalent's configuration; run "
            "this where Covalent's server runs, as its user"
        )
    folders = [folder for folder in results.iterdir() if _DISPATCH.fullmatch(folder.name)]
    folders.sort(key=lambda folder: folder.stat().st_mtime_ns, reverse=True)
    return [folder.name for folder in folders]


def _nodes(dispatch: Path) -> list[Path]:
    folders = {int(m[1]): path for path in dispatch.iterdir() if (m := _NODE.fullmatch(path.name))}
    return [folders[number] for number in sorted(folders)]


def _job(dispatch_id: str, folder: Path) -> StoredJob:
    state = read_state(folder / OUR_FOLDER / STATE_FILE) or {}
    known = state.get("remembered", {})
    return StoredJob(
        dispatch_id,
        int(folder.name.removeprefix("node_")),
        str(known.get("name", "")),
        folder,
        known.get("job"),
        known.get("executor"),
        str(state.get("state", "")),
        state.get("writer"),
    )
