# SPDX-License-Identifier: Apache-2.0
"""Jobs and their output without a Covalent server: from an executor and a handle to a reader.

What is kept beside a node's output is enough to find its job again: the handle its executor announced, the
executor's short name, and those of its options that say where the cluster is. Options that only matter to
whoever submits, such as ``environment``, are not kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import OptionError, OutputNotFound, OutputUnsupported

from .base import JobLogExecutor

if TYPE_CHECKING:
    from covalent_joblog_plugin.model.reader import OutputReader


def open_output(executor: JobLogExecutor, handle: Any) -> OutputReader:
    """A reader of one job's output and result, straight from its cluster; no Covalent server takes part.

    Nothing is sent before the reader is asked. Close it when done.

    Args:
        executor: With the options that lead to the cluster.
        handle: As its executor gave it to ``announce_job``: ``job`` in the answer of
            ``/api/v1/joblog/<dispatch>/<node>``, and in the node's ``joblog/state.json``.

    Raises:
        OptionError: An option cannot work.
        OutputNotFound: The handle is none of this executor's.
        OutputUnsupported: This executor cannot.
    """
    if not isinstance(executor, JobLogExecutor):
        raise OutputUnsupported(
            f"read: {type(executor).__name__} is no JobLogExecutor: only those can be read without a server; "
            "read the node's stored output"
        )
    executor.check_options()
    try:
        return executor.open_output(handle)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, OptionError):
            raise
        raise OutputNotFound(
            f"{handle!r} is no handle of a job of {type(executor).__name__}; take `job` of the node's "
            "joblog/state.json as it is"
        ) from error


_BOUNDS = ("max_log_bytes", "max_node_bytes")
"""Options that whoever goes on storing must heed."""


def kept(executor: JobLogExecutor) -> dict[str, Any]:
    """What is kept of an executor beside the output, so that ``restored`` can make it again; JSON."""
    # A name that an author misspelt must not cost the task.
    names = (*executor.direct_options, *_BOUNDS)
    options = {name: getattr(executor, name) for name in names if hasattr(executor, name)}
    return {"name": executor.short_name(), "options": options}


def restored(known: dict[str, Any]) -> JobLogExecutor:
    """The executor that ``kept`` described; what it does not say is as Covalent's configuration has it.

    Raises:
        OptionError: An option cannot work any more.
        OutputUnsupported: There is no such executor here.
    """
    from covalent.executor import _executor_manager

    name = str(known["name"])
    if name not in _executor_manager.executor_plugins_map:
        raise OutputUnsupported(
            f"read: the node ran on an executor {name!r}, which is not installed here; read its stored "
            "output, or install the executor"
        )
    executor: JobLogExecutor = _executor_manager.get_executor(name)
    options = {option: known["options"][option] for option in known["options"] if hasattr(executor, option)}
    executor.__dict__.update(options)
    executor.check_options()
    return executor
