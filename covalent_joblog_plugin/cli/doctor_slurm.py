# SPDX-License-Identifier: Apache-2.0
"""Checks of a Slurm cluster, made with the executor's options and the server's environment."""

from __future__ import annotations

import platform
import shlex
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import JobLogError, OptionError

from .findings import Finding, fault, ok, unknown, warning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalent_joblog_plugin.executors.joblog_slurm import SlurmJobLogExecutor

_SHARED = (
    "afs", "beegfs", "ceph", "cifs", "fuse", "glusterfs", "gpfs", "lustre", "nfs", "ocfs2", "panfs", "pvfs2",
    "smb", "wekafs", "9p", "virtiofs",
)  # fmt: skip
"""How the types of file systems begin that several machines can share."""
_ROOM = 1 << 30
JOBS_PYTHON = "job's python"


async def check(executor: SlurmJobLogExecutor) -> list[Finding]:
    """All of these checks."""
    from covalent_joblog_plugin.executors.slurm_checks import login

    try:
        executor.check_options()
    except OptionError as error:
        return [fault("options", str(error))]
    cluster = executor.make_source()
    try:
        seen = await cluster.look(_task(executor))
    except JobLogError as error:
        return [fault("ssh", str(error))]
    finally:
        await cluster.close()
    return [
        ok("ssh", f"{login(executor)} reaches {seen['host']}"),
        _host_key(executor),
        *judged(executor, seen),
    ]


def _task(executor: SlurmJobLogExecutor) -> dict[str, Any]:
    minor = ".".join(platform.python_version_tuple()[:2])
    return {
        "workdir": executor.workdir,
        "commands": [executor.sbatch_command[0], "squeue", "scancel"],
        "pythons": [list(executor.python)]
        if executor.python
        else [[f"python{minor}"], ["python3"], ["python"]],
        "slurm_path": executor.slurm_path,
    }


def _host_key(executor: SlurmJobLogExecutor) -> Finding:
    if executor.known_hosts is not None:
        return ok("host key", "it is the one that is known")
    return warning(
        "host key",
        "known_hosts=None: any machine in between is taken for the cluster",
        "name a file of host keys, or leave known_hosts out for the usual ones",
    )


def judged(executor: SlurmJobLogExecutor, seen: Mapping[str, Any]) -> list[Finding]:
    """What the login node told, judged.

    Args:
        executor: Whose options count.
        seen: The answer of ``remote_look``.
    """
    commands = [_command(name, done) for name, done in seen["commands"].items()]
    return [*commands, _queue(seen["queue"]), _python(executor, seen["pythons"]), _workdir(seen)]


def _command(name: str, done: Mapping[str, Any]) -> Finding:
    said = (done["out"] or done["err"]).strip().split("\n")[0]
    if not done["exit"]:
        return ok(name, said)
    return fault(name, said, "give the executor slurm_path, or put it into the PATH of the login shell")


def _queue(done: Mapping[str, Any]) -> Finding:
    if not done["exit"]:
        return ok("controller", "Slurm answers")
    said = done["err"].strip().split("\n")[0] or f"squeue ended with {done['exit']}"
    return fault("controller", said, "try squeue on the login node, and ask the site if it does not answer")


def _python(executor: SlurmJobLogExecutor, pythons: list[Mapping[str, Any]]) -> Finding:
    wanted = ".".join(platform.python_version_tuple()[:2])
    if executor.modules or executor.conda_env or executor.setup_commands:
        return unknown(JOBS_PYTHON, "modules, conda_env or setup_commands decide it inside the job")
    found = {one["version"]: one for one in reversed(pythons) if one["version"]}
    fitting = next((v for v in found if v.split(".")[:2] == wanted.split(".")), None)
    if fitting is not None:
        path = found[fitting]["path"]
        return ok(JOBS_PYTHON, f"Python {fitting} on the login node, {path}; compute nodes may have another")
    asked = " or ".join(shlex.join(one["argv"]) for one in pythons)
    there = ", ".join(found) or "none that starts"
    return warning(
        JOBS_PYTHON,
        f"{asked} on the login node: {there}; functions pickled here need Python {wanted}",
        "set python, modules or conda_env to such a Python, unless compute nodes have another",
    )


def _workdir(seen: Mapping[str, Any]) -> Finding:
    folder = seen["workdir"]
    if "refused" in folder:
        return fault("workdir", folder["refused"])
    path, below, kind = folder["path"], folder["below"], folder["kind"]
    there = path if folder["exists"] else f"{path}, to be made below {below},"
    if not folder["writable"]:
        text = f"{there} cannot be written" if folder["exists"] else f"{path} cannot be made below {below}"
        return fault("workdir", text, "give the executor a workdir that you may write to and the nodes share")
    if folder["free"] < _ROOM:
        text = f"{there} has {folder['free'] >> 20} MiB free"
        return warning("workdir", text, "make room there, or use another workdir")
    if kind and not kind.startswith(_SHARED):
        return warning(
            "workdir",
            f"{there} is on a file system of the login node's own ({kind})",
            f"take a folder that compute nodes see too, unless they are {seen['host']} itself",
        )
    return ok("workdir", f"{there} can be written{f', on {kind}' if kind else ''}")
