# SPDX-License-Identifier: Apache-2.0
"""How result and verdict leave a pod: in its termination message, in its log, or by a store.

Standard library only, for Python 3.8 and later, but for fsspec where a store is used; it travels into the pod
with ``pod_runner``. The termination message is JSON: the runner's verdict (``verdict.py``) and

``status``
    Of the process, -n where signal n ended it.
``streams``
    ``stdout`` and ``stderr`` → bytes and hexadecimal sha256 of what it wrote; only with framing.
``where``
    Where rank 0's result is: ``inline`` (compressed, as base64, in ``data``), ``store`` (at the URL of
    ``result_url``), ``frames`` (compressed, in the log), ``file`` (in the pod at ``place``) or ``nowhere``.
``problem``
    Why it is not in the store.

A process that left no verdict has the kind ``died``.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
import zlib
from contextlib import suppress
from typing import Any, Callable

MESSAGE_BYTES = 4096
"""Kubernetes cuts termination messages there."""
FRAMES_BYTES = 1 << 20
"""Most compressed bytes that go through the log: 1.4 MB of it, where nodes rotate logs of 10 MiB."""
ARCHIVE_BYTES = 64 << 20
"""Most bytes of a result that is sent compressed: the receiver has to hold it."""

_SHORT = 200
"""Characters kept of any text that is cut last."""


class Message:
    """The termination message; its file is opened at once, and can be told of while that is possible."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.file: int | None = None
        try:
            self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        except OSError as error:
            sys.stderr.write(f"the result cannot be delivered, {path} cannot be written: {error}\n")

    def write(self, facts: dict[str, Any]) -> None:
        """Write the verdict, cut to what Kubernetes keeps."""
        if self.file is None:
            return
        text = fitted(facts)
        try:
            os.ftruncate(self.file, 0)
            os.pwrite(self.file, text, 0)
        except OSError as error:
            sys.stderr.write(f"the result cannot be delivered, {self.path} cannot be written: {error}\n")


def encoded(facts: dict[str, Any]) -> bytes:
    """As the termination message holds it."""
    return json.dumps(facts, separators=(",", ":")).encode("ascii")


def fitted(facts: dict[str, Any]) -> bytes:
    """The verdict in at most ``MESSAGE_BYTES``: the traceback's beginning goes first, then ends of texts."""
    facts = dict(facts)
    texts = [name for name, value in facts.items() if isinstance(value, str) and name not in ("kind", "data")]
    # An error text shows no more of a message than 1000 characters.
    order = [("message", 1000), ("traceback", 0), *((name, _SHORT) for name in texts), ("versions", 0)]
    for name, least in order:
        while len(encoded(facts)) > MESSAGE_BYTES and len(facts.get(name, "")) > least:
            if name == "versions":
                del facts[name]
                break
            # A character takes one to six bytes, or twelve.
            text, excess = facts[name], len(encoded(facts)) - MESSAGE_BYTES
            keep = max(least, len(text) - max(1, excess // 12))
            facts[name] = text[len(text) - keep :] if name == "traceback" else text[:keep]
    if len(encoded(facts)) > MESSAGE_BYTES:
        facts = {name: facts[name] for name in ("kind", "status", "streams") if name in facts}
    return encoded(facts)


def verdict_of(folder: str, status: int) -> dict[str, Any]:
    """The runner's verdict, or that there is none, and the exit status."""
    try:
        with open(os.path.join(folder, "verdict"), "rb") as file:
            facts = json.loads(file.read().decode("ascii"))
    except (OSError, ValueError):
        facts = {"kind": "died"}
    return dict(facts, status=status)


def store_problem(store: str) -> str:
    """Why the store cannot be used here, by trying it; known before the function has run for days.

    Empty if it can.
    """
    try:
        import fsspec

        filesystem, place = fsspec.core.url_to_fs(store + ".probe")
        filesystem.pipe_file(place, b"")
    except Exception as error:  # noqa: BLE001 - every driver raises its own
        return f"{type(error).__name__}: {error}"[:500]
    with suppress(Exception):  # it may have no right to delete, and need not
        filesystem.rm_file(place)
    return ""


def result_url(store: str, sha256: str) -> str:
    """Where a result is in the store: another result is elsewhere, should the container be started again."""
    return f"{store}.result-{sha256[:16]}"


def deliver(
    facts: dict[str, Any], path: str, options: dict[str, str], write: Callable[[bytes], None]
) -> dict[str, Any]:
    """Send the result off; what to add to the verdict.

    Args:
        facts: The verdict; ``size`` and ``sha256`` are the result's.
        path: The result.
        options: ``store``, ``result_dir`` and ``framing``, each as in ``pod_runner``.
        write: Writes into the log.
    """
    small = compressed(path) if facts["size"] <= ARCHIVE_BYTES else None
    if small is not None and len(small) < MESSAGE_BYTES:
        inline = {"where": "inline", "data": base64.b64encode(small).decode("ascii")}
        if len(encoded(dict(facts, **inline))) <= MESSAGE_BYTES:
            return inline
    problem = ""
    if options.get("store"):
        problem = put(path, result_url(options["store"], facts["sha256"]))
        if not problem:
            return {"where": "store"}
    told = {"problem": problem} if problem else {}
    if small is not None and options.get("framing") == "1":
        from framing import frames

        for line in frames(small):
            write(line)
        return dict(told, where="frames")
    if options.get("result_dir"):
        place = os.path.join(options["result_dir"], f"result-{facts['sha256'][:16]}")
        try:
            keep(path, place)
        except OSError as error:
            return dict(told, where="nowhere", problem=str(error))
        return dict(told, where="file", place=place)
    return dict(told, where="nowhere")


def keep(path: str, place: str) -> None:
    """Copy the result to where it stays; a part of it never has its name."""
    try:
        shutil.copyfile(path, place + ".part")
        os.replace(place + ".part", place)
    except OSError:
        with suppress(OSError):
            os.unlink(place + ".part")
        raise


def compressed(path: str) -> bytes | None:
    """The file, compressed; None where that is more than the log may take."""
    compressor = zlib.compressobj()
    parts, size = [], 0
    with open(path, "rb") as file:
        while size <= FRAMES_BYTES:
            data = file.read(256 * 1024)
            parts.append(compressor.compress(data) if data else compressor.flush())
            size += len(parts[-1])
            if not data:
                return b"".join(parts) if size <= FRAMES_BYTES else None
    return None


def put(path: str, url: str) -> str:
    """Copy the result into the store; why that failed, empty if it did not."""
    try:
        import fsspec

        # Not fsspec.open, which makes the folder: a mistyped one could become a new bucket.
        filesystem, place = fsspec.core.url_to_fs(url)
        with open(path, "rb") as source, filesystem.open(place, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
    except Exception as error:  # noqa: BLE001 - every driver raises its own
        return f"{type(error).__name__}: {error}"[:500]
    return ""
