# SPDX-License-Identifier: Apache-2.0
"""The stored output of one node.

Bytes go in by ``write`` and are never rewritten: a cursor is good for ever. File work is done by one writer
thread, database work by a few others, and none of them is the event loop's or its default pool's, which
Covalent's synchronous executors may hold for hours.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import StoreError

from . import live
from .batch import write
from .channel import Channel, pieces
from .disk import Disk
from .index import Index
from .items import Append, SeamAt
from .layout import INDEX_FILE, STATE_FILE, STREAMS, make_folder, safe_name, stored_sizes
from .news import tell
from .nodes import job_handle, node_state, node_status, open_nodes
from .opening import open_node
from .outputs import RawOutput
from .sizes import recorder
from .state import INSTANCE, NodeState, read_state, write_state, writer
from .threads import in_database, in_writer
from .views import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .items import Reading
    from .outputs import TextOutput

__all__ = ["Append", "NodeOutput", "NodeState", "SeamAt", "job_handle", "node_state", "node_status", "write"]

log = logging.getLogger("covalent_joblog_plugin")

MAX_NODE_BYTES = 64 << 20
"""Where Covalent's asset of a stream ends: its client loads the whole of it."""
MIN_FREE = 256 << 20
"""Bytes of the disk left free: Covalent's own results need some."""

_INTERRUPT_PATIENCE = 0.03
_SETTLE_PATIENCE = 30.0


