# SPDX-License-Identifier: Apache-2.0
"""Two streams through one log and back: nothing lost, doubled or invented, whatever is written or missing."""

import hashlib
import re
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from covalent_joblog_plugin.cluster import framing
from covalent_joblog_plugin.cluster.framing import Decoder, Encoder, Frame, Lost, Text
from covalent_joblog_plugin.cluster.framing_encoder import LINE_BYTES, MARK_BYTES, frames

START = b"\x1e\n\x1c@0 0\n"
BYTES = st.lists(st.sampled_from(b"\n\r\x1c\x1d\x1e\x1f@#\0a01 "), max_size=12).map(bytes)
LONG = st.builds(lambda data, times: data * times, BYTES, st.sampled_from((1, 1, 1, 1, 1, 1500)))
WRITES = st.lists(
    st.tuples(st.sampled_from((1, 2)), LONG, st.sampled_from((0.0, 0.1, 0.6, 11.0))), max_size=12
)


def encode(writes):
    """What reaches the log: containerd drops one CR before a newline."""
    encoder, out, now, streams = Encoder(), b"", 0.0, {1: b"", 2: b""}
    for stream, data, pause in writes:
        streams[stream] += data
        out += encoder.feed(stream, data, now)
        now += pause
        out += encoder.tick(now)
    out += encoder.finish()
    assert max(map(len, out.split(b"\n"))) < 16_000
    return re.sub(rb"\r\n", b"\n", out), streams, encoder


def chunks(data, text):
    at = 0
    while at < len(text):
        size = data.draw(st.integers(1, 40)) if len(text) < 2000 else data.draw(st.integers(1, 9000))
        yield text[at : at + size]
        at += size


def check(events, streams):
    """Every text is at its place, and every missing byte is told where it is missing."""
    at = {1: 0, 2: 0}
    for event in events:
        if isinstance(event, Text):
            assert streams[event.stream][at[event.stream] :].startswith(event.data)
            at[event.stream] += len(event.data)
        else:
            at[event.stream] += event.size
    assert at == {stream: len(data) for stream, data in streams.items()}


@given(WRITES, st.data())
def test_any_text_comes_back_whatever_the_pauses_and_cuts(writes, data):
    log, streams, encoder = encode(writes)
    decoder = Decoder()
    events = [event for chunk in chunks(data, log) for event in decoder.feed(chunk)]
    events += decoder.end(encoder.sizes)
    assert all(isinstance(event, Text) for event in events)
    check(events, streams)
    truth = tuple((len(text), hashlib.sha256(text).hexdigest()) for text in streams.values())
    assert decoder.counted() == truth == tuple(zip(encoder.sizes, encoder.sha256(), strict=True))


@settings(max_examples=500)
@given(WRITES, st.data())
def test_a_gap_anywhere_is_told_with_the_exact_number_of_missing_bytes(writes, data):
    log, streams, encoder = encode(writes)
    first = data.draw(st.integers(len(START), len(log)))
    last = data.draw(st.integers(first, len(log)))
    decoder = Decoder()
    events = [event for chunk in chunks(data, log[:first]) for event in decoder.feed(chunk)]
    events += decoder.gap()
    events += [event for chunk in chunks(data, log[last:]) for event in decoder.feed(chunk)]
    check(events + decoder.end(encoder.sizes), streams)


@settings(max_examples=300)
@given(WRITES, st.data())
def test_a_log_whose_beginning_was_rotated_away_says_how_much_it_was(writes, data):
    log, streams, encoder = encode(writes)
    assume(any(streams.values()))
    begin = data.draw(st.integers(len(START), len(log)))
    decoder = Decoder()
    events = [event for chunk in chunks(data, log[begin:]) for event in decoder.feed(chunk)]
    check(events + decoder.end(encoder.sizes), streams)


@given(WRITES, st.data())
def test_two_gaps_before_a_position_are_told_as_one(writes, data):
    log, streams, encoder = encode(writes)
    cuts = sorted(data.draw(st.integers(len(START), len(log))) for _ in range(4))
    decoder = Decoder()
    events = decoder.feed(log[: cuts[0]]) + decoder.gap() + decoder.feed(log[cuts[1] : cuts[2]])
    events += decoder.gap() + decoder.feed(log[cuts[3] :]) + decoder.end(encoder.sizes)
    for stream, text in streams.items():
        mine = [event for event in events if event.stream == stream]
        sizes = [e.size if isinstance(e, Lost) else len(e.data) for e in mine]
        assert sum(sizes) == len(text)


