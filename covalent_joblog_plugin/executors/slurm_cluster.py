# SPDX-License-Identifier: Apache-2.0
"""Options of ``SlurmJobLogExecutor`` → the cluster's own words."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any, cast

from covalent_joblog_plugin.cluster.deferred_shell import DeferredShell
from covalent_joblog_plugin.cluster.job_script import ScriptSpec
from covalent_joblog_plugin.cluster.slurm import SlurmCluster, SlurmSettings
from covalent_joblog_plugin.cluster.slurm_job import JobSpec
from covalent_joblog_plugin.cluster.slurm_options import has_output, long_name, sbatch_argv
from covalent_joblog_plugin.cluster.ssh_endpoint import SshEndpoint

if TYPE_CHECKING:
    from covalent_joblog_plugin.cluster.reader_source import ReaderMode
    from covalent_joblog_plugin.cluster.shell import Shell

    from .joblog_slurm import SlurmJobLogExecutor

log = logging.getLogger(__name__)


def make_cluster(executor: SlurmJobLogExecutor) -> SlurmCluster:
    """The cluster of an executor; no I/O."""
    if executor.known_hosts is None:
        log.warning("known_hosts=None: any host key of %s is accepted", executor.host)
    endpoint = SshEndpoint(
        executor.host,
        executor.port,
        executor.username,
        tuple(executor.client_keys),
        tuple(executor.client_certs),
        known_hosts=tuple(executor.known_hosts or ()),
        check_host_key=executor.known_hosts is not None,
        ssh_config=executor.ssh_config,
        jump_host=executor.jump_host,
        connect_timeout=executor.connect_timeout,
        keepalive_interval=executor.keepalive_interval,
    )
    settings = SlurmSettings(
        reader=cast("ReaderMode", executor.reader),
        log_interval=executor.log_interval,
        state_interval=executor.state_interval,
        slurm_path=executor.slurm_path,
        sbatch_command=tuple(executor.sbatch_command),
        clusters=executor.clusters,
    )
    sessions = executor.max_sessions

    def make_shell() -> Shell:
        from covalent_joblog_plugin.cluster.asyncssh_shell import AsyncsshShell

        return AsyncsshShell(endpoint, sessions)

    return SlurmCluster(DeferredShell(make_shell), settings)


def job_spec(
    executor: SlurmJobLogExecutor,
    label: str,
    python: str,
    files: dict[str, bytes],
    metadata: dict[str, Any],
) -> JobSpec:
    """What to submit for a node.

    Args:
        executor: Whose options count.
        label: Name of the electron's function.
        python: Version of the client's Python.
        files: The files of the payload.
        metadata: Covalent's, with ``dispatch_id`` and ``node_id``.
    """
    script = ScriptSpec(
        python=tuple(executor.python),
        python_version=".".join(python.split(".")[:2]),
        login_shell=executor.login_shell,
        setup_commands=tuple(executor.setup_commands),
        teardown_commands=tuple(executor.teardown_commands),
        environment=executor.environment,
        modules=tuple(executor.modules),
        conda_env=executor.conda_env,
        use_srun=executor.use_srun,
        srun_options=executor.srun_options,
    )
    argv = sbatch_argv(executor.sbatch_options)
    if executor.time_limit > 0 and not any(long_name(name) == "time" for name in executor.sbatch_options):
        # Slurm counts in minutes.
        argv.append(f"--time={math.ceil(executor.time_limit / 60)}")
    return JobSpec(
        label=label,
        workdir=executor.workdir,
        folder=(metadata["dispatch_id"], str(metadata["node_id"])),
        files=files,
        script=script,
        sbatch_options=tuple(argv),
        own_output=not has_output(executor.sbatch_options),
        export_environment=executor.export_environment,
    )
