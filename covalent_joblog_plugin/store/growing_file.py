# SPDX-License-Identifier: Apache-2.0
"""A file that only grows, by whole pieces."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class GrowingFile:
    """A file of ours with its *committed* length: what readers may be shown.

    ``stat`` sees a write while it is under way, and what is left of one that failed; the committed length
    moves only when a piece is complete. No descriptor stays open: a server may watch a thousand nodes.

    Attributes:
        path: Where it is.
        length: Committed length in bytes.
    """

    __slots__ = ("length", "path")

    def __init__(self, path: Path, length: int = 0) -> None:
        self.path = path
        self.length = length

    @classmethod
    def create(cls, path: Path) -> GrowingFile:
        """Open the file at ``path``, or make it (0600); what it holds counts as committed.

        Raises:
            OSError: It cannot be made or opened, or is a link.
        """
        descriptor = os.open(path, _FLAGS | os.O_CREAT, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            return cls(path, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)

    def write(self, data: bytes) -> None:
        """Write ``data`` behind the committed length, which does not move: all of it or nothing.

        Raises:
            OSError: It could not be written; the file is as before.
            StoreError: Somebody else removed or shortened the file.
        """
        with self._open() as descriptor:
            at = self.length
            try:
                view = memoryview(data)
                while view:
                    written = os.pwrite(descriptor, view, at)
                    view, at = view[written:], at + written
            except OSError:
                # A rest that cannot be cut off now is cut off by the next write.
                with suppress(OSError):
                    os.ftruncate(descriptor, self.length)
                raise

    def append(self, data: bytes) -> None:
        """Write ``data`` and commit it; raises as ``write`` does."""
        self.write(data)
        self.length += len(data)

    def cut_back(self) -> None:
        """Cut off what is not committed; raises as ``write`` does."""
        with self._open():
            pass

    def read(self, start: int, size: int) -> bytes:
        """At most ``size`` committed bytes from ``start`` on.

        Raises:
            OSError: It cannot be read.
        """
        size = min(size, self.length - start)
        if size <= 0:
            return b""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, size, start)
        finally:
            os.close(descriptor)

    @contextmanager
    def _open(self) -> Iterator[int]:
        try:
            descriptor = os.open(self.path, _FLAGS)
        except FileNotFoundError as error:
            raise StoreError(
                f"{self.path} was removed while the job wrote; its later output is not stored"
            ) from error
        try:
            size = os.fstat(descriptor).st_size
            if size < self.length:
                raise StoreError(
                    f"{self.path} was shortened from {self.length} to {size} bytes by somebody else; "
                    "later output is not stored"
                )
            if size > self.length:
                os.ftruncate(descriptor, self.length)
            yield descriptor
        finally:
            os.close(descriptor)
