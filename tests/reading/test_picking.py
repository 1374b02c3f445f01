# SPDX-License-Identifier: Apache-2.0
"""Which lines and breaks of an output are shown."""

from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.model.log_line import LogLine
from covalent_joblog_plugin.model.records import Seam, SeamKind
from covalent_joblog_plugin.reading.assembling import Break
from covalent_joblog_plugin.reading.picking import Picker, Tail
from covalent_joblog_plugin.text.selection import Selection


def line(text, cursor=0, execution=0):
    return LogLine(text, cursor, 1.0, "stdout", 0, execution)


def seam(execution=1):
    return Break(0, Seam(SeamKind.RESTART, f"start {execution}", execution), 1.0)


def picked(selection, *items):
    picker = Picker(selection, now=2.0)
    return [item.text for item in picker.feed(list(items)) + picker.caught_up()]


@given(st.lists(st.booleans()), st.integers(0, 5), st.data())
def test_a_tail_is_the_last_lines_and_the_breaks_among_them(kinds, count, data):
    items = [line(f"{n}") if is_line else seam(n) for n, is_line in enumerate(kinds)]
    tail, at = Tail(count), 0
    for cut in sorted(data.draw(st.lists(st.integers(0, len(items))))):
        tail.add(items[at:cut])
        at = cut
    tail.add(items[at:])
    lines = [item for item in items if isinstance(item, LogLine)]
    kept = list(tail.items)
    assert [item for item in kept if isinstance(item, LogLine)] == lines[max(0, len(lines) - count) :]
    assert items[len(items) - len(kept) :] == kept


def test_breaks_are_shown_where_the_text_is_continuous():
    items = [line("a"), seam(), line("b", execution=1)]
    assert picked(Selection.of(), *items) == ["a", "[joblog: start 1]", "b"]
    assert picked(Selection.of(tail=1), *items) == ["[joblog: start 1]", "b"]
    assert picked(Selection.of(tail=2), *items) == ["a", "[joblog: start 1]", "b"]
    assert picked(Selection.of(query="b"), *items) == ["b"]
    assert picked(Selection.of(execution=1), *items) == ["[joblog: start 1]", "b"]
    assert picked(Selection.of(execution=0), *items) == ["a"]


def test_a_tail_counts_what_the_other_options_leave():
    items = [line(f"{'x' if n % 3 else 'y'}{n}") for n in range(20)]
    assert picked(Selection.of(query="y", tail=2), *items) == ["y15", "y18"]


def test_what_did_not_pass_is_counted_by_what_held_it_back():
    picker = Picker(Selection.of(query="a", severity="error"), now=2.0)
    picker.feed([line("a"), line("ERROR b"), line("ERROR a")])
    assert [item.text for item in picker.caught_up()] == ["ERROR a"]
    assert picker.rejected == {"severity": 1, "query": 1}
