# SPDX-License-Identifier: Apache-2.0
"""One stored output of a node: its true bytes, and where they lie.

A *piece* is at most ``PIECE_BYTES`` and is stored whole or not at all, so that what was taken can be counted
exactly when the disk fails half way.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import StoreError

from .growing_file import GrowingFile
from .layout import find_rest, rest_path
from .sanitise import UNFINISHED_BYTES, Carry, Piece, cut, sanitise, unfinished
from .views import Part, View

if TYPE_CHECKING:
    from pathlib import Path

PIECE_BYTES = 1 << 20


class RawOutput:
    """An output kept as the job wrote it: another rank's, or an extra file."""

    __slots__ = ("_file",)

    def __init__(self, path: Path) -> None:
        """Open or make it; raises OSError where that fails."""
        self._file = GrowingFile.create(path)

    @property
    def length(self) -> int:
        """Committed length in bytes: the cursor of the next byte."""
        return self._file.length

    @property
    def end(self) -> int:
        """The cursor of the next byte handed in."""
        return self._file.length

    @property
    def files(self) -> list[GrowingFile]:
        """The files it consists of."""
        return [self._file]

    def cost(self, size: int) -> int:
        """How many bytes storing ``size`` bytes takes of the disk."""
        return size

    def store(self, data: bytes) -> None:
        """Store one piece; raises OSError or StoreError, and then nothing of it is stored."""
        self._file.append(data)

    def break_off(self) -> None:
        """A break follows."""

    def flush(self) -> None:
        """Write what was held back."""

    def view(self) -> View:
        """What is committed now."""
        return View((Part(0, self._file.path, self._file.length),))


class TextOutput:
    """An output Covalent shows: an asset of valid text, and from where that is not enough the true bytes.

    The asset has the length of the true bytes until it ends at ``limit``. From the first byte it cannot show
    as it is, or its end, the true bytes go on in one file, ``rest``, which is written before the asset:
    whatever a crash leaves, the asset is never ahead of the bytes it stands for.
    """

    __slots__ = ("_asset", "_carry", "_folder", "_full", "_limit", "_name", "_rest", "_rest_start")

    def __init__(self, name: str, asset: Path, folder: Path, limit: int) -> None:
        """Open or make it, and cut off the half character a killed server left; raises OSError."""
        self._name = name
        self._folder = folder
        self._limit = limit
        self._carry = Carry()
        self._asset = GrowingFile.create(asset)
        tail = self._asset.read(max(0, self._asset.length - UNFINISHED_BYTES), UNFINISHED_BYTES)
        self._asset.length -= unfinished(tail)
        self._asset.cut_back()
        self._rest: GrowingFile | None = None
        self._rest_start = 0
        self._full = False
        if found := find_rest(folder, name):
            self._resume(*found)

    def _resume(self, start: int, path: Path) -> None:
        if start > self._asset.length:
            path.unlink()  # a piece that was never complete: its beginning did not reach the asset
            return
        self._rest, self._rest_start = GrowingFile.create(path), start
        while True:
            missing = self._rest.read(self._asset.length - start, PIECE_BYTES)
            text = sanitise(Carry(), missing).text
            fits = cut(text, self._limit - self._asset.length)
            self._full = fits < len(text)
            if not fits:
                break
            self._asset.append(text[:fits])
        if not self._full:
            self._rest.length = self._asset.length - start
            self._rest.cut_back()

    @property
    def length(self) -> int:
        """Committed length of the true bytes: the cursor of the next one."""
        return self._asset.length if self._rest is None else self._rest_start + self._rest.length

    @property
    def end(self) -> int:
        """The cursor of the next byte handed in: the length and what is held back."""
        return self.length + len(self._carry)

    @property
    def files(self) -> list[GrowingFile]:
        """The files it consists of, the asset first."""
        return [self._asset] if self._rest is None else [self._asset, self._rest]

    def cost(self, size: int) -> int:
        """How many bytes storing ``size`` bytes takes of the disk, at most but for one piece."""
        return size if self._full or self._rest is None else 2 * size

    def store(self, data: bytes) -> None:
        """Store one piece; raises OSError or StoreError, and then nothing of it is stored or held."""
        piece = self._prepare(data)
        fits = cut(piece.text, self._limit - self._asset.length)
        start = self._differs(piece, fits)
        rest = self._rest
        try:
            if start < len(piece.source):
                rest = rest or GrowingFile.create(self._rest_path(start))
                rest.write(piece.source[start:])
            if fits:
                self._asset.write(piece.text[:fits])
        except (OSError, StoreError):
            self._undo(rest)
            raise
        if rest is not None:
            rest.length += len(piece.source) - start
            self._rest_start = self._rest_start if self._rest else self._asset.length + start
            self._rest = rest
        self._asset.length += fits
        self._carry = piece.carry
        self._full = self._full or fits < len(piece.text)

    def _prepare(self, data: bytes) -> Piece:
        if self._full:
            return Piece(self._carry.broken + self._carry.held + data, b"", None, Carry())
        return sanitise(self._carry, data)

    def _differs(self, piece: Piece, fits: int) -> int:
        """From where in the piece the true bytes go into the rest."""
        if self._rest is not None:
            return 0
        return fits if piece.first_bad is None else min(fits, piece.first_bad)

    def _rest_path(self, start: int) -> Path:
        return rest_path(self._folder, self._name, self._asset.length + start)

    def _undo(self, rest: GrowingFile | None) -> None:
        # Where this fails too, the next write cuts it off.
        with suppress(OSError, StoreError):
            if rest is not None and rest is self._rest:
                rest.cut_back()
            elif rest is not None:
                rest.path.unlink()

    def break_off(self) -> None:
        """A break follows: what is held back will not be finished."""
        self._carry = self._carry.break_off()

    def flush(self) -> None:
        """Write what a break left behind; raises as ``store`` does."""
        if self._carry:
            self.store(b"")

    def view(self) -> View:
        """What is committed now; nothing may be stored meanwhile."""
        if self._rest is None:
            return View((Part(0, self._asset.path, self._asset.length),))
        parts = (
            Part(0, self._asset.path, self._rest_start),
            Part(self._rest_start, self._rest.path, self._rest.length),
        )
        return View(parts)
