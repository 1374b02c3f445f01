# SPDX-License-Identifier: Apache-2.0
"""How a call went, as the runner left it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields

from covalent_joblog_plugin.model.errors import JobFailed, PayloadError

BEFORE_USER_CODE = ("python", "unloadable", "covalent", "bundle")


class CannotBegin(JobFailed):
    """The function could not begin on this Python; another one may be able to run the same call."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the runner left about a call.

    Attributes:
        kind: ``ok``, ``exception`` (raised by the function or a dependency), ``exit`` (``sys.exit`` was
            called), ``unpicklable`` (the result), ``unloadable`` (function or arguments), ``covalent``
            (missing there), ``python`` (wrong minor version), ``unwritable`` (the result's folder) or
            ``bundle`` (damaged). In a pod also ``died`` (the runner left nothing) and ``store`` (it cannot be
            used there).
        host: Where it ran.
        python: Version of the Python it ran on.
        executable: Path of that Python.
        size: Bytes of the result.
        sha256: Of the result, hexadecimal.
        type: Qualified name of the exception's class.
        message: ``str`` of the exception, at most 64 Ki characters.
        traceback: At most its last 64 Ki characters.
        module: The module that could not be imported.
        code: What ``sys.exit`` was given.
        wanted: Version of the Python that pickled the function.
        what: Which part could not be unpickled, in words.
        pickled_by: Version of the Python that pickled that part.
        need: Why Covalent is needed: ``dependency``, ``electron``, ``module NAME`` or ``name``.
        names_numpy_2: Whether that part was pickled with numpy 2 or later.
        versions: Installed versions there of numpy and torch, where that part names them.
        result: Name of the class of the result that could not be pickled.
    """

    kind: str
    host: str = ""
    python: str = ""
    executable: str = ""
    size: int = 0
    sha256: str = ""
    type: str = ""
    message: str = ""
    traceback: str = ""
    module: str = ""
    code: int = 0
    wanted: str = ""
    what: str = ""
    pickled_by: str = ""
    need: str = ""
    names_numpy_2: bool = False
    versions: dict[str, str] = field(default_factory=dict)
    result: str = ""

    @property
    def before_user_code(self) -> bool:
        """Whether the electron's function never began: the same call may work on another Python.

        Dependencies may have run before.
        """
        return self.kind in BEFORE_USER_CODE


_TYPES = {"str": str, "int": int, "bool": bool, "dict[str, str]": dict}


def parse(data: bytes) -> Verdict:
    """Read a verdict as the runner wrote it; what a newer runner adds is left out.

    Raises:
        PayloadError: It is not a verdict.
    """
    try:
        facts = json.loads(data)
    except ValueError as error:  # covers bad UTF-8
        raise _unreadable(data, str(error)) from error
    if not isinstance(facts, dict) or "kind" not in facts:
        raise _unreadable(data, "no kind is given")
    known = {f.name: facts[f.name] for f in fields(Verdict) if f.name in facts}
    wrong = [
        f.name for f in fields(Verdict) if f.name in known and type(known[f.name]) is not _TYPES[str(f.type)]
    ]
    if wrong:
        raise _unreadable(data, f"wrong type of {', '.join(wrong)}")
    return Verdict(**known)


def _unreadable(data: bytes, why: str) -> PayloadError:
    return PayloadError(
        f"the verdict of the job cannot be read: {why}; its first bytes are {data[:80]!r}. "
        "Something else wrote into the job's folder: run the node again"
    )


def sha256_of(data: bytes) -> str:
    """Hexadecimal sha256."""
    return hashlib.sha256(data).hexdigest()
