# SPDX-License-Identifier: Apache-2.0
"""Nodes that Covalent makes of lists, dicts, subscripts and attributes of electrons.

They carry the electron's executor, so one electron with a list, a dict and two subscripts would be several
cluster jobs. They only pick or collect values: a child process of the server does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalent._shared_files.config import get_config

from covalent_joblog_plugin.model.errors import PayloadError
from covalent_joblog_plugin.payload import bundle
from covalent_joblog_plugin.payload.verdict import CannotBegin

from .joblog_local import LocalJobLogExecutor

__all__ = ["CannotBegin", "local_stand_in"]

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalent_joblog_plugin.payload.bundle import Call
    from covalent_joblog_plugin.store.node_output import NodeOutput

    from .base import JobLogExecutor

COLLECTION_NODES = (":electron_list:", ":electron_dict:")
"""What Covalent calls the nodes it makes of lists and dicts."""


class _InServer(LocalJobLogExecutor):
    """Picks or collects values in a child process of the server."""

    def take_apart(self, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Call:
        """Without the dependencies that the node inherits from its electron: they prepare the cluster."""
        return super().take_apart(function, args, kwargs).without_hooks()


def local_stand_in(
    executor: JobLogExecutor,
    function: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    output: NodeOutput | None,
) -> JobLogExecutor | None:
    """An executor that runs this node in a child process, where it is a helper node; else None."""
    if executor.helper_nodes != "local" or output is None:
        return None
    try:
        call = bundle.take_apart(function, args, kwargs)
    except PayloadError:
        return None  # an executor of its own kind may know what to do with it
    if not call.is_helper_candidate:
        return None
    if not call.name.startswith(":") and output.node_name not in COLLECTION_NODES:
        return None
    # It reads no files: any folder that is there will do, and the home folder need not be writable.
    stand_in = _InServer(max_log_bytes=executor.max_log_bytes, workdir=get_config("dispatcher.cache_dir"))
    stand_in.__dict__.update(_send_queue=executor._send_queue, _recv_queue=executor._recv_queue)  # noqa: SLF001
    return stand_in
