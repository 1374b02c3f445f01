# SPDX-License-Identifier: Apache-2.0
"""Output in a notebook: its last lines as text, whatever a job wrote into them."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from covalent_joblog_plugin.text.terminal import safe

from .explaining import why_nothing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .evaluation import Evaluation
    from .rendering import Shown

LINES = 500
"""Most lines of a cell."""
_STYLE = "max-height:30em;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere;margin:0"


def cell(evaluation: Evaluation, title: str, last: Sequence[Shown], left_out: int) -> str:
    """The HTML of an evaluation.

    Args:
        evaluation: What is shown.
        title: What it is.
        last: Its last lines.
        left_out: How many there are before these.
    """
    parts = [f"<div><small>{escape(title)}</small>"]
    if left_out:
        parts.append(f"<div><small>{left_out} earlier lines; str() has them all</small></div>")
    if last:
        lines = "\n".join(escape(safe(evaluation.rendering.line(shown))) for shown in last)
        # A newline right behind the tag is dropped by browsers, so one is given to be dropped.
        parts.append(f'<pre style="{_STYLE}">\n{lines}</pre>')
    else:
        parts.append(f"<div><em>{escape(why_nothing(evaluation))}</em></div>")
    return "".join([*parts, "</div>"])
