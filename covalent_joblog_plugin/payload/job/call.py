# SPDX-License-Identifier: Apache-2.0
"""The call itself: unpickle, run, and say how it went."""

from __future__ import annotations

import os
import pickle
import sys
import zipfile
from typing import IO, Any, Callable

from .covalent_context import CovalentContext
from .failures import TEXT_LIMIT, Halt, describe, need_of_covalent, report, strings_in, versions
from .result import write_archive

Save = Callable[[str, Callable[[IO[bytes]], Any]], Any]
"""``runner.write_file``."""


def carry_out(path: str, manifest: dict[str, Any], result: str, save: Save) -> tuple[int, dict[str, Any]]:
    """Run the call packed at ``path``, save its value at ``result``; exit status and verdict's facts."""
    owner = os.getpid()
    sys.meta_path.insert(0, CovalentContext(manifest["dispatch_id"], manifest["node_id"]))
    take_cloudpickle(path, manifest["cloudpickle"])
    try:
        with zipfile.ZipFile(path) as archive:
            value = call(manifest, archive)
        # A process that the function forked came back instead of ending: the result is its parent's.
        return 0, deliver(value, result, save) if os.getpid() == owner else {}
    except Halt as halt:
        return halt.status, halt.facts
    except SystemExit as error:
        return exit_of(error.code)
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


def load(archive: zipfile.ZipFile, part: dict[str, str], what: str, *, hook: bool = False) -> Any:
    """Unpickle one part; ``what`` says which in words, ``hook`` that it belongs to a dependency.

    Raises:
        Halt: It cannot be read or unpickled.
    """
    try:
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


def call(manifest: dict[str, Any], archive: zipfile.ZipFile) -> Any:
    """What Covalent's own wrapper does: call before, function, call after; the function's value."""
    injected: dict[str, Any] = {}

    def run_hook(hook: dict[str, Any], when: str) -> Any:
        what = f"the dependency {hook['function']['name'] or '(unnamed)'} called {when} the function"
        parts = [load(archive, hook[key], what, hook=True) for key in ("function", "args", "kwargs")]
        return parts[0](*parts[1], **parts[2])

    for hook in manifest["call_before"]:
        value = run_hook(hook, "before")
        if hook["retval_keyword"]:
            injected.setdefault(hook["retval_keyword"], []).append(value)
    function = load(archive, manifest["function"], "the function")
    args = [load(archive, part, f"argument {number}") for number, part in enumerate(manifest["args"])]
    kwargs = {name: load(archive, part, f"argument {name!r}") for name, part in manifest["kwargs"]}
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


def exit_of(code: Any) -> tuple[int, dict[str, Any]]:
    """``sys.exit(code)`` as Python treats it, but never as success: there is no result."""
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF or 74, {"kind": "exit", "code": int(code or 0)}
    sys.stderr.write(f"{code}\n")
    return 1, {"kind": "exit", "code": 1, "message": str(code)[:TEXT_LIMIT]}
