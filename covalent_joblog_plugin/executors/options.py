# SPDX-License-Identifier: Apache-2.0
"""Executor options: plain JSON, checked before dispatch, complete after any journey.

Covalent builds an executor from its configuration, then replaces its ``__dict__`` by what travelled with the
dispatch. So a constructor demands nothing, and an option a dispatch made by an older version does not have
takes its default from the constructor's signature.
"""

from __future__ import annotations

import inspect
import json
import logging
import math
import re
from typing import Any

from covalent._shared_files.config import get_config

from covalent_joblog_plugin.model.errors import OptionError

log = logging.getLogger(__name__)


def defaults(executor: type) -> dict[str, Any]:
    """The options of an executor class with their defaults, those it inherits from Covalent left out."""
    found: dict[str, Any] = {}
    for cls in reversed(executor.__mro__):
        if "__init__" in cls.__dict__ and cls is not object and not cls.__module__.startswith("covalent."):
            parameters = inspect.signature(cls.__dict__["__init__"]).parameters.values()
            found.update({p.name: p.default for p in parameters if p.default is not p.empty})
    return found


def plugin_defaults(executor: type) -> dict[str, Any]:
    """The same for Covalent's configuration file, whose format has neither None nor tuples."""
    found = {name: value for name, value in defaults(executor).items() if value is not None}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def refuse_unknown(executor: type, given: dict[str, Any], renamed: dict[str, str] | None = None) -> None:
    """Raise for options the class does not have.

    Args:
        executor: The executor class.
        given: Options that its constructor did not take.
        renamed: Names used elsewhere, and what to use here.

    Raises:
        OptionError: Naming the option and the nearest one there is.
    """
    for name, value in given.items():
        known = defaults(executor)
        if _from_configuration(executor, name, value):
            continue
        if new := (renamed or {}).get(name):
            raise OptionError(f"{executor.__name__} has no option {name!r}: {new}")
        import difflib  # the slowest import here, for a mistake's sake

        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(sorted(known))}"
        raise OptionError(f"{executor.__name__} has no option {name!r}: {hint}")


def _from_configuration(executor: type, name: str, value: Any) -> bool:
    """Whether an unknown option stands in Covalent's configuration, from which it makes every executor.

    The file keeps the options of earlier versions for ever: one that is gone must not fail every task.
    """
    section = executor.__module__.rsplit(".", 1)[-1]
    configured = get_config("executors").get(section, {})
    if name not in configured or configured[name] != value:
        return False
    log.warning(
        "Covalent's configuration sets %s = %r in [executors.%s]: this version has no such option; remove it",
        name,
        value,
        section,
    )
    return True


def words(value: Any) -> Any:
    """A single string as a list of one; anything else is for ``check`` to judge."""
    if isinstance(value, str):
        return [value] if value else []
    return list(value) if isinstance(value, (list, tuple)) else value


def mapping(value: Any) -> Any:
    """A copy of a dict, none for None; anything else is for ``check`` to judge."""
    return dict(value or {}) if value is None or isinstance(value, dict) else value


def check_json(executor: str, options: dict[str, Any]) -> None:
    """Raise unless every option can travel as JSON.

    Raises:
        OptionError: Naming the first that cannot.
    """
    for name, value in options.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
            cure = "use strings, numbers, lists and dicts"
            raise OptionError(
                f"{executor}: {name}={value!r} cannot travel as JSON ({error}); {cure}"
            ) from error


def check_number(executor: str, name: str, value: object, *, least: float, whole: bool = False) -> None:
    """Raise unless an option is a finite number of at least ``least``; ``whole``: 1e9 is one, 0.5 is not.

    Raises:
        OptionError: Naming the option and what it may be.
    """
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    # A NaN among its times would confuse the event loop for everybody.
    if not math.isfinite(number) or number < least or (whole and number != int(number)):
        kind = "a whole number" if whole else "a number"
        raise OptionError(f"{executor}: {name}={value!r} must be {kind} of at least {least:g}")


def check_choice(executor: str, name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise unless an option is one of ``choices``.

    Raises:
        OptionError: Naming the option and its choices.
    """
    if value not in choices:
        raise OptionError(f"{executor}: {name}={value!r} must be one of {', '.join(map(repr, choices))}")


def check_strings(executor: str, name: str, value: object) -> None:
    """Raise unless an option is a list of strings.

    Raises:
        OptionError: Naming the option.
    """
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise OptionError(f"{executor}: {name}={value!r} must be a list of non-empty strings")


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


_VARIABLE_BYTES = 131_072
"""``MAX_ARG_STRLEN``: execve(2) refuses a longer ``NAME=value``."""


def check_environment(executor: str, name: str, value: object) -> None:
    """Raise unless an option maps environment variable names to strings.

    Raises:
        OptionError: Naming the variable.
    """
    if not isinstance(value, dict):
        raise OptionError(f"{executor}: {name}={value!r} must be a dict of environment variables")
    for variable, text in value.items():
        if not isinstance(variable, str) or not _VARIABLE.fullmatch(variable):
            raise OptionError(f"{executor}: {name}: {variable!r} is not the name of an environment variable")
        if not isinstance(text, str) or "\0" in text:
            raise OptionError(f"{executor}: {name}[{variable!r}] must be a string without NUL")
        size = len(f"{variable}={text}".encode("utf-8", "surrogateescape")) + 1
        if size > _VARIABLE_BYTES:
            raise OptionError(
                f"{executor}: {name}[{variable!r}] has {size} bytes, and Linux lets a variable have "
                f"{_VARIABLE_BYTES}: write it into a file, or give it to the function as an argument"
            )
        if variable == "PYTHONINSPECT":
            raise OptionError(
                f"{executor}: {name}: with PYTHONINSPECT Python would ask at its end what to do, and nobody "
                "answers: leave it out"
            )
