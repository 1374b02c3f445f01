# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that cuts connections in the middle of what they carry."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class CuttingProxy:
    """Passes bytes to ``target`` on loopback; ``cut_after(n)`` says how many more bytes from it pass.

    The n-th connection is cut, in both directions, after ``cut_after(n)`` bytes came from the target; None
    lets it live.
    """

    def __init__(self, target: int, cut_after: Callable[[int], int | None]) -> None:
        self._target = target
        self._cut_after = cut_after
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        number = 0
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                limit = self._cut_after(number)
                number += 1
                threading.Thread(target=self._pump, args=(near, far, None), daemon=True).start()
                threading.Thread(target=self._pump, args=(far, near, limit), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, limit: int | None) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                rest = len(data) if limit is None else limit - passed
                sink.sendall(data[:rest])
                passed += len(data)
                if len(data) > rest:
                    self.cuts += 1
                    break
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        """Take no more connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
