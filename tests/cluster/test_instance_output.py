# SPDX-License-Identifier: Apache-2.0
"""A container's log on its way to the monitor: offsets that never change, seams in their place."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.cluster import instance_output
from covalent_joblog_plugin.cluster.framing import Encoder
from covalent_joblog_plugin.cluster.instance_output import InstanceOutput, Spool
from covalent_joblog_plugin.model.records import FileRef, ReadRequest, SeamKind
from covalent_joblog_plugin.monitor.position import Position

ROOM = 1 << 20


def output(*, framing=True):
    return InstanceOutput(0, framing=framing, changed=lambda: None)


def ask(spool: Spool, pos: int, *, stored: int = 0, now: bool = False, room: int = ROOM):
    return spool.answer(ReadRequest("p", pos, stored=stored, now=now), room)


def framed(*pieces: tuple[int, bytes]) -> tuple[bytes, Encoder]:
    encoder = Encoder()
    return b"".join(encoder.feed(*piece, 0.0) for piece in pieces) + encoder.finish(), encoder


def test_both_streams_come_apart_again_at_offsets_of_their_own():
    out = output()
    text, _ = framed((1, b"one\r\n"), (2, b"err\n"), (1, b"10%\r20%\r"))
    out.text(text)
    assert ask(out.spools["stdout"], 0).data == b"one\r\n10%\r20%\r"
    assert ask(out.spools["stdout"], 5).data == b"10%\r20%\r"
    assert ask(out.spools["stderr"], 0).data == b"err\n"


def test_nothing_new_is_no_answer_until_the_end_is_known():
    out = output()
    spool = out.spools["stdout"]
    out.text(framed((1, b"abc\n"))[0])
    assert ask(spool, 4, now=True) is None
    out.end(proved=True, counts=None)
    last = ask(spool, 4, now=True)
    assert (last.data, last.size, last.seams) == (b"", 4, ())
    assert ask(spool, 4) is None


def test_a_log_that_nobody_counts_ends_with_its_last_answer_unless_a_gap_was_told():
    gone = output(framing=False)
    gone.text(b"abc\n")
    gone.end(proved=False, counts=None)
    assert ask(gone.spools["log"], 4, now=True).seams == ()
    cut = output(framing=False)
    cut.text(b"abc\n")
    cut.gap("its file was removed")
    cut.end(proved=False, counts=None)
    lost, incomplete = ask(cut.spools["log"], 4, now=True).seams
    assert (lost.kind, incomplete.kind) == (SeamKind.LOST, SeamKind.INCOMPLETE)
    assert "its file was removed" in incomplete.message


def test_lost_bytes_are_a_seam_with_their_number_where_they_are_missing():
    out = output()
    text, _ = framed((1, b"first\n"), (1, b"second\n"), (1, b"third\n"))
    out.text(text[: text.index(b"second")])
    out.gap("the file was rotated")
    out.text(text[text.index(b"third") :])
    spool = out.spools["stdout"]
    first, after = ask(spool, 0), ask(spool, 6)
    assert first.data == b"first\n"
    assert first.seams == ()
    assert after.data == b"third\n"
    assert [(seam.kind, seam.lost) for seam in after.seams] == [(SeamKind.LOST, 7)]


def test_count_and_hash_decide_whether_the_output_is_complete():
    text, encoder = framed((1, b"first\n"), (2, b"second\n"))
    hashes = encoder.sha256()
    counts = {"stdout": (6, hashes[0]), "stderr": (7, hashes[1])}
    whole, damaged, unknown = output(), output(), output()
    for out in (whole, unknown):
        out.text(text)
    damaged.text(text.replace(b"second", b"sec0nd"))
    whole.end(proved=False, counts=counts)
    damaged.end(proved=True, counts=counts)
    unknown.end(proved=False, counts=None)
    assert (whole.complete, damaged.complete, unknown.complete) == (True, False, None)
    assert ask(whole.spools["stdout"], 6, now=True).seams == ()
    (seam,) = ask(unknown.spools["stdout"], 6, now=True).seams
    assert seam.kind is SeamKind.INCOMPLETE


def test_a_log_that_may_not_be_read_says_why_at_its_end():
    out = output()
    out.trouble("needs get pods/log in namespace ml")
    out.end(proved=False, counts=None)
    (seam,) = ask(out.spools["stdout"], 0, now=True).seams
    assert "needs get pods/log in namespace ml" in seam.message


def test_without_framing_the_log_is_one_stream_as_it_is():
    out = output(framing=False)
    out.text(b"\x1derr?\n\x1c@1 2\n")
    out.gap("it was rotated")
    out.text(b"more")
    assert ask(out.spools["log"], 0).data == b"\x1derr?\n\x1c@1 2\n"
    after = ask(out.spools["log"], 12)
    assert after.data == b"more"
    assert [(seam.kind, seam.lost) for seam in after.seams] == [(SeamKind.LOST, None)]


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1), st.data())
def test_any_way_of_asking_gives_every_byte_once(pieces, data):
    spool = Spool(0)
    kept = instance_output.RELEASE_BYTES
    instance_output.RELEASE_BYTES = 16
    try:
        got, stored = b"", 0
        for piece in pieces:
            spool.append(piece)
            answer = ask(spool, len(got), stored=stored, room=data.draw(st.integers(1, 60)))
            got += answer.data if answer else b""
            stored = data.draw(st.integers(stored, len(got)))
        while answer := ask(spool, len(got), stored=stored):
            got += answer.data
    finally:
        instance_output.RELEASE_BYTES = kept
    assert got == b"".join(pieces)


def test_text_that_was_not_stored_is_given_again():
    spool = Spool(0)
    spool.append(b"x" * 10)
    assert ask(spool, 0, stored=0).data == b"x" * 10
    assert ask(spool, 4, stored=4).data == b"x" * 6


async def test_reading_is_held_up_while_nobody_takes_the_text(monkeypatch):
    monkeypatch.setattr(instance_output, "BACKLOG_BYTES", 10)
    out = output(framing=False)
    out.text(b"0123456789ab")
    waiting = asyncio.ensure_future(out.room())
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    assert not done
    ask(out.spools["log"], 5)
    out.took()
    await asyncio.wait_for(waiting, 5)


async def test_a_stream_that_nobody_asks_for_any_more_does_not_hold_up_the_other(monkeypatch):
    monkeypatch.setattr(instance_output, "BACKLOG_BYTES", 10)
    out = output()
    out.spools["stderr"].ignore()
    out.text(framed((2, b"x" * 100 + b"\n"), (1, b"here\n"))[0])
    await asyncio.wait_for(out.room(), 5)
    assert ask(out.spools["stdout"], 0).data == b"here\n"


async def test_a_container_that_nobody_has_come_to_yet_loses_nothing(monkeypatch):
    monkeypatch.setattr(instance_output, "BACKLOG_BYTES", 10)
    monkeypatch.setattr(instance_output, "UNWANTED_AFTER", 0.0)
    out = output(framing=False)
    out.text(b"0123456789ab")
    waiting = asyncio.ensure_future(out.room())
    done, _ = await asyncio.wait([waiting], timeout=0.2)
    assert not done
    assert ask(out.spools["log"], 0).data == b"0123456789ab"
    waiting.cancel()


@given(
    st.lists(st.tuples(st.sampled_from(["text", "lost", "ask", "neglect"]), st.integers(1, 30)), max_size=60)
)
def test_what_is_dropped_is_counted_where_it_is_missing(steps):
    spool, written, got, lost = Spool(0), 0, b"", 0

    def take(answer):
        nonlocal got, lost
        if answer:
            fresh = position.fresh_seams(answer)
            _, data = position.accept(answer)
            lost += sum(seam.lost for seam in fresh)
            position.took(data, len(data))
            got += data
            assert written_text[len(got) + lost - len(data) : len(got) + lost] == data

    written_text = bytearray()
    position = Position(FileRef("p"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(instance_output, "BACKLOG_BYTES", 20)
        for step, size in steps:
            if step == "text":
                data = bytes((written + n) % 251 for n in range(size))
                written += size
                written_text += data
                spool.append(data)
            elif step == "lost":
                written += size
                written_text += bytes(size)
                spool.seam(SeamKind.LOST, "rotated", size)
            elif step == "ask":
                take(ask(spool, position.pos, stored=position.stored, room=size))
            else:
                spool.ignore()
        spool.ended = True
        for _ in range(2 * len(steps) + 2):
            take(ask(spool, position.pos, stored=position.stored))
    assert len(got) + lost == written
