# SPDX-License-Identifier: Apache-2.0
"""Our side of ``remote_reader`` on one channel: conversations by slot, answers by sequence number."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import TransportError
from covalent_joblog_plugin.model.records import Delta, Identity

from .far_side import COMMAND, READER, FarSide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalent_joblog_plugin.model.records import ReadRequest

    from .shell import Channel, Shell

READ_BYTES = 256 * 1024
ANSWER_GRACE = 60.0
"""Seconds beyond the asked wait before a silent reader counts as lost."""


class ReaderEndedError(TransportError):
    """The reader ended although the connection stands.

    Attributes:
        renewed: It said goodbye: it had run long enough.
    """

    def __init__(self, message: str, *, renewed: bool) -> None:
        super().__init__(message)
        self.renewed = renewed


@dataclass(slots=True)
class Conversation:
    """What the far side knows of one slot's files: path → id, position, size limit, pace."""

    known: dict[str, tuple[int, int, int | None, float | None]] = field(default_factory=dict)
    seq: int = 0
    waiting: asyncio.Future[list[Delta]] | None = None
    hot: set[str] = field(default_factory=set)
    _ids: int = 0

    def message(
        self, slot: int, requests: Sequence[ReadRequest], wait: float, max_bytes: int, pace: dict[str, float]
    ) -> dict[str, Any]:
        """Tell only what changed since the last request of this slot."""
        changed: list[list[Any]] = []
        wanted: dict[str, tuple[int, int, int | None, float | None]] = {}
        for request in requests:
            limit = None if request.size < 0 else request.size
            known = None if request.path in self.hot else self.known.get(request.path)
            number = self._next_id() if known is None else known[0]
            now = (number, request.pos, limit, pace.get(request.path))
            wanted[request.path] = now
            if known is None:
                changed.append([*now, request.path, int(request.path in self.hot)])
            elif known != now:
                changed.append(list(now))
        kept = {entry[0] for entry in wanted.values()}
        dropped = [entry[0] for entry in self.known.values() if entry[0] not in kept]
        self.known = wanted
        self.hot.difference_update(wanted)
        self.seq += 1
        told: dict[str, Any] = {"slot": slot, "seq": self.seq, "wait": wait, "max": max_bytes}
        if not wait and not all(request.now for request in requests):
            told["now"] = [wanted[request.path][0] for request in requests if request.now]
        return {**told, "set": changed, "drop": dropped}

    def deltas(self, header: dict[str, Any], raw: bytes, session: str) -> list[Delta]:
        """Turn an answer to the newest request into deltas."""
        paths = {entry[0]: (path, entry[1]) for path, entry in self.known.items()}
        found, at, arrival = [], 0, time.time()
        for entry in header["files"]:
            path, pos = paths[entry["i"]]
            parts = []
            for length in entry.get("parts", ()):
                parts.append(raw[at : at + length])
                at += length
            found.append(_delta(path, pos, entry, parts, session, arrival))
        return found

    def _next_id(self) -> int:
        self._ids += 1
        return self._ids


def _delta(
    path: str, pos: int, entry: dict[str, Any], parts: list[bytes], session: str, arrival: float
) -> Delta:
    if not parts:
        problem = entry.get("problem", "")
        return Delta(path, pos, b"", arrival, problem=f"{problem} ({path})" if problem else "")
    head, before, data = parts
    return Delta(
        path,
        pos,
        data,
        arrival,
        size=entry["size"],
        identity=Identity(entry["ino"], entry["dev"], session, head),
        before=before,
        mtime=entry["mtime"],
        hole=entry["hole"],
    )


class ReaderChannel:
    """One running reader; several conversations may wait at a time."""

    def __init__(self, channel: Channel, far_side: FarSide) -> None:
        self._channel = channel
        self._far_side = far_side
        self._slots: dict[int, Conversation] = {}
        self._end: TransportError | None = None
        self._renewed = False
        self._listener = asyncio.create_task(self._listen(), name="joblog reader")

    @classmethod
    async def open(cls, shell: Shell) -> ReaderChannel:
        """Start a reader.

        Raises:
            TransportError: The connection failed.
        """
        far_side = FarSide(READER)
        channel = await shell.channel(COMMAND)
        try:
            await channel.write(far_side.opening)
        except BaseException:
            await channel.close()
            raise
        return cls(channel, far_side)

    @property
    def ended(self) -> bool:
        """Whether it can be asked no more."""
        return self._end is not None

    async def ask(
        self,
        slot: int,
        requests: Sequence[ReadRequest],
        wait: float,
        max_bytes: int,
        pace: dict[str, float] | None = None,
    ) -> list[Delta]:
        """Ask in the name of a slot; a request of the same slot that still waits gets an empty answer.

        Raises:
            ReaderEndedError: The reader ended although the connection stands.
            TransportError: The connection was lost, or the reader does not answer.
        """
        if self._end is not None:
            raise self._end
        conversation = self._slots.setdefault(slot, Conversation())
        if conversation.waiting is not None and not conversation.waiting.done():
            conversation.waiting.set_result([])
        answer = conversation.waiting = asyncio.get_running_loop().create_future()
        message = conversation.message(slot, requests, wait, max_bytes, pace or {})
        # Known and told must not part: once begun, the request is sent whole, also when the caller goes.
        sending = asyncio.ensure_future(self._channel.write(json.dumps(message).encode("ascii") + b"\n"))
        try:
            await asyncio.shield(sending)
            return await asyncio.wait_for(answer, wait + ANSWER_GRACE)
        except asyncio.TimeoutError:
            self._finish(TransportError("the reader on the login node does not answer; it is started again"))
            raise self._end or TransportError("the reader ended") from None
        finally:
            sending.add_done_callback(_retrieve)
            answer.cancel()

    def expect_news(self, slot: int, paths: set[str]) -> None:
        """News of these files is likely soon: they are looked at often from the next question on."""
        self._slots.setdefault(slot, Conversation()).hot |= paths

    async def close(self) -> None:
        """End the reader."""
        self._finish(TransportError("the reader was closed"))
        self._listener.cancel()
        await asyncio.wait([self._listener])
        await self._channel.close()

    async def _listen(self) -> None:
        try:
            while data := await self._channel.read(READ_BYTES):
                for header, raw in self._far_side.feed(data):
                    self._answered(header, raw)
            stderr = await self._channel.close()
            why = self._far_side.silence(None, stderr)
            self._finish(ReaderEndedError(why, renewed=self._renewed))
        except TransportError as error:
            await self._channel.close()
            self._finish(error)
        except (ValueError, LookupError, TypeError) as error:
            await self._channel.close()
            self._finish(
                TransportError(f"the reader's answer makes no sense ({error!r}); it is started again")
            )

    def _answered(self, header: dict[str, Any], raw: bytes) -> None:
        if "bye" in header:
            self._renewed = True
            return
        conversation = self._slots[header["slot"]]
        waiting = conversation.waiting
        # An answer to a request that was replaced meanwhile is dropped: positions are ours.
        if header["seq"] == conversation.seq and waiting is not None and not waiting.done():
            waiting.set_result(conversation.deltas(header, raw, self._far_side.word))

    def _finish(self, error: TransportError) -> None:
        if self._end is None:
            self._end = error
        for conversation in self._slots.values():
            if conversation.waiting is not None and not conversation.waiting.done():
                conversation.waiting.set_exception(error)


def _retrieve(sending: asyncio.Future[None]) -> None:
    if not sending.cancelled():
        sending.exception()  # the reader's end is told by its own error
