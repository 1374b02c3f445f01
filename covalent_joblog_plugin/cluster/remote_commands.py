# SPDX-License-Identifier: Apache-2.0
"""Calls Slurm, submits jobs and removes their folders: one thing, then it ends. Runs on the login node.

What to do comes as a frame on stdin, the answer is a frame on stdout (see ``remote_frames``):

``{"do": "call", "argv": […], "timeout": s}`` → ``{"exit": n, "out": text, "err": text}``

``{"do": "submit", "workdir": …, "folder": …, "name": …, "files": [[name, size], …], "sbatch": […],
"options": […], "output": bool, "script": …, "clean": bool, "again": bool, "only_adopt": bool,
"cluster": […]}`` → ``{"dir": …, "id": n, "adopted": bool}`` or ``{"none": true}`` (only to adopt, and no
attempt took it) or ``{"refused": text}`` (nothing was submitted) or
``{"doubt": text}`` (it may have been, or may be later).

``{"do": "remove", "dirs": […], "names": regular expression}`` → ``{"removed": [{"left": [names]}, …]}``

``slurm_path`` in any of them is a folder to look for Slurm's commands in first. What the file system refuses
is ``{"refused": text}``.
"""

from functools import partial
from typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from .remote_call import Answer, RefusedError, call, environment
    from .remote_frames import answer, receive
    from .remote_remove import remove
    from .remote_submit import submit


def do(task: "Answer", raw: bytes) -> "Answer":
    """Do what is asked."""
    if task["do"] == "submit":
        return guarded(partial(submit, task, raw))
    if task["do"] == "remove":
        return {"removed": [guarded(partial(remove, path, task["names"])) for path in task["dirs"]]}
    return guarded(partial(call, task["argv"], environment(task), task["timeout"]))


def guarded(work: "Callable[[], Answer]") -> "Answer":
    """Do it, or say why it cannot be done."""
    try:
        return work()
    except RefusedError as error:
        return {"refused": str(error)}
    except OSError as error:
        where = " (%s)" % error.filename if error.filename else ""
        return {"refused": (error.strerror or str(error)) + where}


if __name__ == "__main__":
    answer(do(*receive()))
