# SPDX-License-Identifier: Apache-2.0
"""What to tell the user about a call that gave no result: the thing, the cause, the next step."""

from __future__ import annotations

import signal
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .verdict import Verdict

TAIL_LINES = 20
"""Lines of a traceback or of stderr that an error text shows."""
LINE_LIMIT = 1000
"""Characters of a message or line that an error text shows."""


def error_text(
    verdict: Verdict | None,
    exit_status: int,
    stderr: bytes = b"",
    *,
    cause: str = "",
    whole: str = "the node's stderr",
) -> str:
    """What to tell the user about a call that gave no result.

    Args:
        verdict: What the runner left; None, or the kind ``died``, where it left nothing.
        exit_status: Of the process; -n where signal n ended it.
        stderr: The end of what it wrote to stderr, some KiB.
        cause: Why the process ended, where somebody knows; it leads, and nothing is guessed then.
        whole: Where all of stderr is.
    """
    text = stderr.decode("utf-8", "replace")
    if verdict is None or verdict.kind in {"died", "ok"}:
        lines = _without_result(verdict, exit_status, cause, dumped=_DUMP in text)
    elif verdict.kind == "exception":
        # What it said before it failed is worth as much as the traceback, which is the end of it.
        told = verdict.type in text
        lines = [*_exception(verdict, traced=not told), *_all_of_it(verdict, whole)]
        text = text if told else ""
    else:
        return "\n".join(_TEXTS.get(verdict.kind, _unknown)(verdict))
    last = _last_lines(text)
    return "\n".join([*lines, "stderr ended with:", *last] if last else lines)


def _without_result(verdict: Verdict | None, exit_status: int, cause: str, *, dumped: bool) -> list[str]:
    ended = _ended(exit_status)
    returned = verdict is not None and verdict.kind == "ok"
    what = f"the function returned, but then {ended}" if returned else f"{ended} before the function returned"
    if cause:
        return [cause, what]
    guess = "an extension module or library crashed: stderr tells where" if dumped else _cause(exit_status)
    return [f"{what}; {guess}"]


def _last_lines(text: str) -> list[str]:
    # Not splitlines(): it takes other characters for line ends, too.
    lines = text.rstrip("\r\n").split("\n")
    dumps = [at for at, line in enumerate(lines) if line.startswith(_DUMP)]
    # The innermost call stands first in it, and at its end a list of modules.
    shown = lines[dumps[-1] :][:TAIL_LINES] if dumps else lines[-TAIL_LINES:]
    return [_short(line) for line in shown] if any(lines) else []


def _short(text: str) -> str:
    more = len(text) - LINE_LIMIT
    return text if more <= 0 else f"{text[:LINE_LIMIT]} … ({more} more characters)"


def _signal(exit_status: int) -> signal.Signals | None:
    """The signal that ended the process; a shell in between reports signal n as 128 + n."""
    number = -exit_status if exit_status < 0 else exit_status - 128
    return signal.Signals(number) if number in set(signal.Signals) else None


def _ended(exit_status: int) -> str:
    by = _signal(exit_status)
    if by is None:
        return f"the process ended with exit status {exit_status}"
    name = f"signal {by.value} ({by.name})"
    if exit_status < 0:
        return f"the process was ended by {name}"
    return f"the process ended with exit status {exit_status} (a shell's word for {name})"


def _cause(exit_status: int) -> str:
    by = _signal(exit_status)
    if by is not None:
        return _CAUSES.get(by.name, "somebody or something sent that signal")
    if exit_status == _NO_VERDICT:
        return (
            "or it returned, and that could not be noted down: perhaps it removed the temporary folder, "
            "changed its user, or used up descriptors or room on the disk"
        )
    return "Python had no chance to say why: os._exit does that, or a library that ends the process"


_NO_VERDICT = 75
"""Exit status of the runner where it cannot write its verdict."""
_DUMP = "Fatal Python error: "
"""How ``faulthandler`` begins to tell what was running when a signal came."""
_CAUSES = {
    "SIGKILL": "often the kernel's out-of-memory killer, or a limit on memory or time: ask for more memory, "
    "or look into the kernel's log of that machine",
    "SIGTERM": "that is how a limit on time or a cancellation ends it",
    "SIGSEGV": "an extension module or library crashed: with PYTHONFAULTHANDLER=1 in the environment Python "
    "shows where",
    "SIGBUS": "often a file in shared memory or on a full disk that could not be mapped",
    "SIGILL": "a library was built for another processor than that machine's",
    "SIGFPE": "an extension module or library divided by zero",
    "SIGABRT": "a library gave up: what it said is on stderr",
    "SIGXCPU": "the limit on processor time was reached (ulimit -t)",
}


def _exception(verdict: Verdict, *, traced: bool) -> list[str]:
    lines = [_headline(verdict), *(_last_lines(verdict.traceback) if traced else [])]
    if verdict.module.split(".")[0] == "covalent":
        return [*lines, f"the function imports covalent; {_install_covalent(verdict)}"]
    return [*lines, *_missing_module(verdict)]


