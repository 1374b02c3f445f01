# SPDX-License-Identifier: Apache-2.0
"""The files that grow right now, so that whoever serves them can stop at the committed length."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .layout import OUR_FOLDER
from .sanitise import UNFINISHED_BYTES, unfinished

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .growing_file import GrowingFile

ASSETS = ("stdout.log", "stderr.log")
_live: dict[str, GrowingFile] = {}


def add(files: Iterable[GrowingFile]) -> None:
    """Files of ours, by their real paths, that begin to grow."""
    _live.update((str(file.path), file) for file in files)


def remove(files: Iterable[GrowingFile]) -> None:
    """They have stopped growing."""
    for file in files:
        _live.pop(str(file.path), None)


def length(path: str) -> int | None:
    """The committed length (bytes) of the file at the real path ``path``; None unless it grows."""
    file = _live.get(path)
    return None if file is None else file.length


def torn_length(path: str) -> int | None:
    """The length (bytes) at which a node's asset must end if a killed server left it inside a character.

    None where nothing has to be cut. Blocks on the disk.

    Raises:
        OSError: The file cannot be read.
    """
    asset = Path(path)
    if asset.name not in ASSETS or not (asset.parent / OUR_FOLDER).is_dir():
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, UNFINISHED_BYTES, max(0, size - UNFINISHED_BYTES))
    finally:
        os.close(descriptor)
    return size - unfinished(tail) if unfinished(tail) else None
