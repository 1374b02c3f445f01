# SPDX-License-Identifier: Apache-2.0
"""Makes job folders and calls Slurm. Runs on the login node: standard library only, Python 3.6 and later.

It is sent over stdin by ``far_side``, does one thing and ends. What to do comes on stdin as a frame,
``<length of JSON> <length of raw bytes>``, newline, the JSON, the raw bytes; the answer is one too:

``{"do": "call", "argv": […], "timeout": s}`` → ``{"exit": n, "out": text, "err": text}``

``{"do": "submit", "workdir": …, "folder": …, "name": …, "files": [[name, size], …], "sbatch": […],
"options": […], "output": bool, "script": …, "clean": bool, "again": bool}`` →
``{"dir": …, "id": n, "adopted": bool}`` or ``{"refused": text}`` (nothing was submitted) or
``{"doubt": text}`` (it may have been, or may be later).

``{"do": "remove", "dir": …, "base": …, "kept": …}`` → ``{"left": [names], "count": n}``

``slurm_path`` in any of them is a folder to look for Slurm's commands in first.
"""

import errno
import fcntl
import json
import os
import re
import subprocess
import time
from typing import Any, Dict, List, Optional, Tuple

DOUBTFUL = re.compile(
    "socket timed out|unable to contact|unexpected message|temporarily unable|temporarily unavailable"
    "|connection refused|zero bytes were transmitted",
    re.IGNORECASE,
)
UNKNOWN_OPTION = re.compile("unrecognized option|unknown option|invalid option|parsable", re.IGNORECASE)
WORD = "joblog:"
KEPT_FROM_LOGIN = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LANGUAGE", "TZ", "SLURM_CONF")
ATTEMPTS = 4
LOCK_WAIT = 60.0

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


def expand(workdir: str) -> str:
    """The absolute path of ``workdir``; a leading ``~`` or ``$NAME`` is the login node's to say."""
    if workdir.startswith("$"):
        name, slash, rest = workdir[1:].partition("/")
        if not re.match("[A-Za-z_][A-Za-z0-9_]*$", name):
            raise RefusedError("workdir=%r: %r is not the name of an environment variable" % (workdir, name))
        value = login_variable(name)
        if not value:
            raise RefusedError("workdir=%r: $%s is not set in the login shell; give a path" % (workdir, name))
        workdir = value + slash + rest
    path = os.path.join(os.path.expanduser("~"), os.path.expanduser(workdir))
    if "\\" in path or "\n" in path:
        # Slurm switches file name patterns off at a backslash, and no tool of its survives a newline.
        raise RefusedError("workdir=%r: a backslash or newline cannot be in it" % path)
    return os.path.normpath(path)


def make_folder(path: str) -> None:
    """Make a folder and those above it, for the user alone; what exists stays as it is."""
    if os.path.isdir(path):
        return
    make_folder(os.path.dirname(path))
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def write(path: str, data: bytes) -> None:
    """Write a file that appears whole, for the user alone."""
    fd = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    os.rename(path + ".tmp", path)


def touch(path: str) -> None:
    """Make an empty file, for the user alone; one that is there stays."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))


def lock(path: str) -> int:
    """Keep a second submission of this folder out, also after the connection of the first was cut."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + LOCK_WAIT
    while not locked(fd):
        if time.monotonic() > deadline:
            raise TimeoutError("another submission of this job has not ended")
        time.sleep(0.2)
    return fd


