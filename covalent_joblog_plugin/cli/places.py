# SPDX-License-Identifier: Apache-2.0
"""Where a node's job is and its files are, and the commands to look by hand; pure.

What a cluster or an executor calls something is quoted for a POSIX shell, and once more for the one that ssh
starts.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.reading.answers import ENDED
from covalent_joblog_plugin.text.terminal import safe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from covalent_joblog_plugin.reading.answers import NodeInfo

_WHILE_IT_RUNS = frozenset({"end it", "its processes"})
_PLURALS = {"TrainJob": "trainjobs.trainer.kubeflow.org", "PyTorchJob": "pytorchjobs.kubeflow.org"}
_LABELS = {"TrainJob": "jobset.sigs.k8s.io/jobset-name", "PyTorchJob": "training.kubeflow.org/job-name"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node's job is.

    Attributes:
        host: The login node, the namespace, or ``server`` for Covalent's own machine; empty where that is not
            known.
        job: What the cluster calls it; empty before it was submitted.
        folder: The job's folder there; empty where it has none.
        files: Output → the file that feeds it.
        commands: To look by hand: what it does → the command, for a shell on this machine.
    """

    host: str = ""
    job: str = ""
    folder: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)


def place_of(node: NodeInfo, options: Mapping[str, Any]) -> Place:
    """Where a node's job is.

    Args:
        node: The node.
        options: Its executor's options.
    """
    known = node.job if isinstance(node.job, dict) else {}
    sources = node.reading.sources if node.reading else {}
    make = _MAKERS.get(node.executor)
    if make is None:
        return Place(str(options.get("host") or ""), files=sources)
    place = make(known, options, sources)
    if node.status not in ENDED:
        return place
    # What has ended cannot be ended, and its number may be another's by now.
    return replace(
        place, commands={what: c for what, c in place.commands.items() if what not in _WHILE_IT_RUNS}
    )


def _slurm(job: Mapping[str, Any], options: Mapping[str, Any], sources: Mapping[str, str]) -> Place:
    ssh = _ssh(options)
    number, folder = job.get("id"), str(job.get("dir") or "")
    commands = {}
    if number is not None:
        clusters = ["-M", str(options["clusters"])] if options.get("clusters") else []
        for what, name, *argv in (
            ("its state", "scontrol", "show", "job", str(number)),
            ("end it", "scancel", str(number)),
        ):
            path = f"{options['slurm_path'].rstrip('/')}/{name}" if options.get("slurm_path") else name
            commands[what] = _over(ssh, [path, *clusters, *argv])
    # Before it was submitted the folder's name begins as the user wrote it, perhaps with ~.
    if folder.startswith("/"):
        commands["its folder"] = _over(ssh, ["ls", "-lR", folder])
        # The newest execution counts; without a server only the first one is known to be there.
        files = sources or {"stdout": f"{folder}/x000/stdout", "stderr": f"{folder}/x000/stderr"}
        commands |= {f"follow {name}": _over(ssh, ["tail", "-F", path]) for name, path in files.items()}
    host = " via ".join(str(part) for part in (job.get("host"), options.get("host")) if part)
    name = f"Slurm job {number} ({job.get('name')})" if number is not None else str(job.get("name") or "")
    return Place(host, name, folder, sources, commands)


def _kubeflow(job: Mapping[str, Any], options: Mapping[str, Any], sources: Mapping[str, str]) -> Place:
    kind, name, namespace = (str(job.get(key) or "") for key in ("kind", "name", "namespace"))
    if kind not in _PLURALS or not name:
        return Place(str(options.get("namespace") or ""), files=sources)
    kubectl = ["kubectl"]
    for option in ("kubeconfig", "context"):
        if options.get(option):
            kubectl += [f"--{option}", str(options[option])]
    kubectl += ["--namespace", namespace]
    pods = f"{_LABELS[kind]}={name}"
    commands = {
        "its state": [*kubectl, "describe", _PLURALS[kind], name],
        "its pods": [*kubectl, "get", "pods", "-o", "wide", "-l", pods],
        "follow its log": [*kubectl, "logs", "-f", "--prefix", "--all-containers", "--tail=-1", "-l", pods],
        "end it": [*kubectl, "delete", _PLURALS[kind], name],
    }
    shown = {what: joined(argv) for what, argv in commands.items()}
    return Place(f"namespace {namespace}", f"{kind} {name}", "", sources, shown)


def _local(job: Mapping[str, Any], options: Mapping[str, Any], sources: Mapping[str, str]) -> Place:
    del options
    commands = {}
    if job.get("pid") is not None:
        session = str(job["pid"])
        commands["its processes"] = joined(["ps", "-o", "pid,stat,etime,args", "-s", session])
        commands["end it"] = joined(["pkill", "-TERM", "-s", session])
    commands |= {f"follow {name}": joined(["tail", "-F", path]) for name, path in sources.items()}
    name = f"process {job['pid']}" if "pid" in job else ""
    return Place("server", name, str(job.get("folder") or ""), sources, commands)


_MAKERS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, str]], Place]] = {
    "joblog_slurm": _slurm,
    "joblog_kubeflow": _kubeflow,
    "joblog_local": _local,
}


def _ssh(options: Mapping[str, Any]) -> list[str]:
    """The way to the login node, as its executor takes it."""
    argv = ["ssh"]
    config = options.get("ssh_config", True)
    if config is not True:
        argv += ["-F", config or "none"]
    if options.get("known_hosts"):
        argv += ["-o", f"UserKnownHostsFile={' '.join(options['known_hosts'])}"]
    if options.get("port"):
        argv += ["-p", str(options["port"])]
    for key in options.get("client_keys") or ():
        argv += ["-i", str(key)]
    if options.get("jump_host"):
        argv += ["-J", str(options["jump_host"])]
    user = f"{options['username']}@" if options.get("username") else ""
    return [*argv, f"{user}{options.get('host', '')}"]


def _over(ssh: list[str], argv: list[str]) -> str:
    return joined([*ssh, joined(argv)])


def joined(argv: Iterable[str]) -> str:
    """Words as a shell takes them, with nothing in them that acts in the terminal where they are shown."""
    return " ".join(_quoted(word) for word in argv)


def _quoted(word: str) -> str:
    if safe(word) == word:
        return shlex.quote(word)
    escaped = "".join(
        f"\\{char}" if char in "\\'" else char if safe(char) == char else _escaped(char) for char in word
    )
    return f"$'{escaped}'"


def _escaped(char: str) -> str:
    # Three octal digits end by themselves, whatever follows.
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogateescape"))
