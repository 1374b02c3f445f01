# SPDX-License-Identifier: Apache-2.0
"""Runs one packed call where the job runs: ``python3 -u runner.py BUNDLE FOLDER``.

Standard library only. This file keeps to what Python 3.6 understands, so that a wrong Python can still be
named; the rest is in the bundle (the package ``job``) and wants 3.8. The function runs in the current
directory, with stdin, stdout and stderr as they are. In FOLDER appear, whole or not at all, mode 0600:

``result``
    The returned value in Covalent's archive form, only after the function returned.
``verdict``
    How it went, as JSON: ``kind`` and what belongs to it (``verdict.py`` reads it). A process that was killed
    or called ``os._exit`` leaves none.

What an earlier run left there is removed first. A failure's traceback is on stderr before its verdict is
written. A process forked by the function that comes back here writes neither: the result is its parent's.

Exit status: 0 the result is there; 1 the function raised; n the function called ``sys.exit(n)``; and of our
own: 70 wrong Python, 71 function or arguments cannot be unpickled, 72 Covalent is missing, 73 the result
cannot be pickled, 74 ``sys.exit(0)`` without a result, 75 result or verdict cannot be written, 76 damaged
bundle.
"""

import json
import os
import platform
import sys
import zipfile
from typing import IO, Any, Callable, Dict, Tuple

WITHOUT_VALUE = "--without-value"
"""Third argument, where only that the function ends is of interest."""
Outcome = Tuple[int, Dict[str, Any]]
"""Exit status, and the facts for the verdict."""


def write_file(path: str, write: "Callable[[IO[bytes]], Any]") -> "Any":
    """Put a file in its place complete or not at all, with mode 0600; what ``write`` answered."""
    unfinished = path + ".tmp"
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            answer = write(file)
            file.flush()
            os.fsync(descriptor)
        os.rename(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise
    return answer


def carry_out(path: str, result: str) -> Outcome:
    """Read the bundle, check the Python, and hand over to what the bundle brings."""
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read("manifest.json").decode("utf-8"))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        return 76, {"kind": "bundle", "message": f"{path}: {error}"}
    # The function's bytecode is that of the Python that pickled it: another minor version may crash on it.
    if manifest["python"].split(".")[:2] != platform.python_version().split(".")[:2]:
        return 70, {"kind": "python", "wanted": manifest["python"]}
    sys.path.insert(0, path)
    from joblog_job import call

    sys.path.remove(path)
    outcome: Outcome = call.carry_out(path, manifest, result, write_file)
    return outcome


def flush() -> None:
    """What the function printed comes before the verdict."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # replaced, closed, or full: Python says so at its end
            continue


def main(path: str, folder: str, *, has_value: bool = True) -> int:
    """Run the bundle at ``path`` and leave result and verdict in ``folder``; the exit status.

    Without ``has_value`` nobody wants the function's value: it is not even pickled.
    """
    path, folder, owner = os.path.abspath(path), os.path.abspath(folder), os.getpid()
    # Neither the folder of this file nor our arguments are the function's.
    if sys.path and os.path.realpath(sys.path[0]) == os.path.dirname(os.path.realpath(__file__)):
        del sys.path[0]
    del sys.argv[1:]
    for name in ("verdict", "result"):
        if os.path.lexists(os.path.join(folder, name)):
            os.unlink(os.path.join(folder, name))
    status, facts = carry_out(path, os.path.join(folder, "result") if has_value else "")
    flush()
    if os.getpid() != owner:
        return status
    facts.update(python=platform.python_version(), executable=sys.executable, host=platform.node())
    text = json.dumps(facts).encode("ascii")
    try:
        write_file(os.path.join(folder, "verdict"), lambda file: file.write(text))
    except OSError as error:
        sys.stderr.write(f"cannot write the verdict into {folder}: {error}\n")
        return 75
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], has_value=WITHOUT_VALUE not in sys.argv[3:]))
