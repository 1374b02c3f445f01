# SPDX-License-Identifier: Apache-2.0
"""``SlurmJobLogExecutor``: the task as a Slurm job, its output live."""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import TransportError
from covalent_joblog_plugin.web import hook

from . import options, slurm_checks
from .base import JobLogExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from covalent_joblog_plugin.cluster.slurm import SlurmCluster
    from covalent_joblog_plugin.cluster.slurm_job import Job, JobSpec
    from covalent_joblog_plugin.model.capabilities import Capabilities
    from covalent_joblog_plugin.model.records import FileRef
    from covalent_joblog_plugin.payload.bundle import Call

    from .slurm_direct import SlurmJobReader

EXECUTOR_PLUGIN_NAME = "SlurmJobLogExecutor"

log = logging.getLogger(__name__)


class SlurmJobLogExecutor(JobLogExecutor):
    """Runs the task as a Slurm job, over one ssh connection for all tasks of a cluster.

    The cluster needs Python and what the function imports, nothing of ours.

    Args:
        host: Login node: a name, an address or an alias of the ssh configuration.
        port: Its ssh port; None leaves it to the ssh configuration.
        username: Login name there; None leaves it to the ssh configuration.
        client_keys: Private key files on the machine of Covalent's server; empty for the agent and the usual
            files.
        client_certs: Certificate files for those keys.
        known_hosts: Files of known host keys; empty for the usual ones. None accepts any host key.
        ssh_config: ``True`` for the user's own configuration file, ``False`` for none, or a file.
        jump_host: ``[user@]host[:port]`` to go through.
        connect_timeout: Seconds for the connection and for the login, each.
        keepalive_interval: Seconds between signs of life.
        max_sessions: Commands and channels open at a time; below the ``MaxSessions`` of the site's sshd.
        slurm_path: Folder of Slurm's commands, where the login node does not find them by itself.
        sbatch_command: What submits, as a word or an argv list.
        clusters: For Slurm's ``-M``.
        sbatch_options: Slurm's long option names → values; True is a bare flag, None and False leave it out.
        workdir: Folder on a file system the nodes share; ``~`` or ``$NAME`` may begin it.
        python: What starts Python in the job, as a word or an argv list; empty for the first in PATH whose
            version is the client's.
        setup_commands: Shell lines before the function.
        teardown_commands: Shell lines after it.
        environment: Environment variables of the job.
        modules: Modules to load.
        conda_env: Conda environment to activate.
        login_shell: Whether the job's shell reads the login profile.
        export_environment: Whether the job inherits the environment of the ssh session.
        use_srun: Whether every task of the job runs the function, as one job step; rank 0's value is the
            result.
        srun_options: Options of that step, as ``sbatch_options``.
        cleanup: ``"on_success"``, ``"always"`` or ``"never"``: when the job's folder is removed. What the
            function left in its working directory always stays.
        reader: ``"channel"`` keeps a small reader on the login node, ``"exec"`` runs one a tick, ``"auto"``
            is the first until the site ends it.
        state_interval: Seconds between two calls of squeue while jobs simply run.
        log_files: Files to show with the node; relative ones are in the function's working directory.
        **common: See ``JobLogExecutor``.
    """

    renamed_options = slurm_checks.RENAMED
    direct_options = slurm_checks.ENDPOINT_OPTIONS

    def __init__(
        self,
        host: str = "",
        port: int | None = None,
        username: str | None = None,
        client_keys: str | Sequence[str] = (),
        client_certs: str | Sequence[str] = (),
        known_hosts: str | Sequence[str] | None = (),
        ssh_config: bool | str = True,
        jump_host: str | None = None,
        connect_timeout: float = 30,
        keepalive_interval: float = 15,
        max_sessions: int = 4,
        slurm_path: str = "",
        sbatch_command: str | Sequence[str] = "sbatch",
        clusters: str = "",
        sbatch_options: Mapping[str, Any] | None = None,
        workdir: str = "~/covalent-joblog",
        python: str | Sequence[str] = (),
        setup_commands: str | Sequence[str] = (),
        teardown_commands: str | Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        modules: str | Sequence[str] = (),
        conda_env: str = "",
        login_shell: bool = True,
        export_environment: bool = False,
        use_srun: bool = False,
        srun_options: Mapping[str, Any] | None = None,
        cleanup: str = "on_success",
        reader: str = "auto",
        state_interval: float = 30,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.host = host
        self.port = port
        self.username = username
        self.client_keys = options.words(client_keys)
        self.client_certs = options.words(client_certs)
        self.known_hosts = None if known_hosts is None else options.words(known_hosts)
        self.ssh_config = ssh_config
        self.jump_host = jump_host
        self.connect_timeout = connect_timeout
        self.keepalive_interval = keepalive_interval
        self.max_sessions = max_sessions
        self.slurm_path = slurm_path
        self.sbatch_command = options.words(sbatch_command)
        self.clusters = clusters
        self.sbatch_options = options.mapping(sbatch_options)
        self.workdir = workdir
        self.python = options.words(python)
        self.setup_commands = options.words(setup_commands)
        self.teardown_commands = options.words(teardown_commands)
        self.environment = options.mapping(environment)
        self.modules = options.words(modules)
        self.conda_env = conda_env
        self.login_shell = login_shell
        self.export_environment = export_environment
        self.use_srun = use_srun
        self.srun_options = options.mapping(srun_options)
        self.cleanup = cleanup
        self.reader = reader
        self.state_interval = state_interval

    def check_options(self) -> None:
        """See ``JobLogExecutor``."""
        super().check_options()
        slurm_checks.check(self)

    # -- the endpoint ---------------------------------------------------------------------------------

    def endpoint_key(self) -> str:
        """Every option that changes the connection or how Slurm is asked."""
        return json.dumps({name: getattr(self, name) for name in slurm_checks.ENDPOINT_OPTIONS})

    def make_source(self) -> SlurmCluster:
        """See ``JobLogExecutor``."""
        from .slurm_cluster import make_cluster

        return make_cluster(self)

    def open_output(self, handle: Any) -> SlurmJobReader:
        """See ``JobLogExecutor``; all executions are there until the job's folder is removed."""
        from .slurm_direct import SlurmJobReader

        return SlurmJobReader(self.make_source(), handle, slurm_checks.login(self))

    async def cancel_job(self, handle: Any) -> None:
        """Cancel by job id, or by the job's unique name while there is none; tried until Slurm answers."""
        await self.source.cancel(handle)

    # -- the node's files -----------------------------------------------------------------------------

    def capabilities(self) -> Capabilities:
        """See ``JobLogExecutor``."""
        from covalent_joblog_plugin.model.capabilities import Capabilities

        return Capabilities()

    def get_files_to_monitor(self, dispatch_id: str, node_id: int) -> Iterable[FileRef | str]:  # noqa: ARG002
        """Streams of every execution and rank, Slurm's own log and ``log_files``."""
        from covalent_joblog_plugin.model.records import FileRef

        job = self._job
        if job is None or not job.path:
            return []
        extra = [name if name.startswith("/") else f"{job.path}/work/{name}" for name in self.log_files]
        return [
            *job.output_files(),
            *(FileRef(path, name) for path, name in zip(extra, self.log_files, strict=True)),
        ]

    async def writers_gone(self, dispatch_id: str, node_id: int) -> bool:  # noqa: ARG002
        """Whether the job has left the queue, its processes with it."""
        job = self._job
        if job is None or job.job_id is None:
            return True
        left: bool = await self.source.left_queue(job)
        return left

    async def after_final_read(self) -> None:
        """Clean up as ``cleanup`` says; a failed clean-up is not the task's failure."""
        job = self.__dict__.pop("_job", None)
        succeeded = self.__dict__.pop("_succeeded", False)
        if job is None:
            return
        self.source.forget(job)
        if job.path and (self.cleanup == "always" or (self.cleanup == "on_success" and succeeded)):
            await self._clean_up(job)

    async def _clean_up(self, job: Job) -> None:
        try:
            left = await self.source.remove(job)
        except TransportError as error:
            log.warning("%s stays on %s: %s", job.path, self.host, error)
            return
        if left:
            log.info("what the function left stays on %s in %s: %s", self.host, job.path, ", ".join(left))
            if self.session.output is not None:
                await self.session.output.remember({"left": left})

    # -- the run --------------------------------------------------------------------------------------

    async def run(
        self,
        function: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
        task_metadata: dict[str, Any],
    ) -> Any:
        """Submit the job, wait for its end and return its result, not unpickled.

        Raises:
            JobFailed: The job gave no result; the text says all that is known.
            TaskCancelledError: The task was cancelled.
            SubmissionError: Slurm refused the job.
            TransportError: The login node could not be reached before the job was submitted.
        """
        from covalent._shared_files import TaskCancelledError

        from covalent_joblog_plugin.payload import bundle

        from . import slurm_outcome, slurm_telling

        cluster: SlurmCluster = self.source
        call = bundle.take_apart(function, args, kwargs)
        job = cluster.prepare(await self._spec(call, task_metadata))
        await self.announce_job(job.handle())
        await cluster.submit(job, lambda: self.cancel_requested)
        if job.job_id is None:
            raise TaskCancelledError
        self.__dict__["_job"] = job
        self.session.files_changed()
        await self.announce_job(job.handle())
        async with slurm_telling.telling(cluster, job, self.session.output):
            end = await cluster.ended(job)
        self.session.files_changed()
        if self.cancel_requested:
            raise TaskCancelledError
        value = await slurm_outcome.result(cluster, job, end, slurm_checks.login(self))
        self.__dict__["_succeeded"] = True
        return value

    @property
    def _job(self) -> Job | None:
        return self.__dict__.get("_job")

    async def _spec(self, call: Call, metadata: dict[str, Any]) -> JobSpec:
        from covalent_joblog_plugin.payload import bundle
        from covalent_joblog_plugin.payload.threads import in_thread

        from .slurm_cluster import job_spec

        names = {"dispatch_id": metadata["dispatch_id"], "node_id": metadata["node_id"]}
        packed = await in_thread(partial(bundle.pack, call, **names))
        files = {"bundle": packed, "runner.py": bundle.runner_source()}
        return job_spec(self, call.name, call.python_version, files, metadata)


_EXECUTOR_PLUGIN_DEFAULTS = options.plugin_defaults(SlurmJobLogExecutor)

hook.install()
