# SPDX-License-Identifier: Apache-2.0
"""Dispatches to read the output of, and readers in threads of their own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin import logs
from tests.executors.dispatches import dispatch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rigs.covalent_server import CovalentServer

_FLOW = """
import covalent as ct
local = ct.executor.LocalJobLogExecutor()

@ct.electron(executor=local)
def task():
    exec(body, dict(given))

@ct.lattice
def flow():
    return task()
"""


def run(server: CovalentServer, body: str, **given: object) -> str:
    """Dispatch one electron, ``task``, whose body is ``body``; the dispatch's id."""
    return dispatch(server, _FLOW, body=body, given=given)


def gated(gate: Path, count: int) -> str:
    """A script for ``tests.store.scripts``: ten lines when the file ``n`` is there; half a one at the end."""
    return f"""
import pathlib
async def run(output, say):
    for n in range({count}):
        while not pathlib.Path({str(gate)!r}, str(n)).exists():
            await asyncio.sleep(0.02)
        for m in range(10):
            await say(f"line {{n}}.{{m}} €\\n".encode())
    await say(b"half")
"""


def lines_of(steps: int) -> list[str]:
    """The whole lines of so many steps of ``gated``."""
    return [f"line {n}.{m} €" for n in range(steps) for m in range(10)]


class Following:
    """``logs(…, follow=True)`` in a thread of its own."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.lines: list[str] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(args, options), daemon=True)
        self._thread.start()

    def _run(self, args: Any, options: Any) -> None:
        try:
            self.lines.extend(logs(*args, follow=True, **options))
        except Exception as error:  # noqa: BLE001 - raised where the end is waited for
            self._error = error

    def end(self, timeout: float = 90) -> list[str]:
        """All lines, when it has ended; raises what it raised."""
        self._thread.join(timeout)
        assert not self._thread.is_alive(), self.lines[-3:]
        if self._error is not None:
            raise self._error
        return self.lines
