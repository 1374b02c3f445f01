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
import re
import string
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from .index_view import IndexView

OUR_FOLDER = "joblog"
STREAMS = ("stdout", "stderr")
STATE_FILE = "state.json"
INDEX_FILE = "index.jsonl"
_PLAIN = frozenset((string.ascii_letters + string.digits + "._-").encode())
_LONGEST = 150
_CUT = re.compile(r"[\w.%-]{150}~[0-9a-f]{64}", re.ASCII)


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


def stored_sizes(folder: Path, index: IndexView | None) -> dict[str, int]:
    """The names of the outputs beside the node's own, from the names of their files, and their bytes.

    What is cut of a long one is looked up in the index, which may lack it.

    Raises:
        OSError: The folder cannot be read.
    """
    try:
        with os.scandir(folder / "files") as files:
            sizes = {file.name: _size(file) for file in files}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    cut = {file for file in sizes if _CUT.fullmatch(file)}
    known = {safe_name(name): name for name in index.names()} if cut and index else {}
    return {
        known.get(file, file) if file in cut else _full_name(file): size
        for file, size in sorted(sizes.items())
    }


def _size(file: os.DirEntry[str]) -> int:
    return file.stat(follow_symlinks=False).st_size if file.is_file(follow_symlinks=False) else 0


def file_names(name: str) -> list[str]:
    """What the file of an output may be called: where no more is known, ``name`` is the file's own."""
    return [safe_name(name), *([name] if _CUT.fullmatch(name) else [])]


def _full_name(file: str) -> str:
    return "" if file == "%" else unquote_to_bytes(file).decode("utf-8", "surrogateescape")


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
