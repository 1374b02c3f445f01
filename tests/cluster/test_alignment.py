# SPDX-License-Identifier: Apache-2.0
"""Text out of answers that were cut anywhere, repeat what is known, and begin in the middle of lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from covalent_joblog_plugin.cluster.alignment import Misaligned, Reading
from covalent_joblog_plugin.cluster.rotations import HEAD_BYTES, Rotations
from covalent_joblog_plugin.cluster.stamped import Text, Window
from covalent_joblog_plugin.cluster.tries import TRIES
from tests.cluster.cri_log import ContainerLog, LogStream

MILLISECOND = 10**6


@dataclass
class Reader:
    """Reads a log in memory by the rules of ``LogReader``."""

    log: ContainerLog
    data: bytearray = field(default_factory=bytearray)
    gaps: list[int] = field(default_factory=list)
    window: Window = field(default_factory=Window)
    skips: bool = False
    stream: LogStream | None = None
    reading: Reading | None = None
    attempt: int = 0
    first_file: int = -1
    """What was rotated away before the first answer is lost, and nothing tells."""

    def __post_init__(self):
        self.text = Text(self.window, self.data.extend, lambda _: self.gaps.append(len(self.data)), [])
        self.rotations = Rotations(self.text)

    def open(self, *, follow):
        back, candidate = TRIES[self.attempt]
        since = self.window.since(back)
        known = self.window.known() if self.window.newest else None
        if not self.window.newest:
            self.first_file = len(self.log.files) - 1
        self.stream = LogStream(self.log, since, follow=follow, skips=self.skips)
        self.reading = Reading(self.text, known, follow=follow, since=since, candidate=candidate)

    def pump(self, sizes, cut=None):
        """Read on, in chunks of these sizes; up to the ``cut``-th byte, where the connection breaks."""
        if self.reading is None:
            self.open(follow=True)
        data = self.stream.more()
        broken, data = cut is not None, data if cut is None else data[:cut]
        try:
            at = number = 0
            while at < len(data):
                size = sizes[number % len(sizes)]
                self._feed(lambda piece=data[at : at + size]: self.reading.feed(piece))
                at, number = at + size, number + 1
        except Misaligned:
            self.attempt, broken = min(self.attempt + 1, len(TRIES) - 1), True
        if broken:
            self.reading = None

    def head(self):
        self.rotations.saw(LogStream(self.log).more()[:HEAD_BYTES])
        self.rotations.check()

    def finish(self):
        """Read as after the container's end: until there is nothing new."""
        if self.reading is not None:
            self.pump([1000])
        had_all = self.reading is not None
        if had_all:
            self._feed(self.reading.end)
            had_all = self.reading.aligned
        size, rounds = None, 0
        while size != len(self.data):
            size, rounds = len(self.data), rounds + 1
            assert rounds < 20, "it comes to no end"
            self.open(follow=False)
            try:
                self._feed(lambda: self.reading.feed(self.stream.more()))
                self._feed(self.reading.end)
            except Misaligned:
                self.attempt, size = min(self.attempt + 1, len(TRIES) - 1), None
        if self.window.newest and not self.reading.aligned and not had_all:
            self.gaps.append(len(self.data))

    def _feed(self, step):
        step()
        if self.reading.in_doubt:
            self.reading.accept()
        if self.reading.live:
            self.attempt = 0


def check(reader):
    """What was taken is the truth, but for what is missing at the gaps."""
    truth = b"".join(record.text for records in reader.log.files[reader.first_file :] for record in records)
    if not reader.gaps:
        assert bytes(reader.data) == truth
        return
    first, *middle, last = (bytes(reader.data[a:b]) for a, b in pairwise([0, *reader.gaps, len(reader.data)]))
    assert truth.startswith(first)
    at = len(first)
    for part in middle:
        at = truth.index(part, at) + len(part)
    assert truth[at:].endswith(last)


texts = st.one_of(
    st.sampled_from([b"\n", b"x\n", b"same\n", b"\r\n", b"part", b"\r", b"2025-12-01T00:00:00.123456789Z "]),
    st.binary(max_size=60),
    st.builds(
        lambda n, end: b"abcdefgh" * n + end,
        st.sampled_from([10, 2047, 2048, 2049, 5000]),
        st.binary(max_size=2),
    ),
)
writes = st.tuples(
    st.just("write"),
    st.sampled_from([1, 2]),
    texts,
    st.sampled_from([1, 1, 50, 400, 1500, 9000]),
    st.sampled_from([0, 0, 0, 100_000]),
)
chunks = st.lists(st.integers(1, 300), min_size=1, max_size=5)
pumps = st.tuples(st.just("pump"), chunks, st.one_of(st.none(), st.integers(0, 400)))
rotations = st.tuples(st.just("rotate"))


def play(steps, zone=0, *, skips=False):
    log = ContainerLog(zone=zone)
    reader = Reader(log, skips=skips)
    for step in steps:
        if step[0] == "write":
            _, stream, data, milliseconds, late = step
            log.now += milliseconds * MILLISECOND
            log.write(stream, data, late)
        elif step[0] == "pump":
            reader.pump(*step[1:])
        elif step[0] == "rotate":
            log.rotate()
        else:
            reader.head()
    log.exit()
    reader.finish()
    reader.head()
    if reader.rotations.check():
        reader.gaps.append(len(reader.data))
    return reader


@given(st.lists(st.one_of(writes, writes, pumps), max_size=30), st.sampled_from([0, 90, -210]))
@settings(max_examples=200)
def test_without_rotation_every_byte_arrives_once(steps, zone):
    reader = play(steps, zone)
    assert bytes(reader.data) == reader.log.truth
    assert reader.gaps == []


@given(st.lists(st.one_of(writes, writes, pumps, rotations), max_size=30))
@settings(max_examples=200)
def test_with_rotation_what_is_missing_is_missing_at_a_gap_and_nothing_comes_twice(steps):
    check(play(steps))


# All within the window's 20 seconds: heads are looked at more often than that.
lines = writes.map(lambda w: (*w[:2], w[2] + b"\n", min(w[3], 400), w[4]))
whole_pumps = st.tuples(st.just("pump"), chunks, st.none())
heads = st.tuples(st.just("head"))


@given(st.lists(st.one_of(lines, lines, whole_pumps, rotations, heads), max_size=30))
@settings(max_examples=100)
def test_heads_of_files_that_were_read_whole_are_no_gap(steps):
    reader = play([("pump", [100], None), *steps])
    assert bytes(reader.data) == reader.log.truth
    assert reader.gaps == []


@given(
    st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.booleans(), st.integers(1, 3000)), max_size=12),
    st.sampled_from([10, 6000]),
)
@settings(max_examples=100)
def test_a_file_that_the_stream_skips_is_missed(files, padding):
    """Its head was seen, as that of each file is: text, a head, then perhaps the stream, then rotation."""
    steps, number = [], 0
    for lines, pumped, seen_late, milliseconds in files:
        for _ in range(lines):
            steps.append(("write", 1, b"%d%s\n" % (number, b"." * padding), milliseconds, 0))
            number += 1
        head = ("head",)
        pump = [("pump", [5000], None)] * pumped
        steps += [*pump, head, ("rotate",)] if seen_late else [head, *pump, ("rotate",)]
    reader = play([("pump", [100], None), *steps], skips=True)
    lines, truth = bytes(reader.data).splitlines(), reader.log.truth.splitlines()
    assert set(lines) <= set(truth)
    assert [int(line.rstrip(b".")) for line in lines] == sorted({int(line.rstrip(b".")) for line in lines})
    assert bool(reader.gaps) == (lines != truth)
