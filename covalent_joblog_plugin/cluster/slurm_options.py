# SPDX-License-Identifier: Apache-2.0
"""Slurm options as a dict of long names → argv; pure."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

LETTERS = {
    "A": "account",
    "B": "extra-node-info",
    "C": "constraint",
    "D": "chdir",
    "G": "gpus",
    "J": "job-name",
    "L": "licenses",
    "M": "clusters",
    "N": "nodes",
    "S": "core-spec",
    "b": "begin",
    "c": "cpus-per-task",
    "d": "dependency",
    "e": "error",
    "i": "input",
    "k": "no-kill",
    "m": "distribution",
    "n": "ntasks",
    "o": "output",
    "p": "partition",
    "q": "qos",
    "s": "oversubscribe",
    "t": "time",
    "w": "nodelist",
    "x": "exclude",
}
"""Single letters that mean the same to sbatch and srun."""

_OURS = "the executor sets it itself"
_SBATCH_REFUSED = {
    "parsable": _OURS,
    "chdir": "the job runs in the node's own folder; use `workdir`, or os.chdir in the function",
    "wrap": "the job is the electron's function; use `setup_commands` for shell lines",
    "test-only": "it would submit nothing",
    "wait": "the executor waits by itself",
    "array": "an electron is one job; make one electron for each array task",
    "hetjob": "het jobs are not supported; make one electron for each part",
    "job-name": "the executor needs a unique name to find the job again; it begins with the electron's",
    "open-mode": "the executor keeps the output of every execution; nothing is truncated",
    "export": "use `export_environment` and `environment`",
    "export-file": "use `environment`",
    "get-user-env": "use `login_shell`",
    "clusters": "use the executor's option `clusters`",
    "input": "nothing can be read on stdin in a job",
    "quiet": _OURS,
    "verbose": _OURS,
    "version": "it would submit nothing",
    "help": "it would submit nothing",
    "usage": "it would submit nothing",
    "container-image": "a container around the batch script hides Slurm from it; put it in `srun_options` "
    "with use_srun=True",
}
_SRUN_REFUSED = {
    "output": "each rank has a file of its own beside the node",
    "error": "each rank has a file of its own beside the node",
    "label": "it writes into the text, and each rank has a file of its own",
    "unbuffered": _OURS,
    "kill-on-bad-exit": _OURS,
    "multi-prog": "every rank runs the electron's function",
    "pty": "there is no terminal in a job",
    "input": "nothing can be read on stdin in a job",
    "jobid": "it runs in the electron's own job",
    "chdir": "use os.chdir in the function",
    "version": "it would run nothing",
    "help": "it would run nothing",
}


def sbatch_argv(options: Mapping[str, Any]) -> list[str]:
    """Argv of ``sbatch_options``.

    Raises:
        OptionError: Naming the option, why it is refused and what to use.
    """
    return _argv("sbatch_options", options, _SBATCH_REFUSED)


def srun_argv(options: Mapping[str, Any]) -> list[str]:
    """Argv of ``srun_options``.

    Raises:
        OptionError: Naming the option, why it is refused and what to use.
    """
    return _argv("srun_options", options, _SRUN_REFUSED)


def long_name(name: str) -> str:
    """The long name of an option, ``-`` for ``_``, without leading dashes."""
    bare = name.lstrip("-").replace("_", "-")
    return LETTERS.get(bare, bare)


def has_output(options: Mapping[str, Any]) -> bool:
    """Whether the user chose a file for Slurm's own output."""
    return any(long_name(name) in {"output", "error"} and value for name, value in options.items())


def _argv(where: str, options: Mapping[str, Any], refused: Mapping[str, str]) -> list[str]:
    if not isinstance(options, dict):
        raise OptionError(
            f"{where}={options!r} must be a dict of long option names, such as {{'time': '1:00:00'}}"
        )
    argv: list[str] = []
    taken: dict[str, str] = {}
    for name, value in options.items():
        option = _checked_name(where, name)
        if why := refused.get(option):
            raise OptionError(f"{where}: {name!r} cannot be set here: {why}")
        if option in taken:
            raise OptionError(f"{where}: {name!r} and {taken[option]!r} are the same option; keep one")
        taken[option] = name
        if (text := _value(where, name, value)) is not None:
            argv.append(f"--{option}={text}" if text else f"--{option}")
    return argv


def _checked_name(where: str, name: object) -> str:
    if not isinstance(name, str) or not name.strip("-"):
        raise OptionError(f"{where}: {name!r} is not an option name")
    option = long_name(name)
    if len(option) == 1:
        hint = ", ".join(f"{letter} = {word}" for letter, word in sorted(LETTERS.items()))
        raise OptionError(f"{where}: {name!r} is not a letter known here ({hint}); use the long name")
    if not option.replace("-", "").isalnum() or not option.isascii():
        near = difflib.get_close_matches(option, LETTERS.values(), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise OptionError(f"{where}: {name!r} is not an option name{hint}")
    return option


def _value(where: str, name: str, value: object) -> str | None:
    """The option's text: None leaves it out, ``""`` is the bare flag."""
    if value is None or value is False:
        return None
    if value is True:
        return ""
    if not isinstance(value, (str, int, float)):
        raise OptionError(f"{where}: {name}={value!r} must be a string, a number, True, False or None")
    text = str(value)
    if not text or any(c in text for c in "\0\n\r"):
        raise OptionError(f"{where}: {name}={value!r} must be one non-empty line; None leaves the option out")
    return text
