# SPDX-License-Identifier: Apache-2.0
"""``joblog logs``."""

from __future__ import annotations

import click

from . import choosing, console


@click.command()
@choosing.dispatch_argument
@choosing.node_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until the end.")
@choosing.server_option
def logs(dispatch: str | None, node: int | str | None, *, follow: bool, server: str | None) -> None:
    """Show the output of a dispatch's nodes."""
    from covalent_joblog_plugin.reading.handle import logs as read

    for line in read(dispatch, node, follow=follow, server=server):
        console.say(line)
