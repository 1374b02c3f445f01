# SPDX-License-Identifier: Apache-2.0
"""Where the files of a node lie.

<node folder>/                 Covalent's, made by it, or by us (0700) for a redispatched node
    stdout.log, stderr.log     Covalent's assets: rank 0's output as valid text
    joblog/                    ours, 0700, files 0600
        state.json             which server instance writes, and whether it has ended
        index.jsonl            when what arrived, and the seams
        stdout.from-<n>        the true bytes of stdout from cursor <n> on, where the asset lacks them
        files/<name>           every other output, as the job wrote it
"""

from __future__ import annotations

import hashlib
import os
import string
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

OUR_FOLDER = "joblog"
STATE_FILE = "state.json"
INDEX_FILE = "index.jsonl"
_PLAIN = frozenset((string.ascii_letters + string.digits + "._-").encode())
_LONGEST = 150


def safe_name(name: str) -> str:
    """A file name for any text: it never leaves its folder, and two texts never share one.

    Bytes other than ASCII letters, digits, ``_``, ``-`` and inner dots are written as ``%XX``; a long name is
    cut and ended by ``~`` and its SHA-256.
    """
    raw = name.encode("utf-8", "surrogatepass")
    plain = "".join(
        chr(byte) if byte in _PLAIN and (at or byte != 0x2E) else f"%{byte:02X}"
        for at, byte in enumerate(raw)
    )
    if len(plain) > _LONGEST:
        return f"{plain[:_LONGEST]}~{hashlib.sha256(raw).hexdigest()}"
    return plain or "%"


def make_folder(path: Path) -> None:
    """Make a folder of ours (0700) in an existing one.

    Raises:
        OSError: It cannot be made, or is a link.
    """
    path.mkdir(exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def rest_path(folder: Path, name: str, start: int) -> Path:
    """The file of the true bytes of ``name`` from cursor ``start`` on."""
    return folder / f"{name}.from-{start}"


def find_rest(folder: Path, name: str) -> tuple[int, Path] | None:
    """That file with its start, if there is one."""
    prefix = f"{name}.from-"
    for path in folder.glob(f"{prefix}*"):
        return int(path.name[len(prefix) :]), path
    return None