def _all_of_it(verdict: Verdict, whole: str) -> list[str]:
    return [] if verdict.module.split(".")[0] == "covalent" else [f"the whole traceback stands in {whole}"]


def _headline(verdict: Verdict) -> str:
    return f"{verdict.type}: {_short(verdict.message)}" if verdict.message else verdict.type


def _interpreter(verdict: Verdict) -> str:
    return f"{verdict.executable} (Python {verdict.python}) on {verdict.host}"


def _exit(verdict: Verdict) -> list[str]:
    told = f" and said: {_short(verdict.message)}" if verdict.message else ""
    return [
        f"the function called sys.exit({verdict.code}){told}; that ends the process, so there is no result",
        "return a value for success and raise an exception for failure",
    ]


def _unpicklable(verdict: Verdict) -> list[str]:
    return [
        f"the function returned a {verdict.result} that cannot be pickled: {_headline(verdict)}",
        *_last_lines(verdict.traceback),
        "return plain data, arrays or text, or write a file and return its path",
    ]


def _unloadable(verdict: Verdict) -> list[str]:
    lines = [
        f"{verdict.what} cannot be unpickled by {_interpreter(verdict)}: {_headline(verdict)}",
        *_array_libraries(verdict),
        *_missing_module(verdict),
    ]
    if verdict.pickled_by.split(".")[:2] != verdict.python.split(".")[:2]:
        lines.append(f"it was pickled by Python {verdict.pickled_by}: use one minor version for all nodes")
    return [*lines, "the function did not begin"]


def _array_libraries(verdict: Verdict) -> list[str]:
    lines = []
    for name, there in verdict.versions.items():
        here = _installed(name)
        if name == "numpy" and verdict.names_numpy_2 and there.split(".")[0] == "1":
            lines.append(
                f"it was pickled with numpy 2 or later, and numpy there is {there} (where Covalent's server "
                f"runs: {here}); use the same major version of numpy on both sides"
            )
        elif here.split(".")[0] != there.split(".")[0]:
            lines.append(f"{name} there is {there}, where Covalent's server runs it is {here}")
    return lines


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _missing_module(verdict: Verdict) -> list[str]:
    if not verdict.module or verdict.module.split(".")[0] in verdict.versions:
        return []
    return [
        f"module {verdict.module} cannot be imported by {_interpreter(verdict)}",
        "if it is your own module, name it in the electron's deps_module=",
        "if it is an installed package, install it there or give the executor a Python that has it",
    ]


def _covalent(verdict: Verdict) -> list[str]:
    kind, _, name = verdict.need.partition(" ")
    reasons = {
        "dependency": f"{verdict.what} is one of Covalent's own functions;",
        "electron": f"{verdict.what} calls another electron; call the plain function instead, or",
        "module": f"module {name}, which travels with {verdict.what}, imports covalent;",
        "name": f"{verdict.what} uses the module covalent (as ct.get_context() does);",
    }
    return [
        "Covalent is needed where the function runs, and missing there",
        f"{reasons.get(kind, verdict.what)} {_install_covalent(verdict)}",
        "the function did not begin",
    ]


def _install_covalent(verdict: Verdict) -> str:
    package = f"covalent=={_installed('covalent')}"
    return f"install {package} for {_interpreter(verdict)}, or give the executor a Python that has it"


def _python(verdict: Verdict) -> list[str]:
    wanted, found = (".".join(version.split(".")[:2]) for version in (verdict.wanted, verdict.python))
    return [
        f"the function was pickled by Python {verdict.wanted} and cannot run by {_interpreter(verdict)}",
        "the minor versions must be the same",
        f"give the executor a Python {wanted} there, or dispatch from Python {found}",
    ]


def _unwritable(verdict: Verdict) -> list[str]:
    return [
        f"the function returned, but its result could not be written on {verdict.host}: {verdict.message}",
        "make room there and run the node again",
    ]


def _bundle(verdict: Verdict) -> list[str]:
    return [f"the packed function is damaged on {verdict.host}: {verdict.message}; run the node again"]


def _store(verdict: Verdict) -> list[str]:
    return [
        f"the store cannot be used on {verdict.host}: {verdict.message}",
        "check store=, and whether the image has fsspec, the package for that kind of store, and credentials",
        "the function did not begin",
    ]


def _unknown(verdict: Verdict) -> list[str]:
    return [f"the job left a verdict this version does not know: {verdict.kind} {verdict.message}".rstrip()]


_TEXTS: dict[str, Callable[[Verdict], list[str]]] = {
    "exit": _exit,
    "unpicklable": _unpicklable,
    "unloadable": _unloadable,
    "covalent": _covalent,
    "python": _python,
    "unwritable": _unwritable,
    "bundle": _bundle,
    "store": _store,
}
