# SPDX-License-Identifier: Apache-2.0
"""Server-sent events, wherever the pieces end."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.reading.events import Event, EventParser

STREAM = (
    b": ping - 2026-12-01\n\n"
    b"event: node\nid: 0\ndata: {}\n\n"
    b'event: output\r\nid: 7,9\r\ndata: {"a":\r\ndata: 1}\r\n\r\n'
    b"data:unnamed\n\n"
    b"event: nothing\n\n"
    b"event: end\ndata: \xe2\x82\xac"
)
EVENTS = [Event("node", "{}"), Event("output", '{"a":\n1}'), Event("message", "unnamed")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_wherever_pieces_end_the_events_are_the_same(cuts):
    parser = EventParser()
    edges = [0, *sorted(cuts), len(STREAM)]
    found = [event for a, b in pairwise(edges) for event in parser.feed(STREAM[a:b])]
    assert found == EVENTS
    assert parser.feed(b"\n\n") == [Event("end", "€")]
