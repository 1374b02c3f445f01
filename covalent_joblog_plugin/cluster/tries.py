# SPDX-License-Identifier: Apache-2.0
"""How a log is read again where an answer did not fit what is known of it."""

from __future__ import annotations

from typing import NamedTuple


class Try(NamedTuple):
    """How to read again.

    Attributes:
        back: Seconds before the newest line at which to begin.
        candidate: Which of the known lines with one stamp comes first in the answer; negative takes none for
            known, and what is newer than all of them for new, behind a gap.
    """

    back: int
    candidate: int = 0


TRIES = (Try(1), Try(1, 1), Try(1, 2), Try(4), Try(8), Try(1, -1))
"""Several, for runtimes that give lines equal stamps, or stamps far out of order."""
