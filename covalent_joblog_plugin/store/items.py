# SPDX-License-Identifier: Apache-2.0
"""What is handed to the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covalent_joblog_plugin.model.records import Seam


@dataclass(frozen=True, slots=True)
class Append:
    """Bytes that follow what is stored of one output.

    Attributes:
        file: ``stdout`` or ``stderr`` (the node's own), or any other name.
        data: The bytes, exactly as the job wrote them.
        execution: Which start of the job wrote them.
        arrival: When they reached us, Unix seconds.
        source_time: When they were written on the source's clock, Unix seconds; None where unknown.
    """

    file: str
    data: bytes
    execution: int
    arrival: float
    source_time: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """How the sources of a node are being read.

    Attributes:
        at: When they last answered, with news or without, Unix seconds; None before the first answer.
        trouble: Why reading fails now, and since when; empty while it does not.
        sources: Output → the file that feeds it now, as its source calls it.
    """

    at: float | None
    trouble: str
    sources: dict[str, str]


@dataclass(frozen=True, slots=True)
class SeamAt:
    """A break at the present end of one output.

    Attributes:
        file: As in ``Append``.
        seam: What readers must know.
    """

    file: str
    seam: Seam
