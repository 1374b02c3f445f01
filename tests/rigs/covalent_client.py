# SPDX-License-Identifier: Apache-2.0
"""A process in which a server's clients live: Covalent reads its configuration when it is imported."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

# Each script gets names of its own; __name__ stays "__main__", so that functions travel by value.
_WORKER = """
import json, os, sys, traceback
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    names = {"__name__": "__main__", "answer": None, **json.loads(line)}
    try:
        exec(compile(names["_script"], "client", "exec"), names)
        reply = json.dumps({"answer": names["answer"]})
    except BaseException:
        reply = json.dumps({"error": traceback.format_exc()})
    print(reply, file=answers, flush=True)
"""


class CovalentClient:
    """Runs scripts one after the other in one process with the environment ``env``."""

    def __init__(self, env: dict[str, str], folder: Path, log: Path) -> None:
        self._env = env
        self._folder = folder
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def run(self, script: str, values: dict[str, Any], timeout: float) -> Any:
        """What ``script`` left in ``answer`` (JSON); AssertionError with its traceback if it raised."""
        with self._lock:
            process = self._process = self._process or self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps({**values, "_script": script}) + "\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], timeout)
            line = process.stdout.readline() if ready else ""
            if not line:
                self.close()
                raise AssertionError(f"no answer within {timeout} s, see {self._log}")
        reply = json.loads(line)
        assert "error" not in reply, reply["error"]
        return reply["answer"]

    def _start(self) -> subprocess.Popen[str]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", _WORKER],
                env=self._env,
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
