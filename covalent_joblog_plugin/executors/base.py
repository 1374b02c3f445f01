# SPDX-License-Identifier: Apache-2.0
"""``JobLogExecutor``: what an executor author inherits from to have live output.

Imported in every process that imports Covalent, while Covalent is half imported itself: the rooms below are
imported when a task runs, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalent._shared_files.util_classes import RESULT_STATUS
from covalent.executor.base import AsyncBaseExecutor
from covalent.executor.schemas import TaskUpdate
from covalent.executor.utils import Signals

from covalent_joblog_plugin.model.errors import JobLogError

from . import options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from covalent_joblog_plugin.model.capabilities import Capabilities
    from covalent_joblog_plugin.model.reader import OutputReader
    from covalent_joblog_plugin.model.records import FileRef, FileStat
    from covalent_joblog_plugin.model.source import DeltaSource

    from .session import Session


class JobLogExecutor(AsyncBaseExecutor):
    """An executor whose task's output is in the node's result while the task runs.

    A subclass implements ``get_files_to_monitor``, ``poll_file`` and ``run``, and has all of it.

    Args:
        log_files: Extra files to show with the node; what a name means is the subclass's business.
        log_interval: Seconds between two polls where nothing tells of news.
        final_read_timeout: Longest time, in seconds, to read on after the job's end.
        max_log_bytes: Bytes kept of each of the node's outputs.
        max_node_bytes: Bytes of stdout and stderr in Covalent's own asset, which its client loads whole; what
            is beyond is kept beside it.
        helper_nodes: ``"local"`` runs the nodes that Covalent makes of lists, dicts, subscripts and
            attributes of electrons in a child process of the server; ``"cluster"`` as jobs of their own.
        time_limit: Seconds the task may run; -1 for no limit.
    """

    def __init__(
        self,
        log_files: Iterable[str] = (),
        log_interval: float = 5,
        final_read_timeout: float = 60,
        max_log_bytes: int = 1 << 30,
        max_node_bytes: int = 64 << 20,
        helper_nodes: str = "local",
        time_limit: int = -1,
        **unknown: Any,
    ) -> None:
        options.refuse_unknown(type(self), unknown, self.renamed_options)
        super().__init__(time_limit=time_limit)
        self.log_files = [log_files] if isinstance(log_files, str) else list(log_files)
        self.log_interval = log_interval
        self.final_read_timeout = final_read_timeout
        self.max_log_bytes = max_log_bytes
        self.max_node_bytes = max_node_bytes
        self.helper_nodes = helper_nodes

    renamed_options: dict[str, str] = {}  # noqa: RUF012 - Covalent replaces instance dicts, so it is the class's
    """Names of options elsewhere → what they are called here."""

    direct_options: tuple[str, ...] = ()
    """Options that ``open_output`` needs; kept beside the output, so nothing secret."""

    def __getattr__(self, name: str) -> Any:
        """An option that a dispatch made by an older version does not have: what a new executor has."""
        if name in options.defaults(type(self)) and name in (fresh := vars(type(self)())):
            return fresh[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # -- what a subclass implements -------------------------------------------------------------------

    def get_files_to_monitor(self, dispatch_id: str, node_id: int) -> Iterable[FileRef | str]:
        """Which files to read now; asked several times a second, so no I/O. Files may appear at any time.

        Of plain strings, one whose stem is ``stderr`` or whose suffix is ``.err`` is the node's stderr, any
        other first one is its stdout, for good, and the rest are extra files under their base names.
        """
        raise NotImplementedError

    async def poll_file(self, path: str, pos: int, size: int = -1) -> bytes:
        """Bytes of ``path`` from byte ``pos``, at most ``size`` of them (-1: as many as you like).

        ``b""`` when nothing is new yet, when the file is not there yet, and when ``pos`` is beyond its end.

        Raises:
            TransportError: The way to the file failed; asked again with back-off.
        """
        raise NotImplementedError

    async def stat_file(self, path: str) -> FileStat | None:  # noqa: ARG002 - the hook's signature
        """Optional: size in bytes and identity of ``path``, which lets truncation and replacement be seen."""
        return None

    def endpoint_key(self) -> str | None:
        """What tells one connection from another: every option that changes it. None: one per node."""
        return None

    def make_source(self) -> DeltaSource:
        """Make the source of this executor's endpoint, one for each key; no I/O."""
        from covalent_joblog_plugin.monitor.poll_source import PollSource

        return PollSource(self, self.log_interval)

    def capabilities(self) -> Capabilities:
        """What can be done with the output of a node of this executor."""
        from covalent_joblog_plugin.model.capabilities import YES, Answer, Capabilities, Capability

        sees_truncation = type(self).stat_file is not JobLogExecutor.stat_file
        name = type(self).__name__
        return Capabilities(
            split_streams=Capability(Answer.UNKNOWN, f"it depends on the files that {name} names"),
            truncation=YES if sees_truncation else Capability(Answer.UNKNOWN, f"{name} has no stat_file"),
        )

    async def writers_gone(self, dispatch_id: str, node_id: int) -> bool:  # noqa: ARG002 - the hook's signature
        """Whether nobody can write to the files any more; asked after the job's end."""
        return True

    async def after_final_read(self) -> None:
        """Optional: clean up what had to stay until the output was read."""

    def open_output(self, handle: Any) -> OutputReader:  # noqa: ARG002 - the hook's signature
        """Optional: read a job's output straight from its cluster, with no Covalent server; no I/O.

        Args:
            handle: As given to ``announce_job``; Covalent's database and the node's folder have it.

        Raises:
            OutputUnsupported: This executor cannot.
        """
        from covalent_joblog_plugin.model.errors import OutputUnsupported

        raise OutputUnsupported(
            f"read: {type(self).__name__} cannot read straight from its cluster; read the node's stored "
            "output"
        )

    async def cancel_job(self, handle: Any) -> None:
        """End the job that ``handle``, as given to ``announce_job``, describes; nothing else is known.

        Called while ``run`` waits, and for nodes of an earlier server. ``run`` then raises
        ``TaskCancelledError`` when the job is gone.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot cancel {handle!r}")

    def check_options(self) -> None:
        """Raise ``OptionError`` for an option that cannot work; called before dispatch and before the run."""
        name = type(self).__name__
        options.check_json(name, _public(self.__dict__))
        options.check_number(name, "log_interval", self.log_interval, least=0.05)
        options.check_number(name, "final_read_timeout", self.final_read_timeout, least=0)
        options.check_number(name, "max_log_bytes", self.max_log_bytes, least=0, whole=True)
        options.check_number(name, "max_node_bytes", self.max_node_bytes, least=0, whole=True)
        options.check_number(name, "time_limit", self.time_limit, least=-1)
        options.check_choice(name, "helper_nodes", self.helper_nodes, ("local", "cluster"))
        options.check_strings(name, "log_files", self.log_files)

    # -- what a subclass may use in run() -------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The task being run: its stored output, its source, whether it was cancelled."""
        session: Session | None = self.__dict__.get("_session")
        if session is None:
            raise JobLogError(f"{type(self).__name__}: no task is running; use this in run()")
        return session

    @property
    def source(self) -> Any:
        """The source of this endpoint, shared by all its nodes."""
        return self.session.monitor.source

    @property
    def cancel_requested(self) -> bool:
        """Whether the task is to be cancelled."""
        return self.session.cancelled.is_set()

    async def announce_job(self, handle: Any) -> None:
        """Make the job known, so that it can be cancelled; before it is submitted and when its id is known.

        Args:
            handle: JSON; all that ``cancel_job`` needs.
        """
        await self.session.announce(handle)

    # -- Covalent's side ------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """What travels with a dispatch; called in the client, so wrong options are refused there."""
        self.check_options()
        travels: dict[str, Any] = super().to_dict()
        travels["attributes"] = _public(travels["attributes"])
        return travels

    async def execute(
        self,
        function: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
        dispatch_id: str,
        results_dir: str,
        node_id: int = -1,
    ) -> Any:
        """Run the task with its output read live; see ``session.run_task``."""
        from .session import run_task

        metadata = {"dispatch_id": dispatch_id, "node_id": node_id, "results_dir": results_dir}
        return await run_task(self, function, args, kwargs, metadata)

    async def cancel(self, task_metadata: dict[str, Any], job_handle: Any) -> bool:  # noqa: ARG002
        """Cancel the node in ``task_metadata``; its handle is looked up, the one given may be another's."""
        from .session import cancel_task

        return await cancel_task(self, task_metadata["dispatch_id"], task_metadata["node_id"])

    async def receive(self, task_group_metadata: dict[str, Any], data: Any) -> list[TaskUpdate]:  # noqa: ARG002
        """The status of nodes cancelled before they started.

        Covalent 0.240 asks for it although this executor does not manage tasks by ``send`` and ``poll``;
        without an answer such a node is FAILED with an empty error.
        """
        return [
            TaskUpdate(
                dispatch_id=task_group_metadata["dispatch_id"],
                node_id=node_id,
                status=RESULT_STATUS.CANCELLED,
                assets={},
            )
            for node_id in task_group_metadata["node_ids"]
        ]

    def listening_ends(self) -> None:
        """Tell Covalent that no more messages come from this executor."""
        self._notify(Signals.EXIT)


def _public(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if not name.startswith("_")}