@given(st.binary(max_size=30), st.data())
def test_bytes_that_no_encoder_wrote_break_nothing(noise, data):
    decoder = Decoder()
    for chunk in chunks(data, noise):
        decoder.feed(chunk)
        if data.draw(st.booleans()):
            decoder.gap()
    decoder.end(None)


def lines(*writes):
    encoder = Encoder()
    return b"".join(encoder.feed(*write, 0.0) for write in writes), encoder


def test_text_is_given_on_before_its_line_ends():
    decoder = Decoder()
    text, _ = lines((1, b"epoch 1: 10%\r"))
    assert decoder.feed(text) == [Text(1, b"epoch 1: 10%\r")]
    assert decoder.feed(b"20%\r\x1e") == [Text(1, b"20%\r")]
    assert decoder.feed(b"\n\x1dwarn") == [Text(2, b"warn")]
    assert decoder.feed(b"ing\n") == [Text(2, b"ing\n")]


def test_unfinished_text_is_shown_after_half_a_second_and_written_at_once():
    encoder = Encoder()
    assert encoder.due() == 0.0
    assert encoder.tick(100.0) == START
    assert encoder.due() is None
    assert encoder.feed(1, b"10%\r", 100.0) == b"10%\r"
    assert encoder.feed(1, b"20%\r", 100.4) == b"20%\r"
    assert encoder.due() == pytest.approx(100.5)
    assert encoder.tick(100.45) == b""
    assert encoder.tick(100.5) == b"\x1e\n"
    assert encoder.due() == pytest.approx(110.0)
    assert encoder.tick(110.0) == b"\x1c@8 0\n"
    assert encoder.due() is None


def test_positions_come_every_256_kib_and_lines_are_cut_at_12_kib():
    encoder = Encoder()
    out = encoder.feed(2, b"x" * (3 * MARK_BYTES), 0.0) + encoder.finish()
    assert out.count(b"\x1c@") == 5
    assert max(map(len, out.split(b"\n"))) <= LINE_BYTES + 3
    assert b"\x1c@0 262144\n" in out


def test_a_gap_where_nothing_is_missing_leaves_no_trace():
    text, encoder = lines((1, b"first\n"), (2, b"other\n"), (1, b"second\n"))
    cut = text.index(b"second")
    decoder = Decoder()
    events = decoder.feed(text[:cut]) + decoder.gap() + decoder.feed(text[cut:] + encoder.finish())
    assert events == [Text(1, b"first\n"), Text(2, b"other\n"), Text(1, b"second\n")]


def test_text_after_a_gap_waits_for_the_position_and_the_loss_comes_before_it():
    text, encoder = lines((1, b"first\n"), (1, b"second\n"), (1, b"third\n"))
    decoder = Decoder()
    assert decoder.feed(text[: text.index(b"second")]) == [Text(1, b"first\n")]
    assert decoder.gap() == []
    assert decoder.feed(text[text.index(b"third") :]) == []
    assert decoder.feed(encoder.finish()) == [Lost(1, 7), Text(1, b"third\n")]


def test_the_end_of_a_line_of_unknown_stream_is_counted_as_lost():
    text, encoder = lines((1, b"a" * 9 + b"\n"), (2, b"b" * 9 + b"\n"), (1, b"c\n"))
    decoder = Decoder()
    events = decoder.feed(START) + decoder.gap() + decoder.feed(text[text.index(b"bbb") :] + encoder.finish())
    assert events == [Lost(1, 10), Lost(2, 10), Text(1, b"c\n")]


def test_what_a_position_misses_without_a_gap_is_told_there():
    decoder = Decoder()
    assert decoder.feed(START + b"abc\n\x1c@10 5\n") == [Text(1, b"abc\n"), Lost(1, 6), Lost(2, 5)]
    assert decoder.feed(b"more\n\x1c@15 5\n") == [Text(1, b"more\n")]


def test_without_a_position_the_loss_is_unknown_and_no_more_than_a_mebibyte_is_held():
    decoder = Decoder()
    decoder.feed(START + b"abc\n")
    decoder.gap()
    given = []
    for _ in range(20):
        given += decoder.feed(b"x" * 99_999 + b"\n")
    assert given[:2] == [Lost(1, None), Lost(2, None)]
    assert sum(len(event.data) for event in given[2:]) == 19 * 100_000
    assert decoder.feed(b"\x1c@5000000 7\nend\n") == [Text(1, b"end\n")]


