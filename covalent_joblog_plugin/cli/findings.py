# SPDX-License-Identifier: Apache-2.0
"""What ``joblog doctor`` finds; and the checks that need nothing but what is installed."""

from __future__ import annotations

import sys
import tarfile
from dataclasses import asdict, dataclass
from enum import Enum
from importlib import metadata
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PLUGIN = "covalent-joblog-plugin"
_WHY = {
    "fastapi": "with 0.132 or later every ct.dispatch fails with 422",
    "kubernetes": "37.0.2 does not go together with what Covalent needs",
    "starlette": "with 1.0 or later Covalent's pages of dispatches fail",
}
_BESIDE = ("starlette<1",)
"""What our own requirements bring about and do not name."""


class Level(str, Enum):
    """How it is."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check.

    Attributes:
        check: What was looked at, in a word or two.
        level: How it is.
        text: What was found, in a line.
        step: What to do; empty where there is nothing to do.
    """

    check: str
    level: Level
    text: str
    step: str = ""

    def to_json(self) -> dict[str, Any]:
        """``{"check": …, "level": …, "text": …, "step": …}``."""
        return {**asdict(self), "level": self.level.value}


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, Level.OK, text)


def warning(check: str, text: str, step: str) -> Finding:
    """It works, and may not be what is wanted."""
    return Finding(check, Level.WARNING, text, step)


def fault(check: str, text: str, step: str = "") -> Finding:
    """It does not work; an error of ours says the step itself."""
    return Finding(check, Level.FAULT, text, step)


def unknown(check: str, text: str, step: str = "") -> Finding:
    """It could not be found out."""
    return Finding(check, Level.UNKNOWN, text, step)


def installed(name: str) -> str | None:
    """The version of a distribution in this environment; None where there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def versions(needed: Iterable[str], found: Callable[[str], str | None] = installed) -> list[Finding]:
    """Whether the packages go together.

    Args:
        needed: Requirements, as in a distribution's metadata.
        found: Gives the version of a distribution; None where there is none.
    """
    wrong: list[Finding] = []
    checked = []
    for requirement in map(Requirement, [*needed, *_BESIDE]):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        version = found(requirement.name)
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            wrong.append(_wrong(requirement, version))
        elif requirement.specifier:
            checked.append(f"{requirement.name} {version}")
    return wrong or [ok("versions", ", ".join(checked))]


def _wrong(requirement: Requirement, version: str | None) -> Finding:
    name = requirement.name
    there = f"{name} {version} is installed" if version else f"{name} is not installed"
    why = f": {_WHY[name]}" if name in _WHY else ""
    step = f"pip install '{name}{requirement.specifier}', or all: pip install -c constraints.txt {PLUGIN}"
    return fault("versions", f"{there}, {requirement.specifier or 'any version'} is needed{why}", step)


def python() -> Finding:
    """Whether this Python runs all that Covalent has."""
    version = sys.version.split(maxsplit=1)[0]
    if hasattr(tarfile, "tar_filter"):
        return ok("python", f"Python {version}")
    return warning(
        "python",
        f"Python {version}: sublattices fail, Covalent unpacks them with what 3.10.12 and 3.11.4 brought",
        "use a later patch release if you need sublattices",
    )
