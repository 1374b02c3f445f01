# SPDX-License-Identifier: Apache-2.0
"""``joblog doctor``: whether everything that jobs and their output need is in place."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Any

import click

from covalent_joblog_plugin.model.errors import BadSelection

from . import choosing, console, findings
from .exits import Exit
from .findings import PLUGIN, Finding, Level

if TYPE_CHECKING:
    from collections.abc import Awaitable

_COLOURS = {Level.OK: 32, Level.WARNING: 33, Level.FAULT: 31, Level.UNKNOWN: 36}
_WIDTH = 12


@click.command()
@click.option("--host", metavar="HOST", help="Check this Slurm login node too, as `ssh HOST` knows it.")
@click.option("--kubeflow", is_flag=True, help="Check Kubeflow too, also where no kubeconfig is found.")
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="OPTION=VALUE",
    help="An option of the executor, such as username=me; JSON where it is no text.",
)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    help="text; json: JSON Lines.",
)
@choosing.server_option
def doctor(
    host: str | None, *, kubeflow: bool, given: tuple[str, ...], form: str, server: str | None
) -> None:
    """Look whether Covalent, its server, Slurm and Kubeflow are as jobs need them.

    Clusters are looked at as Covalent's server would: with its environment, the options in Covalent's
    configuration, and --set. Nothing is changed anywhere. Without a fault the exit status is 0.
    """
    options = dict(map(_option, given))
    found = asyncio.run(_examined(host, options, server, kubeflow=kubeflow))
    if form == "json":
        console.say_json(one.to_json() for one in found)
    else:
        for one in found:
            _print(one)
    if any(one.level is Level.FAULT for one in found):
        raise click.exceptions.Exit(Exit.FAILED)


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise BadSelection("set", f"{text!r} is no OPTION=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


async def _examined(
    host: str | None, options: dict[str, Any], server: str | None, *, kubeflow: bool
) -> list[Finding]:
    from covalent_joblog_plugin.reading.address import server_address

    from . import doctor_server, server_process

    needed = metadata.requires(PLUGIN) or []
    found = [findings.python(), *findings.versions(needed)]
    of_server, process = await _told("Covalent's server", doctor_server.all_of(server_address(server)))
    with server_process.environment_of(process):
        clusters = await _clusters(host, options, kubeflow=kubeflow)
    return [*found, *of_server, *clusters]


async def _clusters(host: str | None, options: dict[str, Any], *, kubeflow: bool) -> list[Finding]:
    from . import doctor_kubeflow, doctor_slurm

    slurm = _executor("joblog_slurm", options | ({"host": host} if host else {}))
    cube = _executor("joblog_kubeflow", options)
    strange = [name for name in options if not any(name in vars(one) for one in (slurm, cube))]
    if strange:
        raise BadSelection("set", f"no executor has an option {strange[0]!r}; see the tables in README")
    found: list[Finding] = []
    if slurm.host:
        found += await _told(slurm.host, doctor_slurm.check(slurm))
    if kubeflow or cube.kubeconfig or doctor_kubeflow.has_cluster():
        found += await _told("Kubeflow", doctor_kubeflow.check(cube))
    return found


def _executor(name: str, options: dict[str, Any]) -> Any:
    """An executor as Covalent's configuration has it, with those of the options that it has."""
    from covalent.executor import _executor_manager

    plain = _executor_manager.get_executor(name)
    known = {option: value for option, value in options.items() if option in vars(plain)}
    return type(plain)(**{**_public(plain), **known})


def _public(executor: Any) -> dict[str, Any]:
    from covalent_joblog_plugin.executors.options import defaults

    return {name: getattr(executor, name) for name in defaults(type(executor))}


async def _told(what: str, work: Awaitable[Any]) -> Any:
    """The result of ``work``; a line on the terminal says meanwhile what is looked at."""
    if not console.is_terminal(sys.stderr):
        return await work
    console.write(f"\r\x1b[Klooking at {what} …", sys.stderr)
    try:
        return await work
    finally:
        console.write("\r\x1b[K", sys.stderr)


def _print(one: Finding) -> None:
    level = f"{one.level.value:<8}"
    if console.has_colour(sys.stdout):
        level = f"\x1b[{_COLOURS[one.level]}m{level}\x1b[0m"
    console.write(f"{level} ")
    console.say(f"{one.check:<{_WIDTH}} {one.text}")
    if one.step:
        console.say(f"{'':<9}{'':<{_WIDTH}} → {one.step}")
