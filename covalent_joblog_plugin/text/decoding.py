# SPDX-License-Identifier: Apache-2.0
"""Bytes → text, piece by piece: what ``bytes.decode("utf-8", "replace")`` makes of them as a whole.

What is no UTF-8 becomes U+FFFD. The beginning of a character at the end of a piece (at most 3 bytes) waits
for its other half, so that the text never depends on where the pieces ended.
"""

from __future__ import annotations

import codecs

_UTF8 = codecs.getincrementaldecoder("utf-8")


class Decoder:
    """One output, or one line of it."""

    __slots__ = ("_decoder",)

    def __init__(self) -> None:
        self._decoder = _UTF8("replace")

    @property
    def held(self) -> int:
        """Bytes that were taken and are not in any text yet."""
        return len(self._decoder.getstate()[0])

    def feed(self, data: bytes) -> str:
        """The text of what was held and of ``data``, as far as its characters are whole."""
        return self._decoder.decode(data)

    def end(self) -> str:
        """The text of what is held, now that nothing follows it: at the end of the output, or at a break."""
        return self._decoder.decode(b"", final=True)
