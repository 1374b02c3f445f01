# SPDX-License-Identifier: Apache-2.0
"""Identity of files, and answers that are not known."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.model.capabilities import Answer, Capabilities, Capability
from covalent_joblog_plugin.model.records import Identity


@given(st.binary(max_size=64), st.data())
def test_a_file_that_grows_stays_itself_in_every_session(head: bytes, data: st.DataObject) -> None:
    seen = data.draw(st.integers(0, len(head)))
    earlier = Identity(7, 1, "a", head[:seen])
    assert Identity(7, 1, "a", head).continues(earlier)
    assert Identity(7, 2, "b", head).continues(earlier)


@pytest.mark.parametrize(
    "now",
    [
        Identity(8, 1, "a", b"head"),
        Identity(7, 2, "a", b"head"),
        Identity(7, 1, "a", b"hea"),
        Identity(7, 1, "a", b"other"),
        Identity(7, 1, "b", b"other"),
    ],
)
def test_another_file_or_another_beginning_is_not_the_same(now: Identity) -> None:
    assert not now.continues(Identity(7, 1, "a", b"head"))


def test_across_sessions_an_empty_head_leaves_it_to_the_inode() -> None:
    assert Identity(7, 2, "b", b"x").continues(Identity(7, 1, "a"))
    assert not Identity(8, 2, "b", b"x").continues(Identity(7, 1, "a"))


def test_across_sessions_the_head_is_enough() -> None:
    assert Identity(8, 2, "b", b"head and more").continues(Identity(7, 1, "a", b"head"))


def test_an_unknown_answer_has_no_truth() -> None:
    assert Capability(Answer.YES)
    assert not Capability(Answer.NO, "no right")
    with pytest.raises(ValueError, match="pod not scheduled"):
        bool(Capability(Answer.UNKNOWN, "pod not scheduled"))


def test_capabilities_travel_as_json() -> None:
    found = json.loads(json.dumps(Capabilities(read=Capability(Answer.NO, "no right")).to_json()))
    assert found["read"] == {"answer": "no", "reason": "no right"}
    assert found["complete"]["answer"] == "unknown"
    assert set(found) == {"read", "follow", "retained", "split_streams", "truncation", "complete"}
