# SPDX-License-Identifier: Apache-2.0
"""What can be done with a node's output, known before anybody asks for it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum


class Answer(str, Enum):
    """Yes, no, or not known yet."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Capability:
    """One answer with a reason a user can act on."""

    answer: Answer
    reason: str = ""

    def __bool__(self) -> bool:
        """True for yes, False for no.

        Raises:
            ValueError: The answer is not known; code that must decide has to look at ``answer``.
        """
        if self.answer is Answer.UNKNOWN:
            raise ValueError(f"not known yet: {self.reason}; look at .answer instead of taking its truth")
        return self.answer is Answer.YES


YES = Capability(Answer.YES)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What can be done with the output of one node.

    Attributes:
        read: Whether it can be read at all.
        follow: Whether it grows while the job runs.
        retained: Whether it stays when the cluster has forgotten the job.
        split_streams: Whether stdout and stderr are apart.
        truncation: Whether a truncated or replaced file is noticed.
        complete: Whether count and hash prove, at the end, that nothing is missing.
    """

    read: Capability = YES
    follow: Capability = YES
    retained: Capability = YES
    split_streams: Capability = YES
    truncation: Capability = YES
    complete: Capability = Capability(Answer.UNKNOWN, "the job does not count and hash what it writes")

    def to_json(self) -> dict[str, dict[str, str]]:
        """``{"read": {"answer": "yes", "reason": ""}, …}``."""
        return {name: {"answer": c.answer.value, "reason": c.reason} for name, c in self.items()}

    def items(self) -> list[tuple[str, Capability]]:
        """Name and answer of each."""
        return [(field.name, getattr(self, field.name)) for field in fields(self)]
