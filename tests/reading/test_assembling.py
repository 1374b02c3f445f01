# SPDX-License-Identifier: Apache-2.0
"""Pieces of an output become the same lines and breaks wherever they end."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.model.log_line import LogLine
from covalent_joblog_plugin.model.records import Seam, SeamKind
from covalent_joblog_plugin.reading.answers import Entry, Piece
from covalent_joblog_plugin.reading.assembling import Assembler, Break


def arrival(cursor, time, execution=0):
    return Entry(cursor, execution, time, None)


def break_at(cursor, kind, message="why", execution=0):
    return Entry(cursor, execution, None, Seam(kind, message, execution))


def pieces_of(data, entries, cuts, start=0):
    """``data`` cut at ``cuts``, each piece with the entries that the server would tell with it."""
    edges = [start, *sorted(cut for cut in set(cuts) if start < cut < len(data)), len(data)]
    for begin, end in pairwise(edges) if len(data) > start else [(start, start)]:
        before = [entry for entry in entries if entry.arrival is not None and entry.cursor < begin][-1:]
        told = before + [entry for entry in entries if begin <= entry.cursor <= end]
        yield Piece("stdout", begin, data[begin:end], len(data), told)


def items(data, entries, cuts=(), start=0):
    assembler = Assembler(start, stream="stdout", rank=0)
    found = [item for piece in pieces_of(data, entries, cuts, start) for item in assembler.feed(piece)]
    return found + assembler.end()


def texts(found):
    return [item.text for item in found]


@given(
    st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", "€".encode(), b"\xe2", b"\x1b[31m"]), max_size=30),
    st.data(),
)
def test_wherever_pieces_end_the_items_are_the_same(parts, data):
    text = b"".join(parts)
    places = st.integers(0, len(text))
    cuts = data.draw(st.lists(places, max_size=10))
    times = sorted(data.draw(st.lists(places, max_size=4)))
    entries = [arrival(cursor, float(n)) for n, cursor in enumerate(times)]
    kinds = st.sampled_from(list(SeamKind))
    entries += [
        break_at(cursor, kind, f"{n}", n)
        for n, (cursor, kind) in enumerate(data.draw(st.lists(st.tuples(places, kinds), max_size=4)))
    ]
    entries.sort(key=lambda entry: (entry.cursor, entry.seam is None))
    assert items(text, entries, cuts) == items(text, entries)


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_cursors_and_sizes_cover_the_output(text, cuts):
    cursor = 0
    for line in items(text, [], cuts):
        assert line.cursor == cursor
        cursor += line.size
    assert cursor == len(text)


def test_a_restart_ends_a_line_and_is_told_between():
    entries = [arrival(0, 1.0), break_at(3, SeamKind.RESTART, "started again", 1), arrival(3, 2.0, 1)]
    found = items(b"onetwo\n", entries)
    assert texts(found) == ["one", "[joblog: started again]", "two"]
    one, seam, two = found
    assert (one.ended, one.execution, one.time) == (False, 0, 1.0)
    assert (seam.cursor, seam.seam.execution, seam.time) == (3, 1, 1.0)
    assert (two.cursor, two.execution, two.time) == (3, 1, 2.0)


def test_a_pause_of_storing_does_not_cut_a_line():
    entries = [break_at(3, SeamKind.PAUSED, "full"), break_at(3, SeamKind.RESUMED, "room")]
    assert texts(items(b"onetwo\n", entries)) == ["[joblog: full]", "[joblog: room]", "onetwo"]


def test_what_is_told_again_by_another_connection_is_shown_once():
    seam = break_at(4, SeamKind.RESTART, "started again", 1)
    assembler = Assembler()
    first = assembler.feed(Piece("stdout", 0, b"one\n", 4, [arrival(0, 1.0), seam]))
    again = assembler.feed(Piece("stdout", 4, b"", 4, [arrival(0, 1.0), seam]))
    more = assembler.feed(Piece("stdout", 4, b"two\n", 8, [arrival(0, 1.0), seam, arrival(4, 2.0, 1)]))
    assert texts(first) == ["one", "[joblog: started again]"]
    assert again == []
    assert [(line.text, line.execution, line.time) for line in more] == [("two", 1, 2.0)]


def test_what_was_told_before_the_first_byte_only_dates_it():
    entries = [arrival(0, 1.0, 0), break_at(4, SeamKind.RESTART, "again", 1), arrival(4, 2.0, 1)]
    piece = Piece("stdout", 8, b"two\n", 12, entries)
    found = Assembler(8).feed(piece)
    assert [(type(item), item.text, item.time, item.execution) for item in found] == [
        (LogLine, "two", 2.0, 1)
    ]


def test_a_break_at_the_end_is_told():
    found = items(b"half", [arrival(0, 1.0), break_at(4, SeamKind.INTERRUPTED, "stopped")])
    assert texts(found) == ["half", "[joblog: stopped]"]
    assert isinstance(found[1], Break)


def test_what_is_not_whole_yet_can_be_seen():
    assembler = Assembler()
    assert assembler.feed(Piece("stdout", 0, b"  0%|\r 50%|", 11)) == []
    assert assembler.unfinished().text == " 50%|"
    assert texts(assembler.feed(Piece("stdout", 11, b"\r100%|\n", 18))) == ["100%|"]
    assert assembler.unfinished() is None
