# SPDX-License-Identifier: Apache-2.0
"""A value in Covalent's archive form, written without Covalent.

Two 8-byte big-endian offsets (of the text, of the data), a JSON header, the value's ``str`` in UTF-8, and
base64 of its pickle (``TransportableObject.serialize`` of Covalent 0.240).
"""

from __future__ import annotations

import binascii
import hashlib
import json
import pickle
import platform
from typing import IO, Any

from .failures import Halt, describe, report

STEP = 768 * 1024
"""Bytes turned into base64 at a time; a multiple of three, so that the pieces join."""


class NotWritten(OSError):  # noqa: N818 - says what is so
    """The result's file could not be written; what the value's own methods raise is not this."""


class Base64File:
    """A file that takes a pickle and keeps it as base64, with a hash over all that was written.

    The pickle of a large array passes through in pieces: neither it nor its base64 is ever whole in memory.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.hash = hashlib.sha256()
        self.size = 0
        self.rest = b""

    def plain(self, data: bytes) -> None:
        """Write bytes as they are."""
        try:
            self.file.write(data)
        except OSError as error:
            raise NotWritten(*error.args) from error
        self.hash.update(data)
        self.size += len(data)

    def write(self, data: Any) -> None:
        """Write the base64 of a pickler's bytes or buffer; up to two bytes wait for the next call."""
        view = pickle.PickleBuffer(data).raw()
        if self.rest:
            lacking = min(3 - len(self.rest), len(view))
            self.rest, view = self.rest + bytes(view[:lacking]), view[lacking:]
            if len(self.rest) < 3:
                return
            self.plain(binascii.b2a_base64(self.rest, newline=False))
        whole = len(view) - len(view) % 3
        for start in range(0, whole, STEP):
            self.plain(binascii.b2a_base64(view[start : min(start + STEP, whole)], newline=False))
        self.rest = bytes(view[whole:])

    def end(self) -> None:
        """Write what waits."""
        self.plain(binascii.b2a_base64(self.rest, newline=False))
        self.rest = b""


def text_of(value: Any, attribute: str) -> str | None:
    """A text attribute of any object, as it is when it can stand in JSON; else ""."""
    try:
        text = getattr(value, attribute, "")
    except Exception:  # noqa: BLE001 - a user's __getattr__ may raise anything
        return ""
    return text if isinstance(text, str) or text is None else ""


def write_archive(file: IO[bytes], value: Any) -> dict[str, Any]:
    """Write ``value``; its ``size`` in bytes and ``sha256`` as written.

    Raises:
        Halt: It cannot be pickled.
        OSError: It cannot be written.
    """
    import cloudpickle

    try:
        shown = str(value)
    except Exception:  # noqa: BLE001 - a user's __str__; the value can travel all the same
        shown = object.__repr__(value)
    header = {
        "py_version": platform.python_version(),
        "cloudpickle_version": cloudpickle.__version__,
        "attrs": {"doc": text_of(value, "__doc__"), "name": text_of(value, "__name__")},
    }
    head = json.dumps(header).encode("ascii")
    text = shown.encode("utf-8", "backslashreplace")
    archive = Base64File(file)
    archive.plain((16 + len(head)).to_bytes(8, "big") + (16 + len(head) + len(text)).to_bytes(8, "big"))
    archive.plain(head)
    archive.plain(text)
    try:
        cloudpickle.dump(value, archive)
    except NotWritten:
        raise
    except (Exception, SystemExit) as error:  # a user's __reduce__ may raise anything
        report(error)
        raise Halt(73, "unpicklable", result=type(value).__name__, **describe(error)) from error
    archive.end()
    return {"size": archive.size, "sha256": archive.hash.hexdigest()}
