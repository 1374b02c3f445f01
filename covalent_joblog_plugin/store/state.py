# SPDX-License-Identifier: Apache-2.0
"""Which server instance, as which process, writes a node's output, and what became of it: ``state.json``."""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from enum import Enum
from pathlib import Path
from typing import Any

INSTANCE = uuid.uuid4().hex
"""Names this process; a restarted server is another instance."""
STARTED = time.time()
"""When this process began to serve, Unix seconds: the web server's hook imports this module."""


class NodeState(str, Enum):
    """What has become of a node's output."""

    LIVE = "live"
    """This server writes it."""
    CLOSED = "closed"
    """It is complete, or as complete as it will be; seams say what is missing."""
    INTERRUPTED = "interrupted"
    """The server stopped while the job wrote."""
    ORPHANED = "orphaned"
    """Another server instance left the node RUNNING; Covalent never ends it."""
    ABSENT = "absent"
    """Nothing of ours was ever stored for it."""


def writer() -> dict[str, Any]:
    """What tells this process from all others, on all machines; JSON."""
    pid = os.getpid()
    return {"host": socket.gethostname(), "boot": _boot(), "pid": pid, "started": _started(pid)}


def writer_lives(known: dict[str, Any] | None) -> bool | None:
    """Whether the process that ``writer`` described still runs; None where that cannot be known here."""
    if known is None or known.get("host") != socket.gethostname():
        return None
    return known.get("boot") == _boot() and known.get("started") == _started(int(known["pid"]))


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def _started(pid: int) -> int | None:
    """When a process started, in clock ticks since the boot; None where there is none, or only its rest."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in brackets and may hold brackets itself.
    values = line[line.rindex(b")") + 2 :].split()
    return None if values[0] in b"ZX" else int(values[19])


def read_state(path: Path) -> dict[str, Any] | None:
    """What ``path`` holds; None where it does not exist.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not ours.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    state = json.loads(text)
    if not isinstance(state, dict):
        raise ValueError(f"{path} does not hold a JSON object")  # noqa: TRY004 - the content is at fault
    return state


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Put ``state`` into ``path`` (0600) at once: a reader sees the old or the new, never a part.

    Raises:
        OSError: It could not be written; the old one stays.
        TypeError: It is not JSON.
    """
    data = json.dumps(state).encode()
    fresh = path.with_name(f".{path.name}.{INSTANCE}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o600)
        file.write(data)
    fresh.replace(path)
