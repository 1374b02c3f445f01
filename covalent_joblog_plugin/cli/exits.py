# SPDX-License-Identifier: Apache-2.0
"""What the command's exit status says."""

from __future__ import annotations

from enum import IntEnum

from typing_extensions import Self

from covalent_joblog_plugin.model.errors import (
    BadSelection,
    JobFailed,
    OptionError,
    OutputError,
    TransportError,
)


class Exit(IntEnum):
    """The exit statuses of ``joblog``; ``meaning`` is what README says of each."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Self:
        """A status and its meaning."""
        status = int.__new__(cls, value)
        status._value_ = value
        status.meaning = meaning
        return status

    DONE = 0, "done; with `-f` also: what was followed is COMPLETED"
    FAILED = 1, "what was followed FAILED; `doctor` found a fault; the job has no result"
    USAGE = 2, "the command line is wrong, or what it asks for has no meaning"
    NOT_THERE = 3, "there is no such dispatch, node or output, or not yet, or not any more"
    UNREACHABLE = 4, "the Covalent server or the cluster does not answer"
    CANCELLED = 5, "what was followed is CANCELLED"
    ORPHANED = 6, "the server that ran what was followed was stopped; Covalent will not end it"
    INTERRUPTED = 130, "Ctrl-C: the watching ended, and nothing else"
    PIPE_CLOSED = 141, "whoever reads the output has closed it"


_OF: list[tuple[type[Exception], Exit]] = [
    (BadSelection, Exit.USAGE),
    (OptionError, Exit.USAGE),
    (OutputError, Exit.NOT_THERE),
    (TransportError, Exit.UNREACHABLE),
    (JobFailed, Exit.FAILED),
]


def exit_of(error: Exception) -> Exit:
    """The status for an error of ours; ``FAILED`` where no other one fits."""
    return next((status for kind, status in _OF if isinstance(error, kind)), Exit.FAILED)
