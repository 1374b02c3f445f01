# SPDX-License-Identifier: Apache-2.0
"""What a measurement says, and how it is shown."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of ours and, where there is one, the peer's of the same run.

    Attributes:
        what: What was measured.
        ours: Our number, in ``unit``.
        unit: ``%``, ``ms`` or ``MiB``.
        peer: The peer's number; None where nobody does the same.
        peer_name: Who the peer is.
        aim: The number to reach, with its sign.
    """

    what: str
    ours: float
    unit: str
    peer: float | None = None
    peer_name: str = ""
    aim: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours divided by the peer's: what stays the same when the whole machine is slow."""
        return self.ours / self.peer if self.peer else None


def table(figures: Sequence[Figure]) -> str:
    """The figures as a table in Markdown."""
    rows = [("what", "ours", "peer", "ours / peer", "aim"), ("---",) * 5]
    for figure in figures:
        peer = "" if figure.peer is None else f"{_short(figure.peer)} {figure.unit} ({figure.peer_name})"
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
        rows.append((figure.what, f"{_short(figure.ours)} {figure.unit}", peer, ratio, figure.aim))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _short(number: float) -> str:
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"


def save(figures: Sequence[Figure], file: Path) -> None:
    """Write the figures as JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([asdict(figure) | {"ratio": figure.ratio} for figure in figures], indent=1))


def p50_p95(values: Sequence[float]) -> tuple[float, float]:
    """Median and 95th percentile."""
    parts = statistics.quantiles(values, n=20, method="inclusive")
    return parts[9], parts[18]
