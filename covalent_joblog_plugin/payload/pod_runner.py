# SPDX-License-Identifier: Apache-2.0
"""First process of a pod's container: ``python3 -u pod_runner.py FOLDER``.

Standard library only, for Python 3.8 and later. FOLDER holds ``bundle``, ``runner.py``, ``pod_delivery.py``
and ``framing.py``. It runs the bundle in a child process, in the current directory; writes the child's stdout
and stderr, framed, to its own stdout in the order read; forwards SIGTERM and SIGINT to the child and stays to
read its last words; and reaps whatever the child leaves behind. At the end it tells how that went in the
container's termination message.

The environment (none of it reaches the child):

``JOBLOG_FRAMING``
    ``1``: as above. ``0``: the child writes to the container's own stdout and stderr.
``JOBLOG_RANK_FROM``
    Names of variables with commas between; the first that is set is the rank. Rank 0 delivers the result.
``JOBLOG_STORE``
    Beginning of an fsspec URL at which a large result is put; it needs fsspec and its driver here.
``JOBLOG_RESULT_DIR``
    Folder for a result that fits nowhere else.
``JOBLOG_FUNCTION_ENVIRONMENT``
    JSON, variable → value: what only the function's Python is to see.
``JOBLOG_TERMINATION_LOG``
    Path of the termination message if it is not ``/dev/termination-log``.

Exit status: the child's, 128 + n where signal n ended it; 77 where the store cannot be used.
"""

from __future__ import annotations

import json
import math
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from framing import Encoder

READ_BYTES = 64 * 1024
"""All that a pipe holds."""
DRAIN_SECONDS = 2.0
"""How long the output of processes that outlive the child is waited for."""
STORE_UNUSABLE = 77


class Log:
    """The container's stdout. A log that cannot be written does not disturb the job."""

    def __init__(self) -> None:
        self.broken = False

    def write(self, data: bytes) -> None:
        """Write all of it, however long the container runtime takes."""
        rest = memoryview(data)
        while rest and not self.broken:
            try:
                rest = rest[os.write(1, rest) :]
            except BlockingIOError:
                select.select([], [1], [])
            except OSError:
                self.broken = True


class Child:
    """The process that runs the bundle.

    Attributes:
        status: Its exit status, -n where signal n ended it; None while it runs.
        wake: A descriptor that can be read when a signal came.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        self.pid = 0
        self.early: list[int] = []
        self.wake, told = os.pipe()
        for end in (self.wake, told):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.forward)

    def start(self, argv: list[str], environment: dict[str, str], *, pipes: bool) -> dict[int, int]:
        """Start it; descriptor → stream (1 or 2) of what it writes into pipes."""
        kind = subprocess.PIPE if pipes else None
        process = subprocess.Popen(argv, bufsize=0, env=environment, stdout=kind, stderr=kind)
        self.process, self.pid = process, process.pid
        for number in self.early:
            self.send(number)
        ends = ((process.stdout, 1), (process.stderr, 2))
        return {end.fileno(): stream for end, stream in ends if end is not None}

    def forward(self, number: int, _frame: Any) -> None:
        """Signal handler: also while the log takes nothing."""
        if not self.pid:
            self.early.append(number)
        elif self.status is None:
            self.send(number)

    def send(self, number: int) -> None:
        """Send a signal; the child may just have ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def reap(self) -> None:
        """Take note of whatever ended: the first process of a container inherits its orphans."""
        with suppress(BlockingIOError):
            os.read(self.wake, 4096)
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if pid == self.pid:
                    exited = os.WIFEXITED(status)
                    self.status = os.WEXITSTATUS(status) if exited else -os.WTERMSIG(status)
                    self.process.returncode = self.status  # nobody else waits for it


def carry(child: Child, streams: dict[int, int], encoder: Encoder | None, log: Log) -> int:
    """Bring what the child writes into the log until it and its output have ended; its exit status."""
    poller = select.poll()
    for end in (child.wake, *streams):
        poller.register(end, select.POLLIN)
    deadline = math.inf
    while True:
        child.reap()
        now = time.monotonic()
        if child.status is not None:
            deadline = min(deadline, now + DRAIN_SECONDS)
            if not streams:
                return child.status
        due = encoder.due() if encoder is not None else None
        until = min(deadline, math.inf if due is None else due)
        # Whoever waited for long in a write looks once more, and so reads all that was in the pipes.
        last = now >= deadline
        ready = poller.poll(None if until == math.inf else max(0, math.ceil((until - now) * 1000)))
        now = time.monotonic()
        for end, _ in ready:
            if encoder is not None and end in streams:
                data = os.read(end, READ_BYTES)
                if data:
                    log.write(encoder.feed(streams[end], data, now))
                else:
                    poller.unregister(end)
                    del streams[end]
        if encoder is not None:
            log.write(encoder.tick(now))
        if last and child.status is not None:
            return child.status


def settings() -> dict[str, str]:
    """Our variables, taken out of the environment."""
    return {name[7:].lower(): os.environ.pop(name) for name in list(os.environ) if name.startswith("JOBLOG_")}


def rank(names: str) -> int:
    """The node's rank; 0 where none is told."""
    for name in names.split(","):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0


def main(folder: str) -> int:
    """Run the bundle in ``folder``; the exit status."""
    sys.path.insert(0, folder)  # some start Python so that it leaves out the script's own folder
    import pod_delivery
    from framing import Encoder

    options = settings()
    child, log = Child(), Log()
    message = pod_delivery.Message(options.get("termination_log") or "/dev/termination-log")
    leads = rank(options.get("rank_from", "")) == 0
    problem = pod_delivery.store_problem(options["store"]) if leads and options.get("store") else ""
    if problem:
        sys.stderr.write(f"the object store cannot be used: {problem}\n")
        message.write({"kind": "store", "host": os.uname().nodename, "message": problem})
        return STORE_UNUSABLE
    encoder = Encoder() if options.get("framing") == "1" else None
    if encoder is not None:
        log.write(encoder.tick(time.monotonic()))
    out = os.path.join(folder, "out")
    os.mkdir(out, 0o700)
    argv = [sys.executable, "-u", *(os.path.join(folder, name) for name in ("runner.py", "bundle", "out"))]
    # A value of another rank may be anything, and as large as rank 0's.
    argv += [] if leads else ["--without-value"]
    own = {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
    environment = {**own, **os.environ, **json.loads(options.get("function_environment", "{}"))}
    status = carry(child, child.start(argv, environment, pipes=encoder is not None), encoder, log)
    facts = pod_delivery.verdict_of(out, status)
    if encoder is not None:
        log.write(encoder.finish())
        counted = [list(pair) for pair in zip(encoder.sizes, encoder.sha256())]
        facts["streams"] = dict(zip(("stdout", "stderr"), counted))
    if leads and facts["kind"] == "ok" and status == 0:
        facts.update(pod_delivery.deliver(facts, os.path.join(out, "result"), options, log.write))
    message.write(facts)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    place = os.path.abspath(sys.argv[1])
    ended = main(place)
    # Where it is on a volume that stays, function and arguments would stay with it.
    shutil.rmtree(place, ignore_errors=True)
    sys.exit(ended)
