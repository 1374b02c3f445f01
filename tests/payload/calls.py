# SPDX-License-Identifier: Apache-2.0
"""Calls as Covalent hands them over, packed and run by the real runner in a real child process."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from covalent._workflow.transportable_object import TransportableObject
from covalent.executor.utils.wrappers import wrapper_fn

from covalent_joblog_plugin.payload import bundle, verdict
from covalent_joblog_plugin.payload.wording import error_text

if TYPE_CHECKING:
    from pathlib import Path


def triple(function, *args, retval_keyword="", **kwargs):
    """A dependency as Covalent hands it over."""
    return (*(TransportableObject(value) for value in (function, list(args), kwargs)), retval_keyword)


def assembled(function, args=(), kwargs=None, before=(), after=()):
    """What Covalent gives to ``run()``: the callable, its arguments, its keyword arguments."""
    return (
        partial(wrapper_fn, TransportableObject(function), list(before), list(after)),
        [TransportableObject(value) for value in args],
        {key: TransportableObject(value) for key, value in (kwargs or {}).items()},
    )


def call_of(function, *args, before=(), after=(), **kwargs):
    """The same taken apart."""
    return bundle.take_apart(*assembled(function, args, kwargs, before, after))


def packed(call, dispatch_id="dispatch", node_id=3):
    """The bundle of a call or of a plain function without arguments."""
    call = call if isinstance(call, bundle.Call) else call_of(call)
    return bundle.pack(call, dispatch_id=dispatch_id, node_id=node_id)


@dataclass(frozen=True)
class Outcome:
    """What a run left."""

    status: int
    stdout: str
    stderr: str
    folder: Path

    @property
    def verdict(self):
        """The verdict, or None."""
        path = self.folder / "verdict"
        return verdict.parse(path.read_bytes()) if path.exists() else None

    @property
    def value(self):
        """The result, unpickled as a client would."""
        assert self.verdict.kind == "ok", self.error
        return bundle.load_result((self.folder / "result").read_bytes(), self.verdict).get_deserialized()

    @property
    def error(self):
        """What a user would read."""
        return error_text(self.verdict, self.status, self.stderr.encode())


def prepare(folder, call):
    """Bundle and runner in ``folder``, a working folder beside it; the runner's argv and cwd."""
    folder.mkdir(exist_ok=True)
    (folder / "bundle").write_bytes(call if isinstance(call, bytes) else packed(call))
    (folder / "runner.py").write_bytes(bundle.runner_source())
    work = folder / "work"
    work.mkdir(exist_ok=True)
    return ["-u", str(folder / "runner.py"), str(folder / "bundle"), str(folder)], work


def environment_for(folder, **variables):
    """Neither paths nor a configuration of Covalent from here, and a home of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("COVALENT_", "PYTHON"))}
    return {**kept, "HOME": str(folder), "TMPDIR": str(folder), **variables}


def run(folder, call, python=sys.executable, **variables):
    """Run a call, or a plain function without arguments, to its end."""
    argv, work = prepare(folder, call)
    done = subprocess.run(
        [python, *argv],
        cwd=work,
        env=environment_for(folder, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode(), folder)
