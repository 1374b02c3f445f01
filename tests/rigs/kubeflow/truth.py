# SPDX-License-Identifier: Apache-2.0
"""What a container wrote, from the files its node keeps: ``<stamp> <stream> <P|F> <text>`` a record."""

from __future__ import annotations

import gzip
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Record:
    """One record of the container runtime; a ``full`` one ends at a newline that is not in its text."""

    stamp: str
    stream: str
    full: bool
    text: bytes

    @property
    def data(self) -> bytes:
        """What was written."""
        return self.text + b"\n" if self.full else self.text


def read_records(folder: Path, restart: int) -> list[Record]:
    """All records of one instance of a container, in the order of its files, the rotated ones first."""
    return [parse(line) for data in _stable_files(folder, restart) for line in data.split(b"\n") if line]


def parse(line: bytes) -> Record:
    """A line of a log file, without its newline."""
    stamp, stream, flag, text = line.split(b" ", 3)
    return Record(stamp.decode(), stream.decode(), flag == b"F", text)


def _stable_files(folder: Path, restart: int) -> list[bytes]:
    """The contents of the files, read again when the kubelet has rotated or packed one meanwhile."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        before = _names(folder, restart)
        try:
            found = [_read(path) for path in before]
        except (FileNotFoundError, EOFError):
            continue
        if _names(folder, restart) == before:
            return found
    raise TimeoutError(f"the log files of {folder} change faster than they can be read")


def _names(folder: Path, restart: int) -> list[Path]:
    """The files from old to new: ``0.log.20261201-101500.gz``, ``0.log.20261201-101800``, ``0.log``."""
    current = folder / f"{restart}.log"
    rotated = [path for path in folder.glob(f"{restart}.log.*") if path.suffix != ".tmp"]
    # While a file is being packed it is there twice.
    packed = {path.name for path in rotated if path.suffix == ".gz"}
    return [*sorted(path for path in rotated if f"{path.name}.gz" not in packed), current]


def _read(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data
