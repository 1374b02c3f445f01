# SPDX-License-Identifier: Apache-2.0
"""Ports for daemons of the rigs."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress


def free_ports(count: int) -> list[int]:
    """Different ports of 127.0.0.1 that were free a moment ago.

    They are below those the kernel gives to connections, so that a daemon which is stopped finds its port
    free when it is started again.
    """
    with ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            with suppress(OSError):
                port = random.randrange(20_000, 32_000)
                held.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
        return ports


def free_port() -> int:
    """One such port."""
    return free_ports(1)[0]