def test_the_end_tells_what_never_came():
    decoder = Decoder()
    decoder.feed(START + b"abc\n")
    assert decoder.end((9, 2)) == [Lost(1, 5), Lost(2, 2)]
    assert Decoder().end((9, 0)) == [Lost(1, 9)]
    killed = Decoder()
    assert killed.feed(START + b"abc\nunfin") == [Text(1, b"abc\nunfin")]
    assert killed.end(None) == []


def test_what_an_entry_point_wrote_before_the_runner_is_shown_and_not_counted():
    text, encoder = lines((1, b"ours\n"))
    decoder = Decoder()
    assert decoder.feed(b"loading\r\n\x1d modules") == []
    assert decoder.feed(text) == [Text(1, b"loading\r\n\x1d modulesours\n")]
    assert decoder.counted()[0] == (5, encoder.sha256()[0])


def test_a_runner_that_never_began_leaves_the_log_as_it_is():
    decoder = Decoder()
    assert decoder.feed(b"python3: not found\n") == []
    assert decoder.end(None) == [Text(1, b"python3: not found\n")]
    flood = Decoder()
    shown = [event for _ in range(30) for event in flood.feed(b"x" * 99_999 + b"\n")]
    shown += flood.feed(lines((1, b"ours\n"))[0])
    assert sum(len(event.data) for event in shown) == 30 * 100_000 + 5
    assert flood.counted()[0][0] == 5


def test_a_position_as_the_very_first_line_is_taken_at_once():
    decoder = Decoder()
    assert decoder.feed(b"\x1c@0 0\nabc") == [Text(1, b"abc")]


@pytest.mark.parametrize("stream", [1, 2])
def test_marks_in_the_users_text_do_nothing(stream):
    forged = b"\x1c@99999 7\n\x1c#1/1 00000000 \n\x1derr\n\x1e\n\x1f\n\x1c\x1c@5 5\n"
    text, encoder = lines((stream, forged), (stream, forged[:-1]))
    assert Decoder().feed(text + encoder.finish()) == [Text(stream, forged + forged[:-1])]


@given(st.binary(max_size=40_000), st.data())
@settings(max_examples=30)
def test_frames_carry_a_result_beside_the_text(payload, data):
    text, encoder = lines((1, b"no newline"))
    log = text + encoder.finish() + b"".join(frames(payload))
    assert max(map(len, log.split(b"\n"))) < 12_300
    decoder = Decoder()
    events = [event for chunk in chunks(data, log) for event in decoder.feed(chunk)]
    found = [event for event in events if isinstance(event, Frame)]
    assert [(frame.seq, frame.n) for frame in found] == [(n + 1, len(found)) for n in range(len(found))]
    assert b"".join(frame.payload for frame in found) == payload
    assert b"".join(event.data for event in events if isinstance(event, Text)) == b"no newline"
    assert decoder.end((10, 0)) == []


@given(st.integers(0, 5000), st.integers(1, 255))
def test_a_damaged_frame_is_no_frame(at, change):
    (line,) = frames(b"payload" * 500)
    assume(at < len(line) - 1)
    damaged = bytearray(line)
    damaged[at] ^= change
    whole = Frame(1, 1, b"payload" * 500)
    found = Decoder().feed(START + bytes(damaged))
    assert all(event == whole or isinstance(event, Text | Lost) or event[:2] != (1, 1) for event in found)


def test_plain_and_mixed_text_cost_far_less_than_a_core():
    """10 MB/s of 100-byte lines is what a busy job writes; ten times that has to pass."""
    line = b"x" * 99 + b"\n"
    plain, errors = [(1, line * 600)] * 200, [(2, line * 600)] * 200
    for writes in (plain, errors, [(1, line * 600), (2, line)] * 200):
        encoder, decoder, size, began = Encoder(), Decoder(), 0, time.process_time()
        for stream, data in writes:
            size += len(data)
            decoder.feed(encoder.feed(stream, data, 0.0))
        assert size / (time.process_time() - began) > 30e6


def test_the_encoder_that_travels_is_python_alone():
    text = framing.source().decode()
    assert "from ." not in text
    assert "covalent_joblog_plugin" not in text
