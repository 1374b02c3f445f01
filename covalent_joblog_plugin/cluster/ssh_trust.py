# SPDX-License-Identifier: Apache-2.0
"""Which host keys are trusted, and what a failed connection means in words."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import asyncssh

from covalent_joblog_plugin.model.errors import AuthenticationError, JobLogError, OptionError, TransportError

if TYPE_CHECKING:
    from .ssh_endpoint import SshEndpoint

SYSTEM_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"


def known_host_files(endpoint: SshEndpoint, options: dict[str, Any]) -> list[str]:
    """Files of known host keys, those of the ssh configuration included; reads that.

    asyncssh takes ``UserKnownHostsFile none`` for "accept any key"; it means no file.

    Raises:
        OptionError: A file named in the option is not there.
    """
    if endpoint.known_hosts:
        return endpoint.files("known_hosts", endpoint.known_hosts)
    # Only connect() takes a missing config for the user's own file; here it has to be asked for.
    resolved = {"config": (), **{name: value for name, value in options.items() if name != "tunnel"}}
    found = asyncssh.SSHClientConnectionOptions(host=endpoint.host, **resolved).known_hosts
    files = [str(name) for name in found] if isinstance(found, (list, tuple)) else []
    if found is not None and not files:
        files = ["~/.ssh/known_hosts", SYSTEM_KNOWN_HOSTS]
    return [name for name in map(os.path.expanduser, files) if os.access(name, os.R_OK)]


class HostKeys(asyncssh.SSHClient):
    """Decides about one connection's host key and remembers what was wrong with it."""

    def __init__(self, files: list[str]) -> None:
        self.lost = False
        self.refused: str | None = None
        """Fingerprint of the key that was not accepted."""
        self._files = files
        self._known: set[str] = set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncssh's interface
        """Called by asyncssh when the connection is gone."""
        self.lost = True

    def lookup(self, host: str, addr: str, port: int | None) -> tuple[list[Any], list[Any], list[Any]]:
        """Known keys, authorities and revoked keys of a host; called by asyncssh."""
        # With no file at all asyncssh would accept nothing but say so by an exception of its own.
        found = asyncssh.match_known_hosts(self._files or b"", host, addr, port)
        keys, authorities, revoked = (list(part) for part in found[:3])
        self._known = {key.get_fingerprint() for key in keys}
        return keys, authorities, revoked

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002
        """Called by asyncssh for a key that no file knows."""
        self.refused = f"{key.get_algorithm()} {key.get_fingerprint()}"
        return False

    def trouble(self, endpoint: SshEndpoint) -> str:
        """What is wrong with the host key, in words."""
        where = ", ".join(self._files) or "any known_hosts file"
        port = f"-p {endpoint.port} " if endpoint.port else ""
        target = f"{endpoint.username}@{endpoint.host}" if endpoint.username else endpoint.host
        if self._known:
            return (
                f"the host key of {endpoint} has changed: it shows {self.refused}, {where} has another one. "
                "Somebody may stand in between. Ask the site; if the change is genuine, remove the old entry "
                f"(ssh-keygen -R {endpoint.host}) and run `ssh {port}{target}` once"
            )
        return (
            f"the host key of {endpoint} is not known ({self.refused}; looked in {where}). "
            f"Compare that fingerprint with the one your site publishes and run `ssh {port}{target}` once, "
            "as the user the Covalent server runs as"
        )


def _jump(endpoint: SshEndpoint) -> str:
    """What to know of the jump host, where there is one."""
    if endpoint.jump_host is None:
        return ""
    return (
        f". If that was the jump host {endpoint.jump_host}: `known_hosts` and `client_keys` are for the "
        "login node alone; describe the jump host in the ssh configuration of the user the Covalent server "
        f"runs as, and run `ssh {endpoint.jump_host}` there once"
    )


def explain(error: Exception, endpoint: SshEndpoint, keys: HostKeys | None = None) -> JobLogError:  # noqa: PLR0911
    """Turn what a connection attempt raised into an error that says what to do."""
    if isinstance(error, JobLogError):
        return error
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        if keys is not None and keys.refused:
            return AuthenticationError(keys.trouble(endpoint))
        return AuthenticationError(f"{endpoint}: {error}{_jump(endpoint)}")
    if isinstance(error, asyncssh.PermissionDenied):
        offered = ", ".join(endpoint.client_keys) or "the agent's keys and the usual key files"
        return AuthenticationError(
            f"{endpoint} refused the login ({error.reason}); offered were {offered}. Check `username` and "
            f"`client_keys`, and that `ssh {endpoint.host}` works for the user the Covalent server runs as"
            f"{_jump(endpoint)}"
        )
    if isinstance(error, (asyncssh.KeyImportError, asyncssh.KeyEncryptionError)):
        return OptionError(
            f"a key file for {endpoint} cannot be used: {error}. A key with a passphrase belongs in an "
            "ssh agent that the Covalent server can reach (SSH_AUTH_SOCK)"
        )
    if isinstance(error, socket.gaierror):
        jump = f" or jump host {endpoint.jump_host!r}" if endpoint.jump_host else ""
        return OptionError(
            f"host {endpoint.host!r}{jump} is not known ({error.strerror}); use a name or alias for which "
            f"`ssh {endpoint.host}` works on the machine the Covalent server runs on"
        )
    if isinstance(error, asyncssh.ConfigParseError):
        return OptionError(f"the ssh configuration for {endpoint} cannot be read: {error}")
    reason = str(error) or type(error).__name__
    if isinstance(error, (TimeoutError, asyncssh.TimeoutError)):
        reason = f"no answer within {endpoint.connect_timeout:g} s"
    return TransportError(
        f"cannot connect to {endpoint}: {reason}; it will be tried again. "
        f"See that `ssh {endpoint.host}` works on the machine the Covalent server runs on"
    )
