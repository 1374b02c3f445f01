# SPDX-License-Identifier: Apache-2.0
"""``Range`` requests for what grows."""

from __future__ import annotations

import re

_RANGE = re.compile(r"bytes=(\d*)-(\d*)", re.ASCII)


def asked_range(asked: str | None, condition: str | None, length: int) -> tuple[int, int] | None:
    """The half-open range asked for; an empty one if it cannot be satisfied, None if all is to be sent.

    Several ranges, other units and nonsense may be answered with everything; so is a condition
    (``If-Range``), because what grows has no validator.

    Args:
        asked: The header ``Range``; None without one.
        condition: The header ``If-Range``; None without one.
        length: What there is, in bytes.
    """
    match = _RANGE.fullmatch((asked or "").strip())
    if match is None or match.group() == "bytes=-" or condition is not None:
        return None
    first, last = match.groups()
    if not first:
        return (max(0, length - int(last)), length) if int(last) and length else (0, 0)
    start, end = int(first), min(int(last) + 1, length) if last else length
    if last and int(last) < start:
        return None
    return (start, end) if start < length else (0, 0)


def content_range(start: int, end: int, length: int) -> str:
    """The header ``Content-Range`` for a half-open range; for an empty one it says what there is."""
    return f"bytes {start}-{end - 1}/{length}" if start < end else f"bytes */{length}"
