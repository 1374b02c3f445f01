# SPDX-License-Identifier: Apache-2.0
"""Calls of ``remote_commands`` on the login node."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import JobLogError, TransportError

from .far_side import COMMAND, COMMANDS, LOOK, FarSide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .shell import Shell

GRACE = 30.0
"""Seconds the far side may take beyond the command it runs: login shells are slow to start."""
SUBMIT_TIMEOUT = 600.0
LOOK_TIMEOUT = 180.0
GATHER = 0.05
"""Seconds in which removals are gathered into one command."""

OUR_FILES = (
    r"(job\.sh|runner\.py|bundle|slurm\.log|job|submit\.lock|stdout|stderr|started|exit|ranks|result|verdict"
    r"|rank\d+\.std(out|err)|.*\.tmp)$"
)
"""Names of the files the executor makes in a job's folder."""


@dataclass(frozen=True, slots=True)
class Called:
    """A command of Slurm's that ended."""

    exit_status: int
    out: str
    err: str


class FarCommands:
    """Slurm's commands and job folders on the login node.

    Args:
        shell: The way there.
        slurm_path: Folder to look for Slurm's commands in first; empty for none.
        clusters: Value of Slurm's ``-M``; empty for none.
    """

    def __init__(self, shell: Shell, slurm_path: str = "", clusters: str = "") -> None:
        self._shell = shell
        self._slurm_path = slurm_path
        self._cluster = ["-M", clusters] if clusters else []
        self._removals: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._removing: asyncio.Task[None] | None = None

    async def call(self, command: str, *argv: str, timeout: float = 30) -> Called:
        """Run one of Slurm's commands.

        Raises:
            TransportError: The connection failed, or the login node cannot start it; nothing is known.
        """
        task = {"do": "call", "argv": [command, *self._cluster, *argv], "timeout": timeout}
        done = await self._do(task, b"", timeout + GRACE)
        if "refused" in done:
            raise TransportError(f"{command} cannot be started on the login node: {done['refused']}")
        return Called(done["exit"], done["out"], done["err"])

    async def submit(self, task: dict[str, Any], files: Sequence[bytes]) -> dict[str, Any]:
        """Make a job's folder and submit it; see ``remote_commands`` for task and answer.

        Raises:
            TransportError: The connection failed; the job may have been submitted.
        """
        task = {**task, "do": "submit", "cluster": self._cluster}
        return await self._do(task, b"".join(files), SUBMIT_TIMEOUT)

    async def remove(self, folder: str) -> list[str]:
        """Remove a job's files and folders; returns what was left there because it is not ours, at most 20.

        Jobs that end together share one command.

        Raises:
            TransportError: The connection failed, or the login node refuses.
        """
        answer = self._removals[folder] = asyncio.get_running_loop().create_future()
        if self._removing is None or self._removing.done():
            self._removing = asyncio.create_task(self._remove_all(), name="joblog clean up")
        found: dict[str, Any] = await answer
        if "refused" in found:
            raise TransportError(f"{folder} could not be removed: {found['refused']}")
        return list(found["left"])

    async def _remove_all(self) -> None:
        await asyncio.sleep(GATHER)
        while self._removals:
            asked, self._removals = self._removals, {}
            found: list[dict[str, Any]] = [{"refused": "the clean-up did not end"}] * len(asked)
            try:
                task = {"do": "remove", "dirs": list(asked), "names": OUR_FILES}
                found = (await self._do(task, b"", 60))["removed"]
            except JobLogError as error:
                found = [{"refused": str(error)}] * len(asked)
            finally:
                # Whatever happened here, the nodes that wait for it must end.
                for answer, one in zip(asked.values(), found, strict=True):
                    if not answer.done():
                        answer.set_result(one)

    async def look(self, task: dict[str, Any]) -> dict[str, Any]:
        """What jobs need there, see ``remote_look`` for task and answer; changes nothing.

        Raises:
            TransportError: The connection failed.
        """
        return await self._do({**task, "cluster": self._cluster}, b"", LOOK_TIMEOUT, LOOK)

    async def _do(
        self, task: dict[str, Any], raw: bytes, timeout: float, program: tuple[str, ...] = COMMANDS
    ) -> dict[str, Any]:
        far_side = FarSide(program)
        text = json.dumps({**task, "slurm_path": self._slurm_path}).encode("ascii")
        stdin = far_side.opening + b"%d %d\n" % (len(text), len(raw)) + text + raw
        done = await self._shell.run(COMMAND, stdin, timeout)
        frames = far_side.feed(done.stdout)
        if not frames:
            raise TransportError(far_side.silence(done.exit_status, done.stderr))
        return frames[0][0]
