# SPDX-License-Identifier: Apache-2.0
"""Checks of Covalent's server: does it run, has it the plugin, what can it reach, who can reach it."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from covalent_joblog_plugin.model.errors import JobLogError

from . import server_process
from .findings import PLUGIN, Finding, fault, installed, ok, unknown, warning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .server_process import ServerProcess

_HERE = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}  # noqa: S104 - where a server may listen
_LOOPBACK = ("127.", "::1", "::ffff:127.")
_AGAIN = "covalent restart --no-cluster"
_SAME = ("HOME", "KUBECONFIG", "COVALENT_CONFIG_DIR")
"""Variables that decide which files are read."""


async def serving(address: str) -> list[Finding]:
    """Whether a server with this plugin answers."""
    from covalent_joblog_plugin.reading.client import Server

    try:
        async with Server(address) as server:
            await server.ask("/api/v1/dispatches/list", {"count": 1})
            try:
                health = await server.ask("/api/v1/joblog/health")
            except JobLogError as error:
                return [ok("server", f"answers at {address}"), fault("plugin", str(error))]
    except JobLogError as error:
        return [fault("server", str(error))]
    return [ok("server", f"Covalent {health['covalent']} answers at {address}"), _same_version(health)]


def _same_version(health: Mapping[str, object]) -> Finding:
    here, there = installed(PLUGIN), health["version"]
    if here == there:
        return ok("plugin", f"{PLUGIN} {there} is in the server")
    return warning("plugin", f"the server has {PLUGIN} {there}, this is {here}", _AGAIN)


def process(address: str) -> ServerProcess | str:
    """The process of the server there, by Covalent's own record; a text where it cannot be seen."""
    from covalent._shared_files.config import get_config

    parts = urlsplit(address)
    if parts.hostname not in {*_HERE, socket.gethostname()}:
        return f"the server runs on {parts.hostname}, and its process is seen only there"
    pid_file = Path(get_config("dispatcher.cache_dir")) / "ui.pid"
    return server_process.find(pid_file, parts.port or 80)


def reach(found: ServerProcess, shell: Mapping[str, str]) -> list[Finding]:
    """What the server can reach that a shell can, and the other way round.

    Args:
        found: The server.
        shell: The environment of the shell.
    """
    findings = [_python(found), _agent(found.environ.get("SSH_AUTH_SOCK"), shell.get("SSH_AUTH_SOCK"))]
    for name in _SAME:
        there, here = found.environ.get(name), shell.get(name)
        if there != here:
            text = f"the server has {name}={there or '(unset)'}, this shell {here or '(unset)'}"
            findings.append(warning(name, text, f"if the shell's is right: {_AGAIN}"))
    if found.environ.get("PATH") != shell.get("PATH"):
        text = f"the server looks for programs in {found.environ.get('PATH')}, which is not this shell's"
        findings.append(ok("PATH", text))
    return findings


def _python(found: ServerProcess) -> Finding:
    there = Path(found.python)
    if not there.is_absolute() or there.parent.resolve() == Path(sys.executable).parent.resolve():
        return ok("process", f"the server is process {found.pid}, {found.python}")
    return warning(
        "process",
        f"the server is process {found.pid} and runs {there}: the versions above are of {sys.executable}",
        f"run the joblog of that environment: {there.parent / 'joblog'} doctor",
    )


def _agent(there: str | None, here: str | None) -> Finding:
    if there and server_process.agent_answers(there):
        return ok("ssh agent", f"the server reaches the one at {there}")
    if there:
        return warning(
            "ssh agent",
            f"the one the server was started with, {there}, is gone: keys with a passphrase cannot be used",
            f"{_AGAIN}, from a shell in which `ssh-add -l` lists the key",
        )
    if here:
        text = "this shell has one and the server has not: keys with a passphrase cannot be used there"
        return warning("ssh agent", text, f"{_AGAIN}, from this shell")
    return ok("ssh agent", "none: the server uses key files without a passphrase")


def exposure(found: ServerProcess, others: list[str]) -> Finding:
    """Who else can reach the server, which has no login: whoever does runs code as its user.

    Args:
        found: The server.
        others: Who else is logged in on this machine.
    """
    known = ", ".join(found.addresses)
    if not all(address.startswith(_LOOPBACK) for address in found.addresses):
        return warning(
            "exposure",
            f"it listens on {known}: whoever reaches this machine can run code as you; it has no login",
            "unset COVALENT_SERVER_IFACE_ANY, set dispatcher.address to localhost, and start it again",
        )
    if others:
        return warning(
            "exposure",
            f"{', '.join(others[:5])} can log in on this machine and so run code as you: it has no login",
            "run Covalent's server on a machine that is yours alone, or in a network namespace of your own",
        )
    return ok("exposure", f"it listens on {known} alone, and nobody else is logged in here")


async def all_of(address: str) -> tuple[list[Finding], ServerProcess | None]:
    """All of these checks, and the server's process where it can be seen."""
    findings = await serving(address)
    found = process(address)
    if isinstance(found, str):
        step = "what is said of ssh and Kubernetes is of this shell; run this as the server's user, beside it"
        return [*findings, unknown("process", found, step)], None
    return [
        *findings,
        *reach(found, dict(os.environ)),
        exposure(found, server_process.other_logins()),
    ], found
