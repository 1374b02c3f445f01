# SPDX-License-Identifier: Apache-2.0
"""What can be done with a node's output, known before anybody asks for it."""

from __future__ import annotations

from dataclasses import dataclass
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
