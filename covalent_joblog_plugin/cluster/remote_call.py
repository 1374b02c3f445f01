# SPDX-License-Identifier: Apache-2.0
"""Calls a command of Slurm's. Part of a program for the login node; see ``remote_frames``."""

import errno
import os
import subprocess
from typing import Any, Dict, List

WORD = "joblog:"
KEPT_FROM_LOGIN = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LANGUAGE", "TZ", "SLURM_CONF")

Answer = Dict[str, Any]


class RefusedError(Exception):
    """Cannot be done; nothing was submitted."""


def login_variable(name: str) -> str:
    """A variable as the user's login shell has it; empty when it has not."""
    script = 'printf "%s%s%s" "$0" "${!1}" "$0"'
    argv = ["bash", "-l", "-c", script, WORD, name]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60, check=False)
    parts = done.stdout.split(WORD.encode())
    return os.fsdecode(parts[-2]) if len(parts) > 2 else ""


def call(argv: List[str], env: Dict[str, str], timeout: float) -> Answer:
    """Run a command to its end, looking for it in the login shell's PATH where it is not in ours."""
    try:
        done = run(argv, env, timeout)
    except FileNotFoundError:
        path = login_variable("PATH")
        try:
            done = run(argv, dict(env, PATH=path), timeout)
        except FileNotFoundError:
            text = "%s is not in PATH on the login node (%s); set slurm_path to the folder it is in"
            return {"exit": 127, "out": "", "err": text % (argv[0], path)}
    except subprocess.TimeoutExpired:
        return {
            "exit": 124,
            "out": "",
            "err": "%s did not end within %d s: socket timed out" % (argv[0], timeout),
        }
    out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    return {"exit": done.returncode, "out": out, "err": err}


def run(argv: List[str], env: Dict[str, str], timeout: float) -> "subprocess.CompletedProcess[bytes]":
    """Run a command found in ``env``'s PATH."""
    # An empty PATH entry or a relative one is no place to look for commands.
    for folder in env.get("PATH", os.defpath).split(":"):
        found = os.path.join(folder, argv[0])
        if os.path.isabs(found) and os.access(found, os.X_OK) and os.path.isfile(found):
            break
    else:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    pipe = subprocess.PIPE
    return subprocess.run(
        [found, *argv[1:]],
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        env=env,
        timeout=timeout,
        check=False,
    )


def environment(task: Answer, clean: bool = False) -> Dict[str, str]:
    """What Slurm's commands see; ``clean`` is what a job may inherit of it when it shall inherit nothing."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
    if clean:
        env = {n: v for n, v in env.items() if n in KEPT_FROM_LOGIN or n.startswith(("LC_", "SBATCH_"))}
    if task.get("slurm_path"):
        env["PATH"] = task["slurm_path"] + ":" + env.get("PATH", os.defpath)
    return env
