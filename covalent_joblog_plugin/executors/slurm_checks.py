# SPDX-License-Identifier: Apache-2.0
"""Checks of ``SlurmJobLogExecutor``'s options; loaded with Covalent, so it imports nothing of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import OptionError

from . import options

if TYPE_CHECKING:
    from .joblog_slurm import SlurmJobLogExecutor

RENAMED = {
    "address": "it is called host here",
    "ssh_key_file": "it is called client_keys here",
    "cert_file": "it is called client_certs here",
    "remote_workdir": "it is called workdir here",
    "create_unique_workdir": "every node has a folder of its own below workdir; leave it out",
    "options": "it is called sbatch_options here",
    "variables": "it is called environment here",
    "prerun_commands": "it is called setup_commands here",
    "postrun_commands": "it is called teardown_commands here",
    "srun_append": "give the words as python, an argv list",
    "bashrc_path": "use login_shell, or a line of setup_commands",
    "poll_freq": "use state_interval, and log_interval for the output",
    "ignore_versions": "the client's version of Python counts, see python; leave it out",
    "cache_dir": "no file is made on the server; leave it out",
}
"""Options of Covalent's official Slurm plugin → what to do here."""

ENDPOINT_OPTIONS = (
    "host",
    "port",
    "username",
    "client_keys",
    "client_certs",
    "known_hosts",
    "ssh_config",
    "jump_host",
    "connect_timeout",
    "keepalive_interval",
    "max_sessions",
    "slurm_path",
    "sbatch_command",
    "clusters",
    "reader",
    "log_interval",
    "state_interval",
)

_LISTS = ("client_keys", "client_certs", "sbatch_command", "python", "setup_commands", "teardown_commands")
_FLAGS = ("login_shell", "export_environment", "use_srun")
_TEXTS = ("slurm_path", "clusters", "conda_env")


def login(executor: SlurmJobLogExecutor) -> str:
    """The ssh command to look by hand."""
    port = f"-p {executor.port} " if executor.port else ""
    user = f"{executor.username}@" if executor.username else ""
    return f"ssh {port}{user}{executor.host}"


def check(executor: SlurmJobLogExecutor) -> None:
    """Raise for an option that cannot work.

    Raises:
        OptionError: Naming the option, the cause and the next step.
    """
    name = type(executor).__name__
    _check_connection(executor, name)
    for option in (*_LISTS, "modules"):
        options.check_strings(name, option, getattr(executor, option))
    for option in _FLAGS:
        options.check_choice(name, option, getattr(executor, option), (True, False))
    for option in _TEXTS:
        _check_line(name, option, getattr(executor, option))
    options.check_environment(name, "environment", executor.environment)
    options.check_choice(name, "cleanup", executor.cleanup, ("on_success", "always", "never"))
    options.check_choice(name, "reader", executor.reader, ("auto", "channel", "exec"))
    options.check_number(name, "state_interval", executor.state_interval, least=1)
    _check_paths(executor, name)
    _check_slurm_options(executor)


def _check_connection(executor: SlurmJobLogExecutor, name: str) -> None:
    if not isinstance(executor.host, str) or not executor.host.strip() or executor.host.startswith("-"):
        raise OptionError(
            f"{name}: host={executor.host!r} must be the login node, such as host='mycluster'; give it to "
            "the executor, or under [executors.joblog_slurm] in covalent.conf"
        )
    _check_line(name, "host", executor.host)
    if executor.port is not None:
        options.check_number(name, "port", executor.port, least=1, whole=True)
        if executor.port > 65535:
            raise OptionError(f"{name}: port={executor.port!r} must be a port of TCP, at most 65535")
    for option in ("username", "jump_host"):
        if getattr(executor, option) is not None:
            _check_line(name, option, getattr(executor, option), empty=False)
    if executor.known_hosts is not None:
        options.check_strings(name, "known_hosts", executor.known_hosts)
    if not isinstance(executor.ssh_config, (bool, str)):
        raise OptionError(f"{name}: ssh_config={executor.ssh_config!r} must be True, False or a file")
    options.check_number(name, "connect_timeout", executor.connect_timeout, least=0.1)
    options.check_number(name, "keepalive_interval", executor.keepalive_interval, least=1)
    options.check_number(name, "max_sessions", executor.max_sessions, least=2, whole=True)


def _check_line(name: str, option: str, value: object, *, empty: bool = True) -> None:
    if not isinstance(value, str) or any(c in value for c in "\0\n\r") or not (value or empty):
        raise OptionError(f"{name}: {option}={value!r} must be one line of text")


def _check_paths(executor: SlurmJobLogExecutor, name: str) -> None:
    _check_line(name, "workdir", executor.workdir, empty=False)
    if "\\" in executor.workdir:
        raise OptionError(f"{name}: workdir={executor.workdir!r}: Slurm cannot use a path with a backslash")
    if not executor.sbatch_command:
        raise OptionError(f"{name}: sbatch_command={executor.sbatch_command!r} must name what submits")
    for file in executor.log_files:
        if "\0" in file:
            raise OptionError(f"{name}: log_files: {file!r} holds a NUL")


def _check_slurm_options(executor: SlurmJobLogExecutor) -> None:
    from covalent_joblog_plugin.cluster.slurm_options import sbatch_argv, srun_argv

    sbatch_argv(executor.sbatch_options)
    srun_argv(executor.srun_options)
    if executor.srun_options and not executor.use_srun:
        raise OptionError(f"{type(executor).__name__}: srun_options are of no use without use_srun=True")
