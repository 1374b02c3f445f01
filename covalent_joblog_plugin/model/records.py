# SPDX-License-Identifier: Apache-2.0
"""The records that travel between rooms. All are frozen; all positions and sizes are bytes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

Stream = Literal["stdout", "stderr", "log"]
"""``log`` is stdout and stderr in one file."""

StreamCounts = dict[str, tuple[int, str]]
"""Stream → bytes and hexadecimal sha256, as counted where they were written."""

FINGERPRINT_BYTES = 64
"""Bytes compared at the head of a file and before a position."""


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file to watch.

    Attributes:
        path: Where the source finds it; opaque to everyone but the source.
        name: What the file is called beside the node; None derives it from ``path``.
        stream: ``stdout``, ``stderr`` or ``log``; None means an extra file.
        rank: Global rank on Slurm (``SLURM_PROCID``), node rank on Kubeflow.
        execution: Which start of the job wrote it, 0, 1, … in restart order.
    """

    path: str
    name: str | None = None
    stream: Stream | None = None
    rank: int = 0
    execution: int = 0


@dataclass(frozen=True, slots=True)
class Identity:
    """Which file it is.

    Attributes:
        inode: ``st_ino``.
        device: ``st_dev``; it counts only within one reader session, because it changes with every
            mount and every login node.
        session: Names the reader session in which ``device`` was seen.
        head: The first bytes of the file, at most ``FINGERPRINT_BYTES``.
    """

    inode: int
    device: int
    session: str
    head: bytes = b""

    def continues(self, earlier: Identity) -> bool:
        """Whether this can be the same file as ``earlier``, seen before.

        Within a session the file's numbers decide, and the head may only have grown. Across sessions
        the head decides; an empty head proves nothing, so then the inode does.
        """
        if not self.head.startswith(earlier.head):
            return False
        if self.session == earlier.session:
            return (self.inode, self.device) == (earlier.inode, earlier.device)
        return self.inode == earlier.inode or bool(earlier.head)


@dataclass(frozen=True, slots=True)
class FileStat:
    """What an author's ``stat_file`` may report: the size in bytes, and which file it is."""

    size: int
    identity: Identity | None = None


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """One file and the position from which its bytes are wanted.

    Attributes:
        path: As in the ``FileRef``.
        pos: Byte offset in the source file.
        size: At most so many bytes; -1 leaves it to the source.
        now: In a poll: look now and answer also when nothing is new. Others are answered for as in a long
            poll, when it is their turn to be looked at and there is news.
        stored: Bytes up to here are stored and are not asked for again: a source that holds what cannot be
            read twice may let them go.
    """

    path: str
    pos: int
    size: int = -1
    now: bool = True
    stored: int = 0


@dataclass(frozen=True, slots=True)
class Delta:
    """What a source found at a position.

    Attributes:
        path: As asked.
        pos: Byte offset of ``data`` in the source file, as asked.
        data: The bytes from ``pos`` on; empty when nothing is new.
        arrival: When they reached us, Unix seconds.
        size: The file's size in bytes when read; None where the source cannot tell.
        identity: Which file it was; None where the source cannot tell.
        before: Up to ``FINGERPRINT_BYTES`` bytes that stand right before ``pos``; None where the
            source cannot tell.
        mtime: Last modification on the source's clock, Unix seconds; None where unknown.
        hole: Bytes of a hole (never written, they read as NUL) at the head of the file.
        problem: Why the file cannot be read (not a regular file, no permission); empty when it can.
        seams: Breaks right at ``pos``, before ``data``, that only the source knows of; every answer for that
            position begins with the same ones.
    """

    path: str
    pos: int
    data: bytes
    arrival: float
    size: int | None = None
    identity: Identity | None = None
    before: bytes | None = None
    mtime: float | None = None
    hole: int = 0
    problem: str = ""
    seams: tuple[Seam, ...] = ()


class SeamKind(str, Enum):
    """Breaks a reader must know of."""

    RESTART = "restart"
    """The text from here on is of a later execution."""
    LATE = "late"
    """The text from here on was written by an earlier execution after the later one had begun."""
    TRUNCATED = "truncated"
    """The file was emptied; the text from here on is what was written afterwards."""
    REPLACED = "replaced"
    """Another file took its place; the text from here on is the new file's."""
    LOST = "lost"
    """Bytes are missing here."""
    HOLE = "hole"
    """Bytes that were never written are left out here; they would read as NUL."""
    CAPPED = "capped"
    """A limit was reached; later bytes of this file are not kept."""
    PAUSED = "paused"
    """The disk is at its reserve; storing goes on when there is room."""
    RESUMED = "resumed"
    """There is room again; nothing is missing unless a ``lost`` seam says so."""
    INTERRUPTED = "interrupted"
    """The server stopped while the job wrote; later bytes are not here."""
    INCOMPLETE = "incomplete"
    """The end of the output could not be read or stored."""


@dataclass(frozen=True, slots=True)
class Seam:
    """A break in one stored file.

    Attributes:
        kind: What happened.
        message: The same in words, for people.
        execution: Which start of the job the text after the seam belongs to.
        lost: How many bytes are missing or left out, where that is known.
    """

    kind: SeamKind
    message: str
    execution: int = 0
    lost: int | None = None