def locked(fd: int) -> bool:
    """Try to lock; a file system without locks counts as locked."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EAGAIN, errno.EACCES)
    return True


def job_id(out: str) -> Optional[int]:
    """The id in what sbatch printed, among whatever a wrapper prints around it."""
    for line in reversed(out.splitlines()):
        found = re.match(r"(?:Submitted batch job )?(\d+)(?:;\S+| on cluster \S+)?\s*$", line)
        if found:
            return int(found.group(1))
    return None


def by_name(task: Answer, env: Dict[str, str]) -> Tuple[bool, Optional[int]]:
    """(whether Slurm answered, the newest job of that unique name)."""
    which = ["--me", "-t", "all", "--name", task["name"]]
    argv = ["squeue", *task["cluster"], "-h", "-O", "JobID:|", *which]
    found = call(argv, env, 30)
    ids = [int(line.strip("| ")) for line in found["out"].splitlines() if line.strip("| ").isdigit()]
    return found["exit"] == 0, max(ids) if ids else None


def sbatch(task: Answer, path: str, env: Dict[str, str]) -> Answer:
    """Call sbatch; a wrapper that knows no ``--parsable`` is asked without it."""
    fixed = ["--chdir=" + path]
    if task["output"]:
        fixed += ["--output=" + path.replace("%", "%%") + "/slurm.log", "--open-mode=append"]
    rest = [*fixed, *task["options"], os.path.join(path, task["script"]), path]
    done = call(task["sbatch"] + ["--parsable"] + rest, env, 60)
    if done["exit"] and UNKNOWN_OPTION.search(done["err"]) and "parsable" in done["err"]:
        done = call(task["sbatch"] + rest, env, 60)
    return done


def submit(task: Answer, raw: bytes) -> Answer:
    """Make the folder and submit the job, or find that it was."""
    path = os.path.join(expand(task["workdir"]), task["folder"])
    env = environment(task)
    try:
        make_folder(path)
        held = lock(os.path.join(path, "submit.lock"))
    except TimeoutError as error:
        return {"doubt": str(error), "dir": path}
    try:
        found = adopt(task, path, env) if task["again"] else None
        if found is None:
            fill(task, raw, path)
            found = try_sbatch(task, path, env)
        if "id" in found:
            write(os.path.join(path, "job"), b"%d\n" % found["id"])
        return dict(found, dir=path)
    finally:
        os.close(held)


def adopt(task: Answer, path: str, env: Dict[str, str]) -> Optional[Answer]:
    """A job that an earlier attempt submitted although we did not hear of it."""
    try:
        with open(os.path.join(path, "job")) as file:
            return {"id": int(file.read()), "adopted": True}
    except (EnvironmentError, ValueError):
        pass
    answered, known = by_name(task, env)
    if known is not None:
        return {"id": known, "adopted": True}
    return None if answered else {"doubt": "the Slurm controller does not answer"}


def fill(task: Answer, raw: bytes, path: str) -> None:
    """Write the job's files; the output files and their folder exist before the job does."""
    at = 0
    for name, size in task["files"]:
        write(os.path.join(path, name), raw[at : at + size])
        at += size
    for name in ("work", "x000"):
        make_folder(os.path.join(path, name))
    for name in ("slurm.log", "x000/stdout", "x000/stderr"):
        touch(os.path.join(path, name))


def try_sbatch(task: Answer, path: str, env: Dict[str, str]) -> Answer:
    """Call sbatch, and again only when Slurm knows no job of the name."""
    clean = environment(task, task["clean"])
    said = ""
    for attempt in range(ATTEMPTS):
        done = sbatch(task, path, clean)
        number = job_id(done["out"]) if done["exit"] == 0 else None
        if number is not None:
            return {"id": number, "adopted": False}
        said = (done["err"].strip() or done["out"].strip() or "it said nothing") + " (exit %d)" % done["exit"]
        if done["exit"] and not DOUBTFUL.search(done["err"]):
            raise RefusedError(said)
        # The controller may have taken the job and not have said so.
        time.sleep(2 * attempt + 1)
        answered, known = by_name(task, env)
        if known is not None:
            return {"id": known, "adopted": True}
        if not answered:
            return {"doubt": said}
    return {"doubt": said}


def remove(task: Answer) -> Answer:
    """Remove the files we made, by name, then the folders that are empty; whatever else is there stays."""
    path, ours = task["dir"], re.compile(task["names"])
    for folder in sorted(os.listdir(path)):
        if re.match(r"x\d{3,}$", folder):
            inside = os.path.join(path, folder)
            for name in sorted(os.listdir(inside), reverse=True):
                drop(os.path.join(inside, name), ours.match(name))
            drop(inside, True)
        else:
            drop(os.path.join(path, folder), ours.match(folder) or folder == "work")
    left = sorted(os.path.join(where, name) for where, _, names in os.walk(path) for name in names)
    if not left:
        drop(path, True)
        drop(os.path.dirname(path), True)  # the dispatch's folder, when this was its last node
    return {"left": [name[len(path) + 1 :] for name in left[:20]], "count": len(left)}


def drop(path: str, ours: Any) -> None:
    """Unlink a file of ours or remove an empty folder."""
    if not ours:
        return
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            os.rmdir(path)
        else:
            os.unlink(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
            raise


def do(task: Answer, raw: bytes) -> Answer:
    """Do what is asked."""
    try:
        if task["do"] == "submit":
            return submit(task, raw)
        if task["do"] == "remove":
            return remove(task)
        return call(task["argv"], environment(task), task["timeout"])
    except RefusedError as error:
        return {"refused": str(error)}
    except OSError as error:
        where = " (%s)" % error.filename if error.filename else ""
        return {"refused": (error.strerror or str(error)) + where, "errno": error.errno}


def take(size: int) -> bytes:
    """Read exactly so many bytes of stdin."""
    data = bytearray()
    while len(data) < size:
        got = os.read(0, min(size - len(data), 1 << 20))
        if not got:
            raise SystemExit(0)  # cut off: nothing was begun
        data += got
    return bytes(data)


def main() -> None:
    """Do the one thing asked for."""
    line = b""
    while not line.endswith(b"\n"):
        line += take(1)
    header, raw = (int(size) for size in line.split())
    task = json.loads(take(header).decode("ascii"))
    text = json.dumps(do(task, take(raw))).encode("ascii")
    os.write(1, b"%d 0\n" % len(text) + text)


if __name__ == "__main__":
    main()
