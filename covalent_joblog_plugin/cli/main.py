# SPDX-License-Identifier: Apache-2.0
"""``joblog`` itself: finds the command, and says what goes wrong on stderr and as exit status."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from covalent_joblog_plugin.model.errors import JobLogError

from . import console
from .exits import Exit, exit_of

COMMANDS = {
    "logs": "logs",
    "ps": "ps",
    "files": "files",
    "capabilities": "capabilities",
    "where": "where",
    "result": "result",
    "reconnect": "reconnect",
    "doctor": "doctor",
}
"""Command → the module of this package that has it, under that name; loaded when it is called."""


class Commands(click.Group):
    """A group whose commands are loaded when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All of them, in the order in which they are shown."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; None where there is none."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f".{COMMANDS[cmd_name]}", __package__), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; the process ends with one of ``Exit``."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # What is left in its buffer would be written, and refused again, when Python ends.
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(Exit.PIPE_CLOSED)
        except KeyboardInterrupt:
            ctx.exit(Exit.INTERRUPTED)
        except JobLogError as error:
            console.event(f"joblog: {error}", bad=True)
            ctx.exit(exit_of(error))
        return result


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Without arguments a command is about the newest dispatch. DISPATCH is the beginning of an id or "
    "'latest'; NODE a number, an electron's name, or a pattern of names such as 'train*'.",
)
@click.version_option(package_name="covalent-joblog-plugin")
def joblog() -> None:
    """Output of Covalent's jobs, where they run, and what is wrong."""
