# SPDX-License-Identifier: Apache-2.0
"""Calls of ``remote_commands`` on the login node."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import TransportError

from .far_side import COMMAND, FarSide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .shell import Shell

GRACE = 30.0
"""Seconds the far side may take beyond the command it runs: login shells are slow to start."""
SUBMIT_TIMEOUT = 600.0

OUR_FILES = (
    r"(job\.sh|runner\.py|bundle|slurm\.log|job|submit\.lock|stdout|stderr|started|exit|result|verdict"
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

    async def call(self, command: str, *argv: str, timeout: float = 30) -> Called:
        """Run one of Slurm's commands.

        Raises:
            TransportError: The connection failed; nothing is known.
        """
        task = {"do": "call", "argv": [command, *self._cluster, *argv], "timeout": timeout}
        done = await self._do(task, b"", timeout + GRACE)
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

        Raises:
            TransportError: The connection failed.
        """
        answer = await self._do({"do": "remove", "dir": folder, "names": OUR_FILES}, b"", 60)
        if "refused" in answer:
            raise TransportError(f"{folder} could not be removed: {answer['refused']}")
        return list(answer["left"])

    async def _do(self, task: dict[str, Any], raw: bytes, timeout: float) -> dict[str, Any]:
        far_side = FarSide("remote_commands")
        text = json.dumps({**task, "slurm_path": self._slurm_path}).encode("ascii")
        stdin = far_side.opening + b"%d %d\n" % (len(text), len(raw)) + text + raw
        done = await self._shell.run(COMMAND, stdin, timeout)
        frames = far_side.feed(done.stdout)
        if not frames:
            raise TransportError(far_side.silence(done.exit_status, done.stderr))
        return frames[0][0]
