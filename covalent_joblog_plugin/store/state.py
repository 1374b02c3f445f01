# SPDX-License-Identifier: Apache-2.0
"""Which server instance writes a node's output, and whether it has ended: ``state.json``."""

from __future__ import annotations

import json
import os
import time
import uuid
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

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
