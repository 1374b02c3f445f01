# SPDX-License-Identifier: Apache-2.0
"""Where to connect to. Loads no ssh library: that takes half a second, which an event loop has not."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class SshEndpoint:
    """Everything that changes the connection; None leaves it to the ssh configuration.

    Attributes:
        host: Host name, address or an alias of the ssh configuration.
        port: TCP port.
        username: Login name there.
        client_keys: Files of private keys; empty means the agent and the usual files.
        client_certs: Files of certificates for those keys.
        known_hosts: Files of known host keys; empty means the user's and the system's own.
        check_host_key: False accepts any host key.
        ssh_config: Configuration file; True is the user's own, False is none.
        jump_host: ``[user@]host[:port]`` to go through.
        connect_timeout: Seconds for the connection and for the login, each.
        keepalive_interval: Seconds between signs of life; three missed ones end the connection.
    """

    host: str
    port: int | None = None
    username: str | None = None
    client_keys: tuple[str, ...] = ()
    client_certs: tuple[str, ...] = ()
    known_hosts: tuple[str, ...] = ()
    check_host_key: bool = True
    ssh_config: str | bool = True
    jump_host: str | None = None
    connect_timeout: float = 30.0
    keepalive_interval: float = 15.0

    def __str__(self) -> str:
        """``user@host:port``, as far as it is given here."""
        user = f"{self.username}@" if self.username else ""
        return f"{user}{self.host}:{self.port}" if self.port else f"{user}{self.host}"

    def connect_options(self) -> dict[str, Any]:
        """Keyword arguments for ``asyncssh.connect``; reads key files.

        Raises:
            OptionError: A file named in an option is not there.
        """
        options: dict[str, Any] = {
            "connect_timeout": self.connect_timeout,
            "login_timeout": self.connect_timeout,
            "keepalive_interval": self.keepalive_interval,
            "keepalive_count_max": 3,
            "agent_forwarding": False,
        }
        if self.port is not None:
            options["port"] = self.port
        if self.username is not None:
            options["username"] = self.username
        if self.client_keys:
            options["client_keys"] = self.files("client_keys", self.client_keys)
        if self.client_certs:
            options["client_certs"] = self.files("client_certs", self.client_certs)
        if self.jump_host is not None:
            options["tunnel"] = self.jump_host
        if isinstance(self.ssh_config, str):
            options["config"] = self.files("ssh_config", (self.ssh_config,))
        elif not self.ssh_config:
            options["config"] = None
        return options

    def files(self, option: str, names: Sequence[str]) -> list[str]:
        """Files named in an option, as absolute paths.

        Raises:
            OptionError: One is not there or cannot be read.
        """
        found = [str(Path(name).expanduser()) for name in names]
        for name in found:
            if not os.access(name, os.R_OK):
                why = "cannot be read" if Path(name).exists() else "does not exist"
                raise OptionError(
                    f"{option}: {name} {why} on {socket.gethostname()}, where the Covalent server runs; "
                    "name a file the server's user can read"
                )
        return found
