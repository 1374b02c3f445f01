# SPDX-License-Identifier: Apache-2.0
"""What type checkers know of ``logs()``; checked by mypy --strict, never run."""

from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

from typing_extensions import assert_type

from covalent_joblog_plugin import logs
from covalent_joblog_plugin.model.capabilities import Capabilities, Capability
from covalent_joblog_plugin.model.log_line import LogLine, Severity
from covalent_joblog_plugin.reading.answers import NodeInfo, OutputFile
from covalent_joblog_plugin.reading.follow import Follow
from covalent_joblog_plugin.reading.handle import Logs

DISPATCH = "10a36d79-eb0b-4fca-b0f2-0ebccdf4efac"


def text_is_asked_for_in_many_ways() -> None:
    assert_type(logs(), Logs)
    assert_type(logs(DISPATCH), Logs)
    assert_type(logs(DISPATCH, 0), Logs)
    assert_type(logs(DISPATCH, "train*", follow=False, tail=20), Logs)
    assert_type(
        logs(DISPATCH, 0, since="90s", until=datetime.now(timezone.utc), regex=True, query="x+"), Logs
    )
    assert_type(logs(DISPATCH, 0, since=timedelta(hours=1), exclude=["a", "b"], severity="error"), Logs)
    assert_type(logs(DISPATCH, 0, severity=Severity.ERROR, rank="all", stream="all", execution=1), Logs)
    assert_type(logs(DISPATCH, 0, file="train.csv", timestamps=True, server="http://localhost:1"), Logs)


def following_gives_an_iterator_of_lines() -> None:
    follow = logs(DISPATCH, 0, follow=True, tail=20)
    assert_type(follow, Follow)
    assert_type(iter(follow), Iterator[str])
    assert_type(aiter(follow), AsyncIterator[str])
    for line in follow:
        assert_type(line, str)


def whether_to_follow_may_be_known_later(follow: bool) -> None:
    assert_type(logs(DISPATCH, 0, follow=follow), Logs | Follow)
    assert_type(logs(DISPATCH)(follow=follow), Logs | Follow)


def a_text_is_like_a_string(text: Logs) -> None:
    assert_type(str(text), str)
    assert_type(len(text), int)
    assert_type("x" in text, bool)
    assert_type(text[0], str)
    assert_type(text[-100:], str)
    assert_type(text.splitlines(), list[str])
    assert_type(list(text), list[str])
    assert_type(text == "x", bool)


def a_text_knows_where_it_comes_from(text: Logs) -> None:
    assert_type(text(), Logs)
    assert_type(text(tail=1), Logs)
    assert_type(text(follow=True), Follow)
    assert_type(text.lines(), Iterator[LogLine])
    assert_type(text.raw(), bytes)
    assert_type(text.download("log"), Path)
    assert_type(text.download(Path("log")), Path)
    assert_type(text.files, list[OutputFile])
    assert_type(text.nodes, list[NodeInfo])
    assert_type(text.capabilities, Capabilities)
    assert_type(text.capabilities.follow, Capability)
    assert_type(text.why, str)


def what_has_no_meaning_is_an_error() -> None:
    logs(DISPATCH, 0, tial=20)  # type: ignore[call-overload]
    logs(DISPATCH, 0, stream="nosuch")  # type: ignore[call-overload]
    logs(DISPATCH, 0, tail="20")  # type: ignore[call-overload]
    logs(DISPATCH, 0.5)  # type: ignore[call-overload]
    for _ in logs(DISPATCH, 0, follow=True).lines():  # type: ignore[attr-defined]
        pass
