# SPDX-License-Identifier: Apache-2.0
"""What can be read of one output at one moment; whoever writes it goes on meanwhile.

A view names files and committed lengths. It is made at once, read later, and what it gives does not depend on
what is written after it was made.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import OutputGone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .index_view import IndexView
    from .state import NodeState


@dataclass(frozen=True, slots=True)
class Part:
    """One file of an output.

    Attributes:
        start: The cursor of its first byte.
        path: Where it is.
        length: How many of its bytes count.
    """

    start: int
    path: Path
    length: int


@dataclass(frozen=True, slots=True)
class View:
    """The true bytes of one output, up to a committed length.

    Attributes:
        parts: Its files, in order and without a gap.
    """

    parts: tuple[Part, ...] = ()

    @property
    def total(self) -> int:
        """Length in bytes: the cursor of the next byte that comes."""
        return self.parts[-1].start + self.parts[-1].length if self.parts else 0

    def read(self, cursor: int, size: int) -> bytes:
        """At most ``size`` bytes from ``cursor`` on; blocks on the disk for no more than these.

        Raises:
            OutputGone: Somebody removed or shortened the file.
            OSError: It cannot be read.
        """
        pieces = []
        for part in self.parts:
            wanted = min(size, part.start + part.length - cursor)
            if wanted > 0:
                with _opened(part.path) as descriptor:
                    piece = _exactly(descriptor, wanted, cursor - part.start)
                if len(piece) < wanted:
                    raise OutputGone(f"{part.path} was shortened by somebody else; its later bytes are lost")
                pieces.append(piece)
                cursor, size = cursor + wanted, size - wanted
        return b"".join(pieces)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One output of a node at one moment.

    Attributes:
        state: What has become of the node's output.
        view: The output's bytes.
        index: The arrival times and breaks of the node's outputs; every break within ``view`` is in it.
    """

    state: NodeState
    view: View = field(default_factory=View)
    index: IndexView | None = None


def read_file(path: Path, start: int, size: int) -> bytes:
    """At most ``size`` bytes of a file of ours from ``start`` on.

    Raises:
        OutputGone: Somebody removed it.
        OSError: It cannot be read, or is a link.
    """
    with _opened(path) as descriptor:
        return _exactly(descriptor, size, start)


def file_length(path: Path) -> int:
    """How long a file is; 0 where there is none, or something else than a file, in bytes."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a file that is where its name says: not behind a link, and not something that could block."""
    if os.path.realpath(path) != str(path):
        raise OutputGone(f"{path} was exchanged for a link by somebody else; links are not followed")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise OutputGone(f"{path} was removed by somebody else") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OutputGone(f"{path} is not a file any more")
        yield descriptor
    finally:
        os.close(descriptor)


def _exactly(descriptor: int, size: int, start: int) -> bytes:
    """Read ``size`` bytes; fewer only at the end of the file."""
    data = os.pread(descriptor, size, start)
    while len(data) < size and (more := os.pread(descriptor, size - len(data), start + len(data))):
        data += more
    return data
