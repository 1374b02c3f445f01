# SPDX-License-Identifier: Apache-2.0
"""The call itself: unpickle, run, and say how it went."""

from __future__ import annotations

import os
import pickle
import sys
import zipfile
from contextlib import suppress
from typing import IO, Any, Callable

from .covalent_context import CovalentContext
from .failures import TEXT_LIMIT, Halt, describe, need_of_covalent, report, strings_in, versions
from .result import write_archive

Save = Callable[[str, Callable[[IO[bytes]], Any]], Any]
"""``runner.write_file``."""


def carry_out(path: str, manifest: dict[str, Any], result: str, save: Save) -> tuple[int, dict[str, Any]]:
    """Run the call packed at ``path``, save its value at ``result``; exit status and verdict's facts.

    An empty ``result`` says that nobody wants the value.
    """
    owner = os.getpid()
    sys.meta_path.insert(0, CovalentContext(manifest["dispatch_id"], manifest["node_id"]))
    take_cloudpickle(path, manifest["cloudpickle"])
    try:
        value = call(manifest, path)
        # A process that the function forked came back instead of ending: the result is its parent's.
        if os.getpid() != owner:
            return 0, {}
        return 0, deliver(value, result, save) if result else {"kind": "ok"}
    except Halt as halt:
        return halt.status, halt.facts
    except SystemExit as error:
        return exit_of(error.code, has_value=bool(result))
    except BaseException as error:  # noqa: BLE001 - whatever ended the function, KeyboardInterrupt included
        report(error)
        return 1, dict(describe(error), kind="exception")


def take_cloudpickle(path: str, version: str) -> None:
    """Make the bundle's cloudpickle importable, unless the same version is installed."""
    # importlib.metadata would tell as well, and cost a third of the time this process needs to start.
    installed = f"cloudpickle-{version}.dist-info"
    if not any(os.path.isdir(os.path.join(entry, installed)) for entry in sys.path):
        # It stays for the processes the function may spawn.
        sys.path.insert(0, path + "/lib")


def load(path: str, part: dict[str, str], what: str, *, hook: bool = False) -> Any:
    """Unpickle one part; ``what`` says which in words, ``hook`` that it belongs to a dependency.

    The bundle is opened for each: a function may close all descriptors it finds.

    Raises:
        Halt: It cannot be read or unpickled.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            data = archive.read(part["file"])
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise Halt(76, "bundle", message=f"{part['file']}: {error}") from error
    try:
        return pickle.loads(data)  # noqa: S301 - the user's own function and arguments
    except (Exception, SystemExit) as error:  # imports run here, and may raise anything
        report(error)
        strings = strings_in(data)
        facts = dict(describe(error), what=what, pickled_by=part["python"], versions=versions(strings))
        facts["names_numpy_2"] = any(text.startswith("numpy._core") for text in strings)
        if str(facts.get("module", "")).split(".")[0] == "covalent":
            need = "dependency" if hook else need_of_covalent(strings)
            raise Halt(72, "covalent", need=need, **facts) from error
        raise Halt(71, "unloadable", **facts) from error


def call(manifest: dict[str, Any], path: str) -> Any:
    """What Covalent's own wrapper does: call before, function, call after; the function's value."""
    injected: dict[str, Any] = {}

    def run_hook(hook: dict[str, Any], when: str) -> Any:
        what = f"the dependency {hook['function']['name'] or '(unnamed)'} called {when} the function"
        parts = [load(path, hook[key], what, hook=True) for key in ("function", "args", "kwargs")]
        return parts[0](*parts[1], **parts[2])

    for hook in manifest["call_before"]:
        value = run_hook(hook, "before")
        if hook["retval_keyword"]:
            injected.setdefault(hook["retval_keyword"], []).append(value)
    function = load(path, manifest["function"], "the function")
    args = [load(path, part, f"argument {number}") for number, part in enumerate(manifest["args"])]
    kwargs = {name: load(path, part, f"argument {name!r}") for name, part in manifest["kwargs"]}
    for name, values in injected.items():
        # One value stands for itself; "files" is always a list.
        kwargs[name] = values[0] if len(values) == 1 and name != "files" else values
    value = function(*args, **kwargs)
    for hook in manifest["call_after"]:
        run_hook(hook, "after")
    return value


def deliver(value: Any, path: str, save: Save) -> dict[str, Any]:
    """Save the value; the facts for the verdict.

    Raises:
        Halt: It cannot be pickled or saved.
    """
    try:
        written: dict[str, Any] = save(path, lambda file: write_archive(file, value))
    except OSError as error:
        raise Halt(75, "unwritable", message=f"{path}: {error}") from error
    return dict(written, kind="ok")


def exit_of(code: Any, *, has_value: bool = True) -> tuple[int, dict[str, Any]]:
    """``sys.exit(code)`` as Python treats it, but not as success where a value is wanted: there is none."""
    if code is None or isinstance(code, int):
        status = (code or 0) & 0xFF
        # Of a number too large for an exit status only that part ever counts.
        told = int(code or 0) if abs(code or 0) < 1 << 63 else status
        return status or (74 if has_value else 0), {"kind": "exit", "code": told}
    try:
        text = str(code)
    except Exception as error:  # noqa: BLE001 - the user's own class
        text = f"{type(code).__name__} object, of which str() fails: {type(error).__name__}"
    with suppress(AttributeError, OSError, ValueError):  # replaced, closed, or full
        sys.stderr.write(f"{text}\n")
    return 1, {"kind": "exit", "code": 1, "message": text[:TEXT_LIMIT]}
