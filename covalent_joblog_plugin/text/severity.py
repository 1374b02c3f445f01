# SPDX-License-Identifier: Apache-2.0
"""How bad a line says it is, by the forms in which logging libraries say it; never by any word in it.

The level has to stand where a level stands: first, or after nothing but a time, names and separators; in JSON
and in ``key=value`` text under its key. What is written in lower case needs brackets or a colon as well. A
line that carries none has none, whichever stream it came from. A progress bar has none.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.log_line import Severity

if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD = 512
"""Characters of a line in which its level stands, if it has one."""
_JSON_CHARACTERS = 64 * 1024

_SPELLINGS = {
    Severity.DEBUG: "TRACE TRC VERBOSE FINE DEBUG DBG D",
    Severity.INFO: "INFO INF INFORMATION NOTICE SUCCESS I",
    Severity.WARNING: "WARN WARNING WRN W",
    Severity.ERROR: "ERR ERROR SEVERE E",
    Severity.CRITICAL: "CRIT CRITICAL FATAL FTL ALERT EMERG EMERGENCY PANIC F",
}
LEVELS = {word: severity for severity, words in _SPELLINGS.items() for word in words.split()}
"""What each spelling, in capitals, stands for; a letter alone as in klog."""
_PINO = {10: "DEBUG", 20: "DEBUG", 30: "INFO", 40: "WARNING", 50: "ERROR", 60: "CRITICAL"}
_JSON_KEYS = ("level", "severity", "levelname", "lvl", "log.level", "loglevel", "@l")

_WORDS = sorted((word for word in LEVELS if len(word) > 1), key=len, reverse=True)
_WORD = "|".join(_WORDS)
_PLAIN_ENGLISH = ("FINE", "SUCCESS", "INFORMATION", "ALERT")
_LOWER_WORD = "|".join(word for word in _WORDS if word not in _PLAIN_ENGLISH)
# ``error: 0.25`` is a figure, not a level.
_NO_FIGURE = r"(?![ ]?[-+]?\d[\d.e+-]*%?(?:$|[,;|/)]))"
_CAPITALS = re.compile(rf"[\s\[<(|┌-]{{0,8}}({_WORD})(?=[\s\]|)>,!-]|:{_NO_FIGURE}|\[|$)")
_LOWER = re.compile(
    rf"[\s|┌-]{{0,8}}(?:[\[<(|][ ]?({_LOWER_WORD})[ ]*(?:[\]>)|]|:[ ])"
    rf"|({_LOWER_WORD})(?:[ ]error)?:{_NO_FIGURE}[ ]|({_LOWER_WORD})\t)",
    # Else Python takes an i without its dot for an i, which is in no table.
    re.IGNORECASE | re.ASCII,
)
_TIME = re.compile(
    r"[\s|-]{0,4}(?:[A-Z][a-z]{2},?[ ]{1,2}){0,2}[\[(<]?[\d/.,T -]{0,16}(?:[A-Z][a-z]{2}/\d{4}[ :])?"
    r"\d\d:\d\d[\d:.,+ -]{0,30}(?:Z|UTC|[AP]M)?[\])>]?:?[\s|-]{0,4}"
)
# A name with a separator behind it, or something in brackets.
_NAME = re.compile(
    r"\s{0,4}(?:[\w./@-]{1,60}(?:\[\d+\])?(?::\d+){0,2}(?:[ ]-[ ]|[ ]?\|[ ]?|:[ ]?|\t)"
    r"|[\[({][^\[\](){}]{1,80}[\])}]:?[ ]?(?:-[ ])?)"
)
_BARE_NAME = re.compile(r"[\w./-]{1,40}(?:\[\d+\])?:?\s")
_MOST_NAMES = 5
_LOGFMT = re.compile(
    rf"(?:^|\s)(?:level|lvl|severity|loglevel)=\"?({_WORD})\"?(?=\s|$)", re.IGNORECASE | re.ASCII
)
_IS_LOGFMT = re.compile(r"[\w.]+=")
# klog, glog and absl; PyTorch's C++ side; TensorFlow's.
_LETTER = re.compile(
    r"(?:([DIWEF])(?:[0-9]{4}|[0-9]{8})[ ]\d\d:\d\d:\d+\.\d+\s+\d+[ ][^\s\]]+:\d+\])"
    r"|(?:\[([IWEF])(?:\d{3,4}[ ][\d:.]+)?[ ]?[\w./-]+:[0-9]+\])"
    r"|(?:\d{4}-\d\d-\d\d[ ]\d\d:\d\d:\d\d\.\d+:[ ]([IWEF])[ ]\S+:\d+\])"
)
_NCCL = re.compile(r"\S+:\d+:\d+ \[\d+\] NCCL ([A-Z]+)\b")
_RAISED = re.compile(
    rf"(?:\w+\.){{0,9}}[A-Z]\w{{0,80}}(?:Error|Exception|Interrupt)(?::{_NO_FIGURE}\s|:?$)"
    r"|KeyError: |SystemExit: |(?:[a-z]\w*\.){1,9}[A-Z]\w{0,80}(?:Exit|Failure)(?::\s|:?$)"
    r"|Exception in thread |Exception ignored in|Error in .{1,80} : |ERROR: LoadError"
)
_WARNED = re.compile(
    r"(?:\S+:\d+: )?(?:\w+\.){0,9}[A-Z]\w{0,80}Warning: |Warning messages?:|Warning message in "
)
_DIED = re.compile(
    r"panic: |thread '.{1,80}' panicked at |Fatal Python error: |terminate called |forrtl: severe"
    r"|(?:\S+: line \d+:\s+\d+ )?(?:Segmentation fault|Bus error|Illegal instruction|Aborted|Killed)"
    r"(?=$|\s+\()|\[\S+:\d+\] \*\*\* Process received signal \*\*\*"
)
_STEMS = (
    *(
        "ERR",
        "WARN",
        "INF",
        "DEBUG",
        "TRACE",
        "CRIT",
        "FATAL",
        "NOTICE",
        "SUCCESS",
        "VERBOSE",
        "FINE",
        "SEVERE",
    ),
    *(
        "WRN",
        "DBG",
        "TRC",
        "FTL",
        "ALERT",
        "EMERG",
        "PANIC",
        "EXCEPTION",
        "INTERRUPT",
        "EXIT",
        "FAILURE",
        "FAULT",
    ),
    *("ABORTED", "KILLED", "ILLEGAL", "TERMINATE", "SIGNAL"),
)
"""Without one of these in it, in capitals, no line is found to have a severity except by a letter."""
_PROGRESS = re.compile(r"[^|]{0,120}\d{1,3}%[ ]?\|")
TRACEBACK = "Traceback (most recent call last):"
_SOURCE = re.compile(r"\[\w{1,40}\]: ?|\d{1,5}: |\(\w+ pid=\d+[^)]{0,60}\) ?")
"""Whose line it is, before each line: torchrun, ``srun --label``, Ray."""


def severity(text: str) -> Severity | None:
    """The severity of one line, None without any.

    Args:
        text: The line without escape sequences and without what ``source`` counts.
    """
    if text.startswith("{"):
        return _of_json(text)
    text = text.rstrip()
    if text.endswith(TRACEBACK):
        return Severity.ERROR
    # What is cut must not look as if a word ended there.
    head = text if len(text) <= _HEAD else text[:_HEAD] + "x"
    if is_progress(head):
        return None
    if (found := _of_letter(head)) is not None:
        return found
    capitals = head.upper()
    finders = _FINDERS if any(stem in capitals for stem in _STEMS) else ()
    return next((found for find in finders if (found := find(head)) is not None), None)


def is_progress(text: str) -> bool:
    """Whether a line is a progress bar."""
    return "%" in text and _PROGRESS.match(text) is not None


def source(text: str) -> int:
    """How many characters before a line only say whose it is."""
    match = _SOURCE.match(text)
    return match.end() if match else 0


def _of_letter(head: str) -> Severity | None:
    match = _LETTER.match(head)
    return LEVELS[match[1] or match[2] or match[3]] if match else None


def _of_word(head: str) -> Severity | None:
    at, timed, named = 0, False, 0
    while named <= _MOST_NAMES:
        match = _CAPITALS.match(head, at) or _LOWER.match(head, at)
        if match:
            return LEVELS[match[match.lastindex or 1].upper()]
        if not timed and (match := _TIME.match(head, at)):
            timed = True
        elif match := _NAME.match(head, at):
            named += 1
        elif timed and not named and (match := _BARE_NAME.match(head, at)):
            # Only a time makes a name of a bare word.
            named += 1
        else:
            return None
        at = match.end()
    return None


def _of_key(head: str) -> Severity | None:
    match = _LOGFMT.search(head) if _IS_LOGFMT.match(head) else None
    return LEVELS[match[1].upper()] if match else None


def _of_nccl(head: str) -> Severity | None:
    match = _NCCL.match(head)
    return LEVELS.get(match[1]) if match else None


def _of_end(head: str) -> Severity | None:
    if head[:1].isdigit():
        return None
    if _DIED.match(head):
        return Severity.CRITICAL
    if _RAISED.match(head):
        return Severity.ERROR
    return Severity.WARNING if _WARNED.match(head) else None


_FINDERS: tuple[Callable[[str], Severity | None], ...] = (_of_nccl, _of_key, _of_end, _of_word)


def _of_json(text: str) -> Severity | None:
    if len(text) > _JSON_CHARACTERS:
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    level = next((record[key] for key in _JSON_KEYS if key in record), None)
    if isinstance(level, int):
        level = _PINO.get(level)
    if level is None and isinstance(record.get("levelno"), int):
        number = max(10, min(50, record["levelno"] // 10 * 10))
        return Severity(number)
    return LEVELS.get(level.upper()) if isinstance(level, str) and level.isascii() else None
