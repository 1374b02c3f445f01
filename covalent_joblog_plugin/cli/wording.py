# SPDX-License-Identifier: Apache-2.0
"""Spans of time and sizes as people say them."""

from __future__ import annotations

_SPANS = (("d", 86400), ("h", 3600), ("min", 60))
_SIZES = ("kB", "MB", "GB", "TB")


def span(seconds: float) -> str:
    """``0 s``, ``59 s``, ``3 min``, ``2 h``, ``5 d``: rounded down."""
    for unit, size in _SPANS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def clock(seconds: float) -> str:
    """``0:00:07``, ``26:03:00``: hours, minutes, seconds."""
    whole = max(0, int(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def size(count: float) -> str:
    """``12 B``, ``4.1 MB``: powers of ten."""
    if count < 1000:
        return f"{int(count)} B"
    power = next((power for power in range(1, len(_SIZES)) if count < 999.95 * 1000**power), len(_SIZES))
    return f"{count / 1000**power:.1f} {_SIZES[power - 1]}"
