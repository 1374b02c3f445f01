# SPDX-License-Identifier: Apache-2.0
"""What a container wrote, from the files its node made: ``<stamp> <stream> <P|F> <text>`` a record."""

from __future__ import annotations

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

    @property
    def nanoseconds(self) -> str:
        """The stamp in a form that sorts: trailing zeros of its fraction are left out of the file."""
        whole, _, fraction = self.stamp.removesuffix("Z").partition(".")
        return f"{whole}.{fraction:0<9}"


def read_records(folder: Path) -> list[Record]:
    """All records of one instance of a container from its files, in the order in which these were begun."""
    files = [_parse(path.read_bytes()) for path in folder.iterdir()]
    begun = sorted((records for records in files if records), key=lambda records: records[0].nanoseconds)
    return [record for records in begun for record in records]


def _parse(data: bytes) -> list[Record]:
    # What follows the last newline is a record that is being written.
    lines = data.split(b"\n")[:-1]
    return [parse(line) for line in lines]


def parse(line: bytes) -> Record:
    """A line of a log file, without its newline."""
    stamp, stream, flag, text = line.split(b" ", 3)
    return Record(stamp.decode(), stream.decode(), flag == b"F", text)
