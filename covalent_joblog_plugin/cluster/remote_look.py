# SPDX-License-Identifier: Apache-2.0
"""Looks at what jobs need on the login node; changes nothing. Part of a program, see ``remote_frames``.

``{"workdir": …, "commands": [name, …], "pythons": [argv, …], "cluster": […], "slurm_path": …}`` →
``{"host": …, "workdir": {…}, "commands": {name: {"exit", "out", "err"}}, "queue": {"exit", "out", "err"},
"pythons": [{"argv": […], "version": text, "path": text}, …]}``

``workdir`` is ``{"path", "exists", "below", "writable", "free", "kind"}``: ``below`` is the nearest folder
that exists, ``free`` its bytes, ``kind`` its type of file system; or ``{"refused": text}``.
"""

import os
import socket
from typing import TYPE_CHECKING, List

if TYPE_CHECKING:
    from .remote_call import Answer, RefusedError, call, environment
    from .remote_frames import answer, receive
    from .remote_submit import expand

SECONDS = 15.0
SHOW = "import sys; print('%d.%d.%d' % sys.version_info[:3]); print(sys.executable)"


def look(task: "Answer") -> "Answer":
    """All that is asked."""
    env = environment(task)
    # Of a single id that Slurm does not know it makes an error, of a list it does not.
    queue = ["squeue", *task["cluster"], "-h", "-j", "1,1"]
    return {
        "host": socket.gethostname(),
        "workdir": folder(task["workdir"]),
        "commands": {name: call([name, "--version"], env, SECONDS) for name in task["commands"]},
        "queue": call(queue, env, SECONDS),
        "pythons": [python(argv, env) for argv in task["pythons"]],
    }


def python(argv: List[str], env: "dict[str, str]") -> "Answer":
    """Version and path of a Python; empty where it cannot be started."""
    done = call([*argv, "-c", SHOW], env, SECONDS)
    lines = done["out"].split("\n")
    found = lines[:2] if not done["exit"] and len(lines) > 1 else ["", ""]
    return {"argv": argv, "version": found[0], "path": found[1]}


def folder(workdir: str) -> "Answer":
    """What is known of a folder that may not exist yet."""
    try:
        path = expand(workdir)
    except RefusedError as error:
        return {"refused": str(error)}
    below = path
    while not os.path.exists(below):
        below = os.path.dirname(below)
    space = os.statvfs(below)
    return {
        "path": path,
        "exists": os.path.isdir(path),
        "below": below,
        "writable": os.path.isdir(below) and os.access(below, os.W_OK | os.X_OK),
        "free": space.f_bavail * space.f_frsize,
        "kind": file_system(below),
    }


def file_system(path: str) -> str:
    """The type of the file system a folder is on; empty where the node does not tell."""
    path, best, kind = os.path.realpath(path), "", ""
    try:
        with open("/proc/self/mounts") as mounts:
            for line in mounts:
                at, this = line.split(" ")[1:3]
                inside = path == at or path.startswith(at.rstrip("/") + "/")
                if inside and len(at) >= len(best):
                    best, kind = at, this
    except EnvironmentError:
        return ""
    return kind


if __name__ == "__main__":
    answer(look(receive()[0]))
