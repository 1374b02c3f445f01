# SPDX-License-Identifier: Apache-2.0
"""Frames on stdin and stdout. Part of the programs that ``far_side`` sends to the login node.

Standard library only, Python 3.6 and later. The parts of a program are put one behind the other; what one
takes from another is imported for the type checker alone.

A frame is ``<length of JSON> <length of raw bytes>``, a newline, the JSON in ASCII, the raw bytes.
"""

import json
import os
from typing import Any, Dict, Sequence, Tuple


def answer(header: Dict[str, Any], raw: Sequence[bytes] = ()) -> None:
    """Send a frame."""
    text = json.dumps(header).encode("ascii")
    data = b"".join(raw)
    view = memoryview(b"%d %d\n" % (len(text), len(data)) + text + data)
    while view:
        view = view[os.write(1, view) :]


def receive() -> Tuple[Dict[str, Any], bytes]:
    """Read one frame; where stdin ends before it is whole, nothing was begun and the process ends."""
    line = b""
    while not line.endswith(b"\n"):
        line += exactly(1)
    header, raw = (int(size) for size in line.split())
    return json.loads(exactly(header).decode("ascii")), exactly(raw)


def exactly(size: int) -> bytes:
    """Read exactly so many bytes of stdin."""
    data = bytearray()
    while len(data) < size:
        got = os.read(0, min(size - len(data), 1 << 20))
        if not got:
            raise SystemExit(0)
        data += got
    return bytes(data)
