# SPDX-License-Identifier: Apache-2.0
"""Exceptions as text, and what a pickle that cannot be loaded asks for."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

TEXT_LIMIT = 64 * 1024
"""Characters kept of a message or traceback in the verdict; stderr has all of it."""


class Halt(Exception):  # noqa: N818 - an outcome
    """The outcome is known: ``status`` is the exit status, ``facts`` are for the verdict."""

    def __init__(self, status: int, kind: str, **facts: Any) -> None:
        super().__init__(kind)
        self.status = status
        self.facts = dict(facts, kind=kind)


def describe(error: BaseException) -> dict[str, Any]:
    """Type, message, traceback and missing module of an exception, whatever its own methods do."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        message = str(error)
    except BaseException:  # noqa: BLE001 - a user's __str__ may raise anything
        message = "<exception str() failed>"
    try:
        text = "".join(traceback.format_exception(kind, error, error.__traceback__))
    except BaseException:  # noqa: BLE001 - users' methods run here too, and memory may be gone
        text = ""
    facts = {"type": name, "message": message[:TEXT_LIMIT], "traceback": text[-TEXT_LIMIT:]}
    if isinstance(error, ModuleNotFoundError) and error.name:
        facts["module"] = str(error.name)
    return facts


def report(error: BaseException) -> None:
    """Put the traceback on stderr as Python would, without the frames of this package."""
    ours = os.path.dirname(__file__)
    trace = error.__traceback__
    while trace is not None and os.path.dirname(trace.tb_frame.f_code.co_filename) == ours:
        trace = trace.tb_next
    error.__traceback__ = trace
    try:
        sys.excepthook(type(error), error, trace)
    except BaseException:  # noqa: BLE001 - a hook of the user's; its own failure is not the one to tell
        sys.__excepthook__(type(error), error, trace)


def strings_in(data: bytes) -> list[str]:
    """The strings of a pickle in the order of their use, as far as it can be read."""
    import pickletools

    used: list[str] = []
    memo: dict[Any, Any] = {}
    last: Any = None
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "MEMOIZE":
                memo[len(memo)] = last
            elif opcode.name in ("BINPUT", "LONG_BINPUT"):
                memo[argument] = last
            else:
                last = memo.get(argument) if opcode.name in ("BINGET", "LONG_BINGET") else argument
                if isinstance(last, str):
                    used.append(last)
    except ValueError:
        return used
    return used


def need_of_covalent(strings: list[str]) -> str:
    """What in a function asks for Covalent: ``electron``, ``module NAME`` carried by value, or ``name``.

    cloudpickle names the module of a function, and a module carried by value, before the names they use.
    """
    if "covalent._workflow.electron" in strings:
        return "electron"
    modules = []
    for before, text in zip(strings, strings[1:]):
        if before == "subimport" and text == "covalent":
            break
        if before in ("__module__", "dynamic_subimport"):
            modules.append(text)
    return f"module {modules[-1]}" if len(set(modules)) > 1 else "name"


def versions(strings: list[str]) -> dict[str, str]:
    """Installed versions of those array libraries that a pickle names."""
    from importlib import metadata

    found = {}
    for name in {text.split(".")[0] for text in strings} & {"numpy", "torch"}:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
