# SPDX-License-Identifier: Apache-2.0
"""Real files read the way every source reads them, one answer at a time."""

import os
from pathlib import Path

from covalent_joblog_plugin.model.records import FINGERPRINT_BYTES, Delta, Identity


def look(path: Path, pos: int, size: int = -1, session: str = "s") -> Delta:
    """One answer for ``path`` at ``pos``, as a source gives it."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return Delta(str(path), pos, b"", 0.0)
    try:
        stat = os.fstat(fd)
        data = os.pread(fd, size if size >= 0 else 1 << 30, pos)
        start = max(0, pos - FINGERPRINT_BYTES)
        before = os.pread(fd, pos - start, start)
        identity = Identity(stat.st_ino, stat.st_dev, session, os.pread(fd, FINGERPRINT_BYTES, 0))
        hole = min(os.lseek(fd, 0, os.SEEK_DATA), stat.st_size) if stat.st_size else 0
        return Delta(str(path), pos, data, 0.0, stat.st_size, identity, before, stat.st_mtime, hole)
    finally:
        os.close(fd)
