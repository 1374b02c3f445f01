# SPDX-License-Identifier: Apache-2.0
"""Makes a job's folder and submits it. Part of a program for the login node; see ``remote_frames``."""

import errno
import fcntl
import os
import re
import time
from typing import TYPE_CHECKING, Dict, Optional, Tuple

if TYPE_CHECKING:
    from .remote_call import Answer, RefusedError, call, environment, login_variable

DOUBTFUL = re.compile(
    "socket timed out|unable to contact|unexpected message|temporarily unable|temporarily unavailable"
    "|connection refused|zero bytes were transmitted",
    re.IGNORECASE,
)
UNKNOWN_OPTION = re.compile("unrecognized option|unknown option|invalid option", re.IGNORECASE)
ATTEMPTS = 4
LOCK_WAIT = 60.0


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
    expanded = os.path.expanduser(workdir)
    if expanded.startswith("~"):
        raise RefusedError(
            "workdir=%r: there is no user %s; give a path" % (workdir, workdir[1:].split("/")[0])
        )
    path = os.path.join(os.path.expanduser("~"), expanded)
    if "\\" in path or "\n" in path:
        # Slurm switches file name patterns off at a backslash, and no tool of its survives a newline.
        raise RefusedError("workdir=%r: a backslash or newline cannot be in it" % path)
    return os.path.normpath(path)


def make_folder(path: str, attempts: int = 10) -> None:
    """Make a folder and those above it, for the user alone; what exists stays as it is."""
    if os.path.isdir(path):
        return
    make_folder(os.path.dirname(path))
    try:
        os.mkdir(path, 0o700)
    except FileNotFoundError:
        # The clean-up of the dispatch's only other job may just have removed the folder above.
        if not attempts:
            raise
        make_folder(path, attempts - 1)
    except FileExistsError:
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None


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
    # Without -a the jobs of a hidden partition are left out.
    which = ["-u", str(os.getuid()), "-a", "-t", "all", "--name", task["name"]]
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
    except OSError as error:
        raise RefusedError(
            "its folder %s cannot be made: %s; give the executor a workdir that you may write to and the "
            "nodes share" % (path, error)
        ) from None
    try:
        found = adopt(task, path, env) if task["again"] else None
        if found is None and task["only_adopt"]:
            return {"none": True, "dir": path}
        if found is None:
            try:
                fill(task, raw, path)
            except OSError as error:
                text = "its folder %s cannot be written: %s; make room there or use another workdir"
                raise RefusedError(text % (path, error)) from None
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
