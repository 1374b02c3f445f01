# SPDX-License-Identifier: Apache-2.0
"""Where a stored output ends in the job's own files, whatever breaks are in it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.store.index_view import IndexView
from covalent_joblog_plugin.store.place import Place, end_of
from covalent_joblog_plugin.store.state import NodeState
from covalent_joblog_plugin.store.views import Part, Snapshot, View

text = st.binary(min_size=1, max_size=100)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("text"), text),
        st.tuples(st.just("restart"), st.none()),
        st.tuples(st.just("truncated"), st.none()),
        st.tuples(st.just("lost"), text),
        st.tuples(st.just("paused"), st.none()),
    ),
    max_size=12,
)


def snapshot(folder: Path, stored: bytes, entries: list[dict[str, Any]]) -> Snapshot:
    data, index = folder.resolve() / "stdout.log", folder.resolve() / "index.jsonl"
    data.write_bytes(stored)
    index.write_text("".join(json.dumps({"file": "stdout", **entry}) + "\n" for entry in entries))
    view = View((Part(0, data, len(stored)),))
    return Snapshot(NodeState.ORPHANED, view, IndexView(index, index.stat().st_size))


@given(steps)
def test_it_is_the_byte_of_the_file_that_comes_next(taken: list[tuple[str, Any]]) -> None:
    """``file`` is the job's own file of the execution; ``stored`` is what came out of all of them."""
    stored = file = b""
    execution = 0
    entries: list[dict[str, Any]] = []

    def seam(kind: str, lost: int | None = None) -> None:
        said = {"cursor": len(stored), "seam": kind, "message": "", "execution": execution}
        entries.append(said if lost is None else {**said, "lost": lost})

    for kind, data in taken:
        if kind == "text":
            entries.append(
                {"cursor": len(stored), "arrival": 1.0, "source_time": None, "execution": execution}
            )
            stored, file = stored + data, file + data
        elif kind == "lost":
            file += data
            seam(kind, len(data))
        elif kind == "paused":
            seam(kind)
        else:
            execution += kind == "restart"
            file = b""
            seam(kind)
    with tempfile.TemporaryDirectory() as folder:
        place = end_of(snapshot(Path(folder), stored, entries), "stdout")
    assert (place.execution, place.pos, place.unclear, place.full) == (execution, len(file), "", False)
    assert file.endswith(place.before)
    if entries and "arrival" in entries[-1]:
        assert place.before


@pytest.mark.parametrize(
    ("seam", "known"),
    [
        ({"seam": "late", "execution": 0}, Place(0, 3, b"", "text of an earlier execution came late")),
        ({"seam": "lost", "execution": 1}, Place(1, 3, b"", "it is not known how many bytes were lost")),
        ({"seam": "capped", "execution": 1}, Place(1, 3, b"", "", full=True)),
    ],
)
def test_what_is_not_certain_is_said(tmp_path: Path, seam: dict[str, Any], known: Place) -> None:
    entries = [
        {"cursor": 0, "arrival": 1.0, "execution": 0},
        {"cursor": 3, "message": "", "lost": None, **seam},
    ]
    assert end_of(snapshot(tmp_path, b"abc", entries), "stdout") == known


def test_an_output_of_which_nothing_is_stored_begins_at_the_first_byte(tmp_path: Path) -> None:
    assert end_of(snapshot(tmp_path, b"", []), "stdout") == Place()
