# SPDX-License-Identifier: Apache-2.0
"""What squeue says, and what it means; pure.

A failed or garbled query is no information. Only fields count, never a word somewhere in the text.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from enum import Enum

from covalent_joblog_plugin.model.errors import TransportError

FIELDS = "JobID:|,State:|,RestartCnt:|,exit_code:|,Reason:|,NodeList:|"
"""For ``squeue -h -O``; each field ends in ``|``. ``exit_code`` is a raw wait status."""

LIVE = frozenset(
    {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"}
    | {"STAGE_OUT", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
FINAL = frozenset(["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "REVOKED"])
FINAL_LATER = frozenset(["PREEMPTED", "NODE_FAIL", "BOOT_FAIL"])
"""Final only when the job was not requeued within ``REQUEUE_GRACE``."""
REQUEUE_GRACE = 60.0
"""Seconds."""


class Meaning(Enum):
    """What a state says about the job."""

    LIVE = "live"
    FINAL = "final"
    FINAL_LATER = "final unless it is requeued"
    UNKNOWN = "a word not known here; taken as live"


def meaning(state: str) -> Meaning:
    """Meaning of a state word."""
    if state in LIVE:
        return Meaning.LIVE
    if state in FINAL:
        return Meaning.FINAL
    return Meaning.FINAL_LATER if state in FINAL_LATER else Meaning.UNKNOWN


@dataclass(frozen=True, slots=True)
class JobRow:
    """One line of squeue.

    Attributes:
        job_id: Slurm's job id.
        state: State word.
        restarts: How often it was requeued.
        wait_status: Raw wait status of the batch script; 0 while it runs.
        reason: Why it waits or failed.
        nodes: Where it runs; empty while it waits.
    """

    job_id: int
    state: str
    restarts: int = 0
    wait_status: int = 0
    reason: str = ""
    nodes: str = ""


_ROW = re.compile(r"\s*(\d+)\s*\|\s*([A-Z_+]+)[^|]*\|\s*(\d*)\s*\|\s*(\d*)\s*\|([^|]*)\|([^|]*)\|\s*")


def parse_rows(text: str) -> dict[int, JobRow]:
    """Rows of ``squeue -O FIELDS`` by job id.

    Lines of other shape (array tasks, parts of het jobs, what a wrapper prints) are not about our jobs.
    """
    rows: dict[int, JobRow] = {}
    for line in text.splitlines():
        if found := _ROW.fullmatch(line):
            number, state, restarts, status, reason, nodes = (part.strip() for part in found.groups())
            reason = "" if reason == "None" else reason
            nodes = "" if nodes == "(null)" else nodes
            rows[int(number)] = JobRow(
                int(number), state, int(restarts or 0), int(status or 0), reason, nodes
            )
    return rows


_SHOWN = re.compile(r"\s*JobId=(\d+) JobName=\S+ .*?\bJobState=([A-Z_]+) .*?\bRestarts=(\d+) ")


def parse_shown(text: str) -> JobRow | None:
    """The row of ``scontrol -o show job`` of a job of ours; None unless it is alive."""
    found = _SHOWN.match(text)
    if found is None or meaning(found.group(2)) is not Meaning.LIVE:
        return None
    return JobRow(int(found.group(1)), found.group(2), int(found.group(3)))


ACCOUNTING_FIELDS = "JobIDRaw,State,ExitCode,NodeList"
"""For ``sacct -n -X -P -o``."""
_ACCOUNTED = re.compile(r"(\d+)\|([A-Z_]+)[^|]*\|(\d+):(\d+)\|([^|]*)")


def parse_accounting(text: str) -> dict[int, JobRow]:
    """Rows of ``sacct -n -X -P -o ACCOUNTING_FIELDS`` by job id, only those that are over.

    sacct lags behind: that it calls a job running says nothing.
    """
    rows: dict[int, JobRow] = {}
    for line in text.splitlines():
        if found := _ACCOUNTED.fullmatch(line.strip()):
            number, state, code, by, nodes = found.groups()
            if meaning(state) in (Meaning.FINAL, Meaning.FINAL_LATER):
                rows[int(number)] = JobRow(int(number), state, 0, int(code) << 8 | int(by), nodes=nodes)
    return rows


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a process ended: an exit code, or a signal."""

    code: int = 0
    signal: int = 0

    def __str__(self) -> str:
        """In words."""
        if self.signal:
            return f"ended by signal {self.signal} ({signal_name(self.signal)})"
        return f"exit code {self.code}"

    def __bool__(self) -> bool:
        """Whether it ended badly."""
        return bool(self.code or self.signal)


def decode_wait_status(status: int) -> ExitStatus:
    """Decode a raw wait status, as in squeue's ``exit_code`` (11008 is exit code 43, 15 is SIGTERM)."""
    return ExitStatus(code=(status >> 8) & 0xFF, signal=status & 0x7F)


def decode_shell_status(status: int) -> ExitStatus:
    """Decode ``$?`` of a shell: above 128 it may stand for a signal."""
    number = status - 128
    if number > 0 and any(number == known for known in signal.valid_signals()):
        return ExitStatus(signal=number)
    return ExitStatus(code=status)


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; ``signal 77`` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def parse_record(data: bytes) -> dict[str, str] | None:
    """A marker file of the job script: ``name=value`` lines and a line ``end``; None when it is not whole.

    Raises:
        TransportError: It is whole and yet no marker.
    """
    lines = data.decode("utf-8", "replace").split("\n")
    if lines[-2:] != ["end", ""]:
        return None
    pairs = [line.partition("=") for line in lines[:-2]]
    if any(not separator for _, separator, _ in pairs):
        raise TransportError(f"a marker file of the job is garbled: {data[:200]!r}")
    return {name: value for name, _, value in pairs}
