# SPDX-License-Identifier: Apache-2.0
"""Python programs of ours that run on the login node: the command line that starts one, and its frames.

The command line is a constant; the program, its parameters and everything else travel on stdin. A login
shell's rc files may print anything first, so the program says a random word when it begins, and all before
that word is noise.
"""

from __future__ import annotations

import json
import secrets
from functools import cache
from pathlib import Path
from typing import Any

from covalent_joblog_plugin.model.errors import TransportError

# RHEL 8 has no python3 unless somebody asked for it, but always this one.
_PYTHONS = "python3 /usr/libexec/platform-python /usr/bin/python3"
_BOOTSTRAP = (
    "import os\\n"
    "def take(n):\\n"
    '    b = b\\"\\"\\n'
    "    while len(b) < n:\\n"
    "        c = os.read(0, n - len(b))\\n"
    "        if not c: raise SystemExit(0)\\n"
    "        b += c\\n"
    "    return b\\n"
    "n = int(take(8))\\n"
    "word = take(32)\\n"
    "source = take(n)\\n"
    "os.write(1, word)\\n"
    'exec(compile(source, \\"joblog\\", \\"exec\\"), {\\"__name__\\": \\"__main__\\"})'
)
NO_PYTHON = 127
COMMAND = (
    f"for p in {_PYTHONS}; do command -v $p >/dev/null 2>&1 && "
    f"exec $p -I -S -c 'exec(\"{_BOOTSTRAP}\")'; done; exit {NO_PYTHON}"
)
"""Starts a program of ours with whatever Python 3 there is; 127 where there is none."""

NOISE_LIMIT = 1 << 20


READER = ("remote_frames", "remote_watch", "remote_reader")
COMMANDS = ("remote_frames", "remote_call", "remote_submit", "remote_remove", "remote_commands")
LOOK = ("remote_frames", "remote_call", "remote_submit", "remote_look")
"""Our programs: the files they are made of."""


@cache
def source(program: tuple[str, ...]) -> bytes:
    """A program as it is sent: its files one behind the other."""
    return b"\n".join(Path(__file__).with_name(f"{part}.py").read_bytes() for part in program)


class FarSide:
    """One start of a program: what to send first, and what comes back."""

    def __init__(self, program: tuple[str, ...]) -> None:
        self.word = secrets.token_hex(16)
        text = source(program)
        self.opening = b"%08d%s" % (len(text), self.word.encode()) + text
        """To be sent before the program's own input."""
        self._begun = False
        self._buffer = bytearray()
        self._header: dict[str, Any] | None = None
        self._need = 0

    def feed(self, data: bytes) -> list[tuple[dict[str, Any], bytes]]:
        """Take in bytes of its stdout, however they were cut; return the frames now complete.

        Raises:
            TransportError: What comes is not what our program writes.
        """
        self._buffer += data
        if not self._begun and not self._find_word():
            return []
        frames = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def silence(self, exit_status: int | None, stderr: bytes) -> str:
        """Why nothing came, in words."""
        if exit_status == NO_PYTHON and not self._begun:
            return (
                f"there is no Python 3 on the login node ({_PYTHONS.replace(' ', ', ')}); put one in its PATH"
            )
        noise = bytes(self._buffer[-200:]).decode("utf-8", "replace").strip()
        said = stderr[-400:].decode("utf-8", "replace").strip()
        status = "" if exit_status is None else f" with exit status {exit_status}"
        text = f"the helper on the login node ended{status}: {said or noise or 'it said nothing'}"
        if self._begun or said or exit_status is None:
            return text
        return (
            f"{text}; it did not even begin: see that the login shell's rc files (such as ~/.bashrc) let a "
            "command pass when there is no terminal"
        )

    def _find_word(self) -> bool:
        word = self.word.encode()
        at = self._buffer.find(word)
        if at < 0:
            if len(self._buffer) > NOISE_LIMIT:
                raise TransportError(
                    "the login shell prints without end; see what its rc files do without a terminal"
                )
            return False
        del self._buffer[: at + len(word)]
        self._begun = True
        return True

    def _next(self) -> tuple[dict[str, Any], bytes] | None:
        if self._header is None:
            end = self._buffer.find(b"\n", 0, 64)
            if end < 0:
                if len(self._buffer) >= 64:
                    self._garbled()
                return None
            try:
                length, self._need = map(int, self._buffer[:end].split(b" "))
            except ValueError:
                self._garbled()
            if len(self._buffer) < end + 1 + length:
                return None
            self._header = json.loads(self._buffer[end + 1 : end + 1 + length])
            del self._buffer[: end + 1 + length]
        if len(self._buffer) < self._need:
            return None
        header, self._header = self._header, None
        raw = bytes(self._buffer[: self._need])
        del self._buffer[: self._need]
        return header, raw

    def _garbled(self) -> None:
        start = bytes(self._buffer[:60])
        raise TransportError(f"the helper's answer is garbled: {start!r}")
