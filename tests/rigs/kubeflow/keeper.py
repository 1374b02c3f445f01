# SPDX-License-Identifier: Apache-2.0
"""Keep the node's log files of containers that are gone: python keeper.py PODS KEPT.

The kubelet removes a container's files with the container, of which it keeps one dead one, and packs those it
has rotated. A second name of each, ``KEPT/<pod uid>/<container>/<restart>/<inode>``, outlives all of that.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

LOOKS_EVERY = 0.1  # seconds; a file is rotated 3 s after the last one at the earliest


def keep(pods: Path, kept: Path, seen: set[int]) -> None:
    """Give every log file that has none a second name; ``seen`` are the inodes that have one."""
    for pod in _entries(pods):
        for container in _entries(pod.path):
            for entry in _entries(container.path):
                restart, _, rest = entry.name.partition(".log")
                if entry.inode() in seen or rest.endswith((".gz", ".tmp")):
                    continue
                folder = kept / pod.name.rpartition("_")[2] / container.name / restart
                folder.mkdir(parents=True, exist_ok=True)
                # Gone meanwhile, or kept by whoever looked at the same time.
                with contextlib.suppress(FileNotFoundError, FileExistsError):
                    os.link(entry.path, folder / str(entry.inode()))
                    seen.add(entry.inode())


def _entries(folder: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def main(pods: Path, kept: Path) -> None:
    """Look for ever."""
    seen: set[int] = set()
    while True:
        keep(pods, kept, seen)
        time.sleep(LOOKS_EVERY)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
