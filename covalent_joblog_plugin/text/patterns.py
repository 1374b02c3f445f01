# SPDX-License-Identifier: Apache-2.0
"""What is looked for in a line: words as they are, or regular expressions in RE2's syntax.

RE2 takes time in proportion to the text, and bounded memory, whatever the pattern; it has no backreferences
and no look-around. What is slow all the same is given up with a message.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import re2

from covalent_joblog_plugin.model.errors import BadSelection

if TYPE_CHECKING:
    from collections.abc import Sequence

PATTERN_CHARACTERS = 1000
_MOST = 20
_SIZE = 64 << 10
"""Bytes for a compiled pattern."""
_MEMORY = 8 << 20
"""Bytes for the states a pattern has met; with less, it may take a hundred times as long."""
_SECONDS, _SECONDS_A_TEXT, _SECONDS_A_CHARACTER = 1.0, 20e-6, 5e-7
"""CPU time for expressions: in advance, and more with each text. They mostly take a tenth of it."""
_SYNTAX = "see github.com/google/re2/wiki/Syntax, or leave regex out to look for it as it is"


class Patterns:
    """Words or expressions of which a text has one.

    Args:
        option: What they are given for, for the message.
        patterns: What is looked for, upper and lower case apart.
        regex: Whether they are regular expressions; else each stands for itself.

    Raises:
        BadSelection: One is empty, too long, or no regular expression.
    """

    def __init__(self, option: str, patterns: Sequence[str], *, regex: bool = False) -> None:
        if len(patterns) > _MOST:
            raise BadSelection(
                option, f"{len(patterns)} texts to look for are too many; give at most {_MOST}"
            )
        for pattern in patterns:
            _check(option, pattern)
        self._option = option
        self._seconds = _SECONDS
        self.regex = regex
        self.patterns = tuple(patterns)
        self._words = () if regex else tuple(patterns)
        self._expressions = [_compiled(option, pattern) for pattern in patterns] if regex else []

    def match(self, text: str) -> bool:
        """Whether one of them is in ``text``.

        Raises:
            BadSelection: The expressions take too long for the texts so far.
        """
        if not self._expressions:
            return any(word in text for word in self._words)
        begun = time.thread_time()
        data = _encoded(text)
        matched = any(expression.search(data) for expression in self._expressions)
        self._seconds += _SECONDS_A_TEXT + len(text) * _SECONDS_A_CHARACTER - (time.thread_time() - begun)
        if self._seconds < 0:
            raise BadSelection(self._option, "the regular expression takes too long; make it simpler")
        self._seconds = min(self._seconds, _SECONDS)
        return matched

    def found(self, text: str) -> list[tuple[int, int]]:
        """Where they are in ``text``: starts and ends in characters, in order; what overlaps is one."""
        spans = [span for word in self._words for span in _every(text, word)]
        if self._expressions:
            data = _encoded(text)
            edges = [m.span() for e in self._expressions for m in e.finditer(data)]
            spans += [
                (_characters(data, start), _characters(data, end)) for start, end in edges if start < end
            ]
        merged: list[tuple[int, int]] = []
        for start, end in sorted(spans):
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged


def _check(option: str, pattern: str) -> None:
    if not isinstance(pattern, str):
        raise BadSelection(
            option, f"{type(pattern).__name__} is no text to look for; give text, or several in a list"
        )
    if not pattern:
        raise BadSelection(option, "an empty text is in every line; leave it out")
    if "\n" in pattern:
        raise BadSelection(option, f"{pattern[:60]!r} has a newline, and lines are looked at one by one")
    if len(pattern) > PATTERN_CHARACTERS:
        raise BadSelection(
            option, f"{len(pattern)} characters are too many; give at most {PATTERN_CHARACTERS}"
        )


def _compiled(option: str, pattern: str) -> Any:
    small, large = re2.Options(), re2.Options()
    small.log_errors = large.log_errors = False
    small.max_mem, large.max_mem = _SIZE, _MEMORY
    try:
        re2.compile(pattern, small)
        return re2.compile(pattern, large)
    except (re2.error, UnicodeEncodeError) as error:
        cause = error.args[0]
        said = cause.decode("utf-8", "replace") if isinstance(cause, bytes) else str(error)
        raise BadSelection(option, f"{pattern[:60]!r} is no regular expression: {said}; {_SYNTAX}") from None


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _characters(data: bytes, at: int) -> int:
    return len(data[:at].decode("utf-8", "surrogatepass"))


def _every(text: str, word: str) -> list[tuple[int, int]]:
    spans, at = [], text.find(word)
    while at >= 0:
        spans.append((at, at + len(word)))
        at = text.find(word, at + len(word))
    return spans
