# SPDX-License-Identifier: Apache-2.0
"""What somebody asks for, checked before anything is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from covalent_joblog_plugin.model.errors import BadSelection
from covalent_joblog_plugin.text.selection import Selection, Texts

from .address import server_address
from .sources import Outputs

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from covalent_joblog_plugin.model.log_line import Severity
    from covalent_joblog_plugin.model.records import Stream


class Options(TypedDict, total=False):
    """What can be asked of ``logs`` besides dispatch and node."""

    tail: int | None
    since: str | datetime | timedelta | None
    until: str | datetime | timedelta | None
    query: Texts
    exclude: Texts
    regex: bool
    severity: str | Severity | None
    execution: int | None
    stream: Stream | Literal["all"]
    rank: int | Literal["all"]
    file: str | None
    timestamps: bool
    server: str | None


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for.

    Attributes:
        address: The server's URL.
        dispatch: A dispatch's id or the beginning of one; None for the newest.
        node: A number, an electron's name or a pattern of names; None for all.
        outputs: Which outputs of the nodes.
        selection: Which lines of them.
        timestamps: Whether each line is shown with the time of its arrival.
        options: The options as they were given.
    """

    address: str
    dispatch: str | None
    node: int | str | None
    outputs: Outputs
    selection: Selection
    timestamps: bool
    options: Options

    @classmethod
    def of(cls, dispatch: str | None, node: int | str | None, options: Options) -> Question:
        """Check what is asked for.

        Raises:
            BadSelection: It has no meaning, or contradicts itself.
        """
        unknown = options.keys() - Options.__annotations__.keys()
        if unknown:
            known = ", ".join(sorted({*Options.__annotations__, "follow"}))
            raise BadSelection(min(unknown), f"there is no such option; there are {known}")
        _check_node(node)
        file = options.get("file")
        if file is not None and options.keys() & {"stream", "rank"}:
            raise BadSelection("file", "it says already which output; leave out stream and rank")
        outputs = Outputs(options.get("stream", "stdout"), options.get("rank", 0), file)
        selection = Selection.of(
            tail=options.get("tail"),
            since=options.get("since"),
            until=options.get("until"),
            query=options.get("query", ()),
            exclude=options.get("exclude", ()),
            regex=bool(options.get("regex")),
            severity=options.get("severity"),
            execution=options.get("execution"),
        )
        return cls(
            server_address(options.get("server")),
            dispatch,
            node,
            outputs,
            selection,
            bool(options.get("timestamps")),
            options,
        )

    def __reduce__(self) -> Any:
        # What is compiled of a question stays behind.
        return Question.of, (self.dispatch, self.node, {**self.options, "server": self.address})

    def changed(self, options: Options) -> Question:
        """The same with other options; raises as ``of`` does."""
        named: Options = {**self.options, **options}
        if options.get("file") is not None:
            named.pop("stream", None)
            named.pop("rank", None)
        elif options.keys() & {"stream", "rank"}:
            named.pop("file", None)
        return Question.of(self.dispatch, self.node, {"server": self.address, **named})


def _check_node(node: Any) -> None:
    if isinstance(node, bool) or not (node is None or isinstance(node, int | str)):
        raise BadSelection("node", f"{node!r} is none; give its number, its name or a pattern of names")