class NodeOutput:
    """The stored output of one node while this server writes it.

    Attributes:
        dispatch_id: The dispatch.
        node_id: The node.
        node_name: The electron's name, as in its row.
        folder: What lies beside the node's own stdout and stderr: the index, other outputs.
        state: Whether it is live, closed or interrupted.
        remembered: What is kept beside the output.
        reading: Tells how its sources are being read; None while they are not. For the event loop.
        given_up: Outputs that take nothing any more, and why.
    """

    def __init__(self, dispatch_id: str, node_id: int, node_name: str, folder: Path, min_free: int) -> None:
        """Use ``open``."""
        self.dispatch_id = dispatch_id
        self.node_id = node_id
        self.node_name = node_name
        self.folder = folder
        self.state = NodeState.LIVE
        self._min_free = min_free
        self._disk = Disk.of(folder)
        self._index = Index(folder / INDEX_FILE)
        self._channels: dict[str, Channel] = {}
        self._lock = threading.Lock()
        self._interrupting = False
        self._complained = False
        self._unmade: dict[str, StoreError] = {}
        self.given_up: dict[str, StoreError] = {}
        self.reading: Callable[[], Reading] | None = None
        self.remembered: dict[str, Any] = (read_state(folder / STATE_FILE) or {}).get("remembered", {})

    @classmethod
    async def open(
        cls, dispatch_id: str, node_id: int, *, max_node_bytes: int = MAX_NODE_BYTES, min_free: int = MIN_FREE
    ) -> NodeOutput:
        """Make the node's files, empty, and point its rows at them.

        Files that exist already (an earlier server wrote them) are continued.

        Args:
            dispatch_id: The dispatch.
            node_id: The node.
            max_node_bytes: Where Covalent's own asset of stdout and of stderr ends, in bytes.
            min_free: Bytes of the disk that are left free.

        Raises:
            StoreError: There is no such node, it is open already, or disk or database refuse.
        """
        return await in_database(open_node, cls, dispatch_id, node_id, max_node_bytes, min_free)

    async def close(self) -> None:
        """End the output: everything written, sizes in Covalent's rows, no longer live.

        It waits at most ``_SETTLE_PATIENCE`` seconds for a locked database; the sizes follow later.
        """
        await in_writer(self._finish)
        if self.state is NodeState.INTERRUPTED:
            return  # the server is going; the sizes were handed on
        settling = [
            asyncio.wrap_future(recorder().settle(row, length))
            for row, length in self.asset_lengths().values()
        ]
        _, late = await asyncio.wait(settling, timeout=_SETTLE_PATIENCE)
        if late:
            log.warning("the sizes of %s are not recorded yet: the database does not answer", self)

    def interrupt(self) -> None:
        """The server is stopping: mark every output; quick, and the event loop may call it.

        A write that is under way marks them itself when its piece is stored.
        """
        self._interrupting = True
        if self._lock.acquire(timeout=_INTERRUPT_PATIENCE):
            try:
                self._heed_interrupt()
            finally:
                self._lock.release()
        tell((self.dispatch_id, self.node_id))

    def sizes(self) -> dict[str, int]:
        """What its outputs are called, and how long they are in bytes; blocks on the disk.

        Raises:
            OSError: Our folder cannot be read.
        """
        with self._lock:
            known = {name: channel.output.length for name, channel in self._channels.items()}
            index = self._index.view()
        return {**dict.fromkeys(STREAMS, 0), **stored_sizes(self.folder, index), **known}

    def snapshot(self, file: str) -> Snapshot | None:
        """One output as it is now; None where there is none. Blocks while a piece is being written.

        Raises:
            OSError: It cannot be opened.
        """
        with self._lock:
            channel = self._channel(file, make=False)
            if channel is None:
                return None
            return Snapshot(self.state, channel.output.view(), self._index.view())

    @property
    def trouble(self) -> StoreError | None:
        """Why output is not stored at present; None while it is."""
        if self.state is not NodeState.LIVE:
            return StoreError(f"{self} is {self.state.value}: later output is not stored")
        known = [c.trouble for c in list(self._channels.values()) if c.trouble]
        return next(iter([*self.given_up.values(), *self._unmade.values(), *known]), None)

    async def remember(self, values: dict[str, Any]) -> None:
        """Keep ``values`` beside the output; failing is only logged, but for a TypeError: not JSON."""
        json.dumps(values)
        await in_writer(self._remember, values)

    def __str__(self) -> str:
        return f"node {self.node_id} of {self.dispatch_id}"

    def _channel(self, name: str, *, make: bool) -> Channel | None:
        """The output called ``name``, perhaps of an earlier server; the lock is held. Raises OSError."""
        if name not in self._channels:
            path = self.folder / "files" / safe_name(name)
            if not make and not path.exists():
                return None
            make_folder(path.parent)
            self.add(name, RawOutput(path))
        return self._channels[name]

    def add(self, name: str, output: RawOutput | TextOutput, row: int | None = None) -> None:
        """Take in an output; only ``open`` and the first use of one do."""
        self._channels[name] = Channel(name, output, row, self._index, self._disk, self._min_free)

    def show(self) -> None:
        """Have it served at its committed length."""
        for channel in self._channels.values():
            live.add(channel.output.files)

    def asset_lengths(self) -> dict[str, tuple[int, int]]:
        """For stdout and stderr, the asset's row in Covalent's database and its file's length (bytes)."""
        return {
            channel.name: (channel.row, channel.output.files[0].length)
            for channel in self._channels.values()
            if channel.row is not None
        }

    def take(self, item: Append | SeamAt) -> int:
        """Store one item of a batch, in the writer's thread; how many bytes were taken."""
        taken = 0
        for piece in pieces(item.data) if isinstance(item, Append) else [b""]:
            with self._lock:
                channel = self._writable(item.file)
                if channel is None:
                    break
                if isinstance(item, SeamAt):
                    channel.seam(item.seam)
                elif not channel.store(piece, item):
                    break
                taken += len(piece)
                channel.note()
        return taken

    def flush(self) -> None:
        """The end of a batch, in the writer's thread."""
        with self._lock:
            self._heed_interrupt()
            self._index.flush()
        trouble = self.trouble
        if trouble is not None and not self._complained:
            log.warning("output of %s is not stored: %s", self, trouble)
        self._complained = trouble is not None
        tell((self.dispatch_id, self.node_id))

    def _writable(self, name: str) -> Channel | None:
        """The output to write to, made if it is new; None, and why in ``trouble``, if it cannot be."""
        self._heed_interrupt()
        if self.state is not NodeState.LIVE or name in self.given_up:
            return None
        try:
            channel = self._channel(name, make=True)
        except OSError as error:
            self._unmade[name] = StoreError(f"{name!r} of {self} cannot be made: {error}")
            return None
        self._unmade.pop(name, None)
        return channel

    def _heed_interrupt(self) -> None:
        if not self._interrupting or self.state is not NodeState.LIVE:
            return
        for channel in self._channels.values():
            channel.interrupted("the server stopped while the job wrote; later output is not here")
            channel.note()
        self._index.flush()
        self._end(NodeState.INTERRUPTED)

    def _finish(self) -> None:
        with self._lock:
            self._heed_interrupt()
            if self.state is NodeState.LIVE:
                for channel in self._channels.values():
                    channel.end()
                if not self._index.flush():
                    log.warning("the index of %s lacks its last lines: the disk refused them", self)
                self._end(NodeState.CLOSED)
        for channel in self._channels.values():
            live.remove(channel.output.files)
        open_nodes.pop((self.dispatch_id, self.node_id), None)
        tell((self.dispatch_id, self.node_id))

    def _end(self, state: NodeState) -> None:
        self.state = state
        # Without room for it the file goes on saying "live"; that no server writes it is known without it.
        with suppress(OSError):
            self.save_state()

    def save_state(self) -> None:
        """Write down which server instance writes this node and whether it has ended; raises OSError."""
        state = {"instance": INSTANCE, "state": self.state.value, "remembered": self.remembered}
        write_state(self.folder / STATE_FILE, state | {"writer": writer()})

    def _remember(self, values: dict[str, Any]) -> None:
        with self._lock:
            self.remembered = self.remembered | values
            try:
                self.save_state()
            except OSError as error:
                log.warning("what is to be remembered of %s cannot be written: %s", self, error)
        tell((self.dispatch_id, self.node_id))
