# SPDX-License-Identifier: Apache-2.0
"""How much room a disk has above its reserve."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import StoreFull

if TYPE_CHECKING:
    from pathlib import Path

_FRESH_SECONDS = 0.1


class Disk:
    """A disk; one for all nodes on it, asked at most every ``_FRESH_SECONDS``."""

    _disks: dict[int, Disk] = {}  # noqa: RUF012 - by device number, shared on purpose

    def __init__(self) -> None:
        self._asked = float("-inf")
        self._free = 0

    @classmethod
    def of(cls, folder: Path) -> Disk:
        """The disk of ``folder``; raises OSError."""
        return cls._disks.setdefault(folder.stat().st_dev, cls())

    def check(self, folder: Path, size: int, reserve: int) -> None:
        """Whether ``size`` bytes can be written into ``folder``, on this disk, so that ``reserve`` are left.

        Raises:
            StoreFull: They cannot.
            OSError: The disk does not say.
        """
        now = time.monotonic()
        if now - self._asked > _FRESH_SECONDS:
            numbers = os.statvfs(folder)
            self._free, self._asked = numbers.f_bavail * numbers.f_frsize, now
        if self._free - size < reserve:
            raise StoreFull(
                f"the disk of {folder} has {self._free >> 20} MiB left and {reserve >> 20} MiB are "
                "kept in reserve; make room, and storing output goes on"
            )

    def written(self, size: int) -> None:
        """Count what was written since the disk was asked."""
        self._free -= size
