# SPDX-License-Identifier: Apache-2.0
"""How it stands with what is watched, in one line; pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from covalent_joblog_plugin.reading.answers import NOT_STARTED

from .wording import size, span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalent_joblog_plugin.reading.answers import NodeInfo
    from covalent_joblog_plugin.reading.sources import Outputs

    from .places import Place

_PATH_PARTS = 2


def state_of(node: NodeInfo) -> str:
    """A node's state in a word: Covalent's, unless the node was left or it waits to begin."""
    if node.state in {"orphaned", "interrupted"} and node.status not in {"COMPLETED", "FAILED", "CANCELLED"}:
        return node.state.upper()
    return "PENDING" if node.status in NOT_STARTED else node.status


def why(node: NodeInfo) -> str:
    """What a reader should know besides: why it waits, why its output does not come; empty mostly."""
    reading = node.reading.trouble if node.reading else ""
    return "; ".join(part for part in (node.note, reading, node.trouble) if part)


def of_node(node: NodeInfo, place: Place, outputs: Outputs, last: float | None, now: float) -> str:
    """One node: state, staleness, source, size.

    Args:
        node: The node.
        place: Where its job is.
        outputs: What is shown of it.
        last: When the last line that was shown arrived, Unix seconds; None while there is none.
        now: Unix seconds.
    """
    files = outputs.choose(node.files)
    reading = node.reading
    parts = ["live" if node.state == "live" else state_of(node), why(node)]
    if reading and reading.at and not reading.trouble:
        parts.append(f"answered {span(now - reading.at)} ago")
    parts.append(f"last output {span(now - last)} ago" if last else "")
    path = next((place.files[file.name] for file in files if file.name in place.files), "")
    parts.append(f"{place.host}:{_short(path)}" if path else place.host)
    parts.append(size(sum(file.size for file in files)))
    return " · ".join(part for part in parts if part)


def of_nodes(statuses: Iterable[str], last: float | None, now: float) -> str:
    """Several nodes: how many are in which state.

    Args:
        statuses: Their statuses in Covalent's spelling.
        last: As in ``of_node``.
        now: Unix seconds.
    """
    counts = Counter("PENDING" if status in NOT_STARTED else status for status in statuses)
    states = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    parts = [f"{counts.total()} nodes: {states}", f"last output {span(now - last)} ago" if last else ""]
    return " · ".join(part for part in parts if part)


def _short(path: str) -> str:
    parts = path.split("/")
    return "/".join(["…", *parts[-_PATH_PARTS:]]) if len(parts) > _PATH_PARTS + 2 else path
