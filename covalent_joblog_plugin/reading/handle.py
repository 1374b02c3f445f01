# SPDX-License-Identifier: Apache-2.0
"""``logs()``: the output of nodes as text, while they run and ever after."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

from covalent_joblog_plugin.model.errors import BadSelection
from covalent_joblog_plugin.model.log_line import LogLine

from . import html
from .blocking import blocking, wait_for
from .download import download
from .evaluation import Evaluation
from .explaining import why_nothing
from .follow import Follow
from .question import Options, Question

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path

    from typing_extensions import Unpack

    from covalent_joblog_plugin.model.capabilities import Capabilities

    from .answers import NodeInfo, OutputFile
    from .rendering import Shown


@overload
def logs(
    dispatch_id: str | None = None,
    node: int | str | None = None,
    *,
    follow: Literal[True],
    **selection: Unpack[Options],
) -> Follow: ...


@overload
def logs(
    dispatch_id: str | None = None,
    node: int | str | None = None,
    *,
    follow: Literal[False] = False,
    **selection: Unpack[Options],
) -> Logs: ...


@overload
def logs(
    dispatch_id: str | None = None,
    node: int | str | None = None,
    *,
    follow: bool,
    **selection: Unpack[Options],
) -> Logs | Follow: ...


def logs(
    dispatch_id: str | None = None,
    node: int | str | None = None,
    *,
    follow: bool = False,
    **selection: Unpack[Options],
) -> Logs | Follow:
    """The output of a node, or of all nodes of a dispatch.

    Args:
        dispatch_id: The dispatch, or the beginning of its id; None for the newest one.
        node: The node's number, its electron's name, or a pattern of names (``train*``); None for all nodes,
            those of sublattices too, with ``[name] `` before each line.
        follow: Whether to go on until the end; then what is returned is an iterator of lines, for ``for`` and
            ``async for``.
        **selection: ``stream`` (``stdout`` unless said otherwise; ``stderr``, ``log``, ``all``), ``rank`` (0;
            ``all``), or ``file`` (an output by its name); ``since`` and ``until`` (``90s``, ``2h`` ago, or an
            RFC 3339 time); ``severity`` (that or worse); ``query`` (a text, or one of several), ``exclude``,
            ``regex`` (whether these are regular expressions); ``execution`` (which start of the job);
            ``tail`` (the last lines of each output, of those the others leave); ``timestamps`` (when each
            line arrived); ``server`` (``http://host:port`` in place of Covalent's configuration).

    Raises:
        BadSelection: What is asked for has no meaning.
        OutputNotFound: There is no such dispatch, node or output.
        OutputNotYet: There is no such output yet.
        TransportError: No server answers, or it has not got this plugin.
    """
    question = Question.of(dispatch_id, node, selection)
    return Follow(question) if follow else Logs(question)


class Logs:
    """The text of outputs as it was when this was made; what comes later is not in it.

    ``str()``, ``len()`` (characters), ``in``, slices, ``==`` and ``hash()`` are those of the text;
    iteration gives its lines. The text is what a terminal would show of it, with ``[joblog: …]`` where it
    breaks; ``raw()`` has the bytes. Calling it asks again, for the same or with other options.

    Args:
        question: What is asked for.
    """

    def __init__(self, question: Question) -> None:
        self._evaluation = wait_for(Evaluation.of(question))
        self._text: str | None = None

    def __str__(self) -> str:
        if self._text is None:
            self._text = "".join(self._evaluation.rendering.text(self._shown(judge=False)))
        return self._text

    def __len__(self) -> int:
        return len(str(self))

    def __bool__(self) -> bool:
        return bool(str(self))

    def __contains__(self, text: str) -> bool:
        return text in str(self)

    def __getitem__(self, index: SupportsIndex | slice) -> str:
        return str(self)[index]

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, str | Logs) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __iter__(self) -> Iterator[str]:
        """The lines without their ends, in bounded memory."""
        for shown in self._shown(judge=False):
            yield self._evaluation.rendering.line(shown)

    def __getstate__(self) -> dict[str, Any]:
        # What is stored does not change: it can be read again wherever the server can be reached.
        return {"_evaluation": self._evaluation, "_text": None}

    def splitlines(self, keepends: bool = False) -> list[str]:
        r"""The lines; only ``\n`` ends one."""
        lines = str(self).split("\n")
        last = lines.pop()
        lines = [line + "\n" for line in lines] if keepends else lines
        return [*lines, last] if last else lines

    @overload
    def __call__(self, *, follow: Literal[True], **selection: Unpack[Options]) -> Follow: ...

    @overload
    def __call__(self, *, follow: Literal[False] = False, **selection: Unpack[Options]) -> Logs: ...

    @overload
    def __call__(self, *, follow: bool, **selection: Unpack[Options]) -> Logs | Follow: ...

    def __call__(self, *, follow: bool = False, **selection: Unpack[Options]) -> Logs | Follow:
        """The same as it is now, or with other options; raises as ``logs`` does."""
        question = self._evaluation.question.changed(selection)
        return Follow(question) if follow else Logs(question)

    def __repr__(self) -> str:
        evaluation = self._evaluation
        dispatch, first = evaluation.question.dispatch, evaluation.nodes[0]
        if len(evaluation.nodes) > 1:
            return f"<Logs of {len(evaluation.nodes)} nodes of {dispatch}: {evaluation.size} bytes>"
        files = ", ".join(extent.source.file for extent in evaluation.extents)
        node = f"node {first.node_id} ({first.name}) of {dispatch}, {first.status}"
        return f"<Logs of {node}: {evaluation.size} bytes of {files}>"

    def _repr_html_(self) -> str:
        last: deque[Shown] = deque(maxlen=html.LINES)
        total = 0
        for shown in self._shown(judge=False):
            last.append(shown)
            total += 1
        return html.cell(self._evaluation, repr(self)[1:-1], last, total - len(last))

    @property
    def why(self) -> str:
        """Why there is nothing, and what to do; empty where there is something."""
        return "" if self else why_nothing(self._evaluation)

    def lines(self) -> Iterator[LogLine]:
        """The lines with what is known of each, in bounded memory."""
        return (shown.item for shown in self.shown() if isinstance(shown.item, LogLine))

    def shown(self) -> Iterator[Shown]:
        """The lines and the breaks, each with the output it is in, in bounded memory."""
        return self._shown(judge=True)

    def _shown(self, *, judge: bool) -> Iterator[Shown]:
        for batch in blocking(self._evaluation.read(judge=judge)):
            yield from batch

    def raw(self) -> bytes:
        """The bytes of the one output, exactly as the job wrote them.

        Raises:
            BadSelection: There are several outputs, or lines are selected.
        """
        return b"".join(blocking(self._evaluation.raw()))

    def download(self, path: str | os.PathLike[str]) -> Path:
        """Write these bytes into a file, or into a folder, in bounded memory; the file's path.

        A progress bar on a terminal tells how far it is. The file appears when it is complete.

        Raises:
            BadSelection: As ``raw``.
            OSError: The file cannot be written.
        """
        return download(self._evaluation, path)

    @property
    def nodes(self) -> list[NodeInfo]:
        """What the server knew of the nodes when this was made."""
        return list(self._evaluation.nodes)

    @property
    def files(self) -> list[OutputFile]:
        """All outputs of the nodes, whatever was asked for."""
        return [file for node in self._evaluation.nodes for file in node.files]

    @property
    def capabilities(self) -> Capabilities:
        """What can be done with the output of the one node.

        Raises:
            BadSelection: There are several nodes.
        """
        if len(self._evaluation.nodes) > 1:
            raise BadSelection("capabilities", "each node has its own; ask for one node")
        return self._evaluation.nodes[0].capabilities
