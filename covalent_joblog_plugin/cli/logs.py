# SPDX-License-Identifier: Apache-2.0
"""``joblog logs``."""

from __future__ import annotations

import asyncio
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from covalent_joblog_plugin.model.errors import BadSelection

from . import choosing, console
from .exits import Exit

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalent_joblog_plugin.reading.question import Question

    from .lines import StyleMaker

_OPTIONS = (
    click.option("-f", "--follow", is_flag=True, help="Go on until the end."),
    click.option(
        "-n", "--tail", type=click.IntRange(0), metavar="N", help="The last N lines of each output."
    ),
    click.option("--since", metavar="TIME", help="From then on: 90s, 2h ago, or 2024-05-01T12:00:00Z."),
    click.option("--until", metavar="TIME", help="Up to then; as --since."),
    click.option("-q", "--query", multiple=True, metavar="TEXT", help="With this text; or with another one."),
    click.option("--exclude", multiple=True, metavar="TEXT", help="Without this text."),
    click.option("--highlight", multiple=True, metavar="TEXT", help="Show this text in reverse."),
    click.option("--regex", is_flag=True, help="These texts are regular expressions."),
    click.option(
        "--severity", metavar="LEVEL", help="That bad or worse: DEBUG, INFO, WARNING, ERROR, CRITICAL."
    ),
    click.option(
        "--stream",
        type=click.Choice(["stdout", "stderr", "log", "all"]),
        help="Which one; all if not said, stdout with -o raw.",
    ),
    click.option("--rank", metavar="N", help="Whose; 0 if not said, or all."),
    click.option("--execution", type=click.IntRange(0), metavar="N", help="Which start of the job: 0, 1, …"),
    click.option("--file", metavar="NAME", help="An output by its name, as `joblog files` has it."),
    click.option("-t", "--timestamps", is_flag=True, help="When each line arrived, in UTC."),
    click.option("--no-prefix", is_flag=True, help="No [name] before the lines of several outputs."),
    click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(["text", "raw", "json"]),
        default="text",
        help="text; raw: the bytes of one output; json: JSON Lines.",
    ),
    click.option(
        "--direct",
        is_flag=True,
        help="Straight from the cluster, with no Covalent server: one output of one node.",
    ),
)


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@choosing.dispatch_argument
@choosing.node_argument
@_options
@choosing.server_option
@click.pass_context
def logs(ctx: click.Context, /, dispatch: str | None, node: int | str | None, **options: Any) -> None:
    """Show the output of a dispatch's nodes, of sublattices too.

    Text goes to stdout, what is said about it to stderr. Ctrl-C ends the watching, not the job.
    """
    from covalent_joblog_plugin.reading.question import Question

    form, follow = options["form"], options["follow"]
    if form == "raw" and console.is_terminal(sys.stdout):
        raise BadSelection(
            "output", "raw bytes may do anything to a terminal; write them to a file, or pipe them"
        )
    if options["direct"]:
        from . import direct_logs

        direct_logs.show(dispatch, node, options)
        return
    question = Question.of(dispatch, node, _selection(options))
    # Which dispatch is the newest is found out once.
    question = asyncio.run(_resolved(question))
    style = _style_maker(options)
    try:
        ctx.exit(asyncio.run(_follow(question, form, style) if follow else _show(question, form, style)))
    except KeyboardInterrupt:
        if follow:
            console.event(
                f"\nno longer watching; nothing else has ended. To return: {_way_back(ctx, question)}"
            )
        raise


def _selection(options: dict[str, Any]) -> Any:
    names = ("tail", "since", "until", "severity", "execution", "stream", "file", "server")
    given = {name: options[name] for name in names if options[name] is not None}
    given |= {name: list(options[name]) for name in ("query", "exclude") if options[name]}
    if options["rank"] is not None:
        rank = options["rank"]
        given["rank"] = int(rank) if rank.isascii() and rank.isdigit() else rank
    if not given.keys() & {"stream", "file"}:
        given["stream"] = "stdout" if options["form"] == "raw" else "all"
    return {**given, "regex": options["regex"], "timestamps": options["timestamps"]}


async def _resolved(question: Question) -> Question:
    from dataclasses import replace

    from covalent_joblog_plugin.reading.client import Server
    from covalent_joblog_plugin.reading.sources import find_dispatch

    async with Server(question.address) as server:
        return replace(question, dispatch=await find_dispatch(server, question.dispatch))


def _style_maker(options: dict[str, Any]) -> StyleMaker:
    from covalent_joblog_plugin.text.selection import Selection

    from .lines import JsonLines, TextLines

    if options["form"] == "json":
        return lambda _: JsonLines()
    marked = Selection.of(query=options["query"], highlight=options["highlight"], regex=options["regex"])
    colour = console.has_colour(sys.stdout)
    labels = not options["no_prefix"]
    ranks = options["rank"] == "all"
    return lambda one: TextLines(labels and (ranks or not one), options["timestamps"], colour, marked)


async def _follow(question: Question, form: str, style: StyleMaker) -> Exit:
    from . import watching

    return await (watching.follow_raw(question) if form == "raw" else watching.follow(question, style))


async def _show(question: Question, form: str, style: StyleMaker) -> Exit:
    from covalent_joblog_plugin.reading.evaluation import Evaluation

    from .showing import show, show_raw

    evaluation = await Evaluation.of(question)
    await (show_raw(evaluation) if form == "raw" else show(evaluation, style))
    return Exit.DONE


def _way_back(ctx: click.Context, question: Question) -> str:
    """The same command, about the same dispatch."""
    argv = ["joblog", "logs", str(question.dispatch)]
    argv += [] if question.node is None else [str(question.node)]
    for option in ctx.command.params:
        given = ctx.get_parameter_source(option.name or "") is click.core.ParameterSource.COMMANDLINE
        if given and isinstance(option, click.Option):
            value, name = ctx.params[str(option.name)], option.opts[0]
            values = value if option.multiple else [value]
            argv += [name] if option.is_flag else [word for one in values for word in (name, str(one))]
    return shlex.join(argv)
