# SPDX-License-Identifier: Apache-2.0
"""A real terminal, with nobody before it: a private tmux."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.rigs.covalent_server import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_CONFIGURATION = """
set -g remain-on-exit on
set -g remain-on-exit-format ''
set -g status off
set -g default-terminal screen-256color
"""
_SHELL = """
trap : INT
"$@"
echo $? >"$0.new"
mv "$0.new" "$0"
"""
"""tmux does not always know the status of what has ended; a trap is not handed on to the command."""


class Terminal:
    """A terminal in which one command runs.

    Args:
        columns: Its width.
        lines: Its height.
    """

    def __init__(self, columns: int = 80, lines: int = 24) -> None:
        # The path of a socket is at most 107 bytes long.
        self._folder = Path(tempfile.mkdtemp(prefix="joblog-tmux-"))
        self._size = [str(columns), str(lines)]
        self._status = self._folder / "status"
        (self._folder / "conf").write_text(_CONFIGURATION)

    def run(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """Begin the command."""
        width, height = self._size
        clean = {name: value for name, value in env.items() if name not in {"TMUX", "NO_COLOR", "COLUMNS"}}
        options = ["-u", "-f", str(self._folder / "conf"), "new-session", "-d", "-x", width, "-y", height]
        shell = ["sh", "-c", _SHELL, str(self._status)]
        self._tmux(*options, *shell, *argv, env={**clean, "LANG": "C.UTF-8"})

    def _tmux(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        argv = ["tmux", "-S", str(self._folder / "socket"), *arguments]
        return subprocess.run(argv, env=env, check=True, capture_output=True, text=True).stdout

    def screen(self) -> list[str]:
        """What stands on it now, line by line; without empty lines at its end."""
        return self._tmux("capture-pane", "-p").rstrip("\n").split("\n")

    def everything(self, *, colours: bool = False) -> str:
        """The same with what has scrolled off; with colours as escape sequences if asked for."""
        return self._tmux("capture-pane", "-p", "-S", "-", *(["-e"] if colours else [])).rstrip("\n")

    def shows(self, condition: Callable[[str], object], what: str, timeout: float = 60) -> list[str]:
        """The screen as soon as it is so; AssertionError with the screen otherwise."""
        try:
            eventually(lambda: condition("\n".join(self.screen())), timeout, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n" + "\n".join(self.screen())) from None
        return self.screen()

    def keys(self, *keys: str) -> None:
        """Press keys, as tmux calls them."""
        self._tmux("send-keys", *keys)

    def resize(self, columns: int, lines: int) -> None:
        """Make it as large as that."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def ask(self, variable: str) -> str:
        """What tmux calls ``#{variable}``."""
        return self._tmux("display-message", "-p", f"#{{{variable}}}").strip()

    def ended(self, timeout: float = 60) -> int:
        """Wait for the command's end; its exit status."""
        eventually(self._status.exists, timeout, "the end of the command")
        return int(self._status.read_text())

    def close(self) -> None:
        """End the command and the terminal."""
        subprocess.run(
            ["tmux", "-S", str(self._folder / "socket"), "kill-server"], check=False, capture_output=True
        )
        shutil.rmtree(self._folder, ignore_errors=True)
