# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as a tree.

    JobLogError
    ├── TransportError          the way to the cluster failed; tried again with back-off
    │   └── AuthenticationError   the cluster refused us; not tried again soon, sites ban repeated failures
    ├── OptionError             an option is wrong; raised before anything is submitted (a ValueError)
    ├── SubmissionError         the cluster refused the job
    ├── JobFailed               the job ran and failed, or vanished; the text says all that is known
    ├── PayloadError            function, arguments or result could not make the journey
    ├── StoreError              the output could not be stored
    │   └── StoreFull             the disk is at its reserve; goes on when there is room
    └── OutputError             the output cannot be read back
        ├── OutputNotFound        there is no such dispatch, node, file, execution or rank
        ├── OutputNotYet          there is none yet; the text says what is waited for
        ├── OutputGone            it was there, and the cluster has forgotten it
        ├── OutputUnsupported     this cannot be had; the text says which capability and why
        └── BadSelection          what was asked for has no meaning here (a ValueError)

Every message names the thing, the cause and the next step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class JobLogError(Exception):
    """Whatever this package raises on purpose."""


class TransportError(JobLogError):
    """The way to the cluster failed: a network fault, a lost connection, a remote helper that died.

    Reading backs off and tries again; it says nothing about the job.
    """


class AuthenticationError(TransportError):
    """The cluster refused our key or we refused its host key; trying again at once cannot help."""


class OptionError(JobLogError, ValueError):
    """An executor option is unknown, of the wrong type, or cannot work."""


class SubmissionError(JobLogError):
    """The cluster refused the job; nothing was started."""


class JobFailed(JobLogError):  # noqa: N818 - Slurm's state is called FAILED
    """The job ended without a result."""


class PayloadError(JobLogError):
    """Function, arguments or result could not be carried to or from the job."""


class StoreError(JobLogError):
    """Output could not be stored."""


class StoreFull(StoreError):  # noqa: N818 - a state, not a mistake
    """The disk is at its reserve."""


class OutputError(JobLogError):
    """Output cannot be read back."""


class OutputNotFound(OutputError):  # noqa: N818 - a state, not a mistake
    """There is no such dispatch, node, file, execution or rank; the text says what there is.

    Args:
        message: What is missing.
        exists: What there is instead, as it would be asked for; perhaps only the first or newest of many.
    """

    def __init__(self, message: str, exists: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.exists = list(exists)


class OutputNotYet(OutputError):  # noqa: N818 - a state, not a mistake
    """There is none yet: the job waits, and the text says for what."""


class OutputGone(OutputError):  # noqa: N818 - a state, not a mistake
    """The cluster has forgotten it."""


class OutputUnsupported(OutputError):  # noqa: N818 - a state, not a mistake
    """This cannot be had from this cluster; the text says which capability is missing, and why."""


class BadSelection(OutputError, ValueError):  # noqa: N818 - a state of the question, not of the output
    """What was asked for is ambiguous, cannot be used, or contradicts itself; nothing was read.

    Args:
        option: Which part of the selection, as it is spelled there: ``since``, ``query``, …
        message: What is wrong with it, and what to write instead.
    """

    def __init__(self, option: str, message: str) -> None:
        super().__init__(f"{option}: {message}")
        self.option = option
