# SPDX-License-Identifier: Apache-2.0
"""A server of S3's protocol (moto's) for pods and Covalent's server alike."""

from __future__ import annotations

import http.client
import re
import sys
from typing import TYPE_CHECKING
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from tests.rigs.daemons import Daemons, until
from tests.rigs.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

_NAME = "object-store"
# What its log has of a request, some of it coloured, such as: "PUT /bucket/key?uploadId=x HTTP/1.1" 200
_REQUEST = re.compile(r'"(?:\x1b\[\d+m)*([A-Z]+) (/[^ ?]*)[^ ]* HTTP/1\.[01](?:\x1b\[\d+m)*" (\d+)')


class ObjectStore:
    """One server at ``address``, with one bucket, ``bucket``; below ``folder`` is its log."""

    bucket = "tasks"

    def __init__(self, folder: Path, address: str) -> None:
        self.address = address
        self.port = free_port()
        self._log = folder / "log" / f"{_NAME}.out"
        self._log.parent.mkdir(parents=True)
        self._daemons = Daemons(folder)

    def start(self) -> ObjectStore:
        """Start it; returns when there is the bucket."""
        argv = [sys.executable, "-m", "moto.server", "-H", self.address, "-p", str(self.port)]
        self._daemons.start(_NAME, *argv)
        until(
            lambda: self._request("PUT", f"/{self.bucket}")[0] == 200, f"the store answers, see {self._log}"
        )
        return self

    def close(self) -> None:
        """End it."""
        self._daemons.stop(_NAME)

    def client_files(self) -> dict[str, str]:
        """Name → text of the files in ``~/.aws`` of whoever uses it."""
        return {
            "config": f"[default]\nregion = us-east-1\nendpoint_url = http://{self.address}:{self.port}\n",
            "credentials": "[default]\naws_access_key_id = tests\naws_secret_access_key = tests\n",
        }

    def keys(self) -> list[str]:
        """Names of the objects there."""
        status, body = self._request("GET", f"/{self.bucket}?list-type=2")
        assert status == 200, body
        return [str(one.text) for one in ET.fromstring(body).iter() if one.tag.endswith("}Key")]

    def asked_for(self, beginning: str) -> list[str]:
        """Names of all objects beginning so that were ever asked for."""
        found = {unquote(path) for _, path, _ in _REQUEST.findall(self._log.read_text())}
        start = f"/{self.bucket}/"
        return sorted(path.removeprefix(start) for path in found if path.startswith(start + beginning))

    def requests(self, key: str) -> list[str]:
        """Methods of the requests for an object that succeeded, in their order."""
        found = _REQUEST.findall(self._log.read_text())
        path = f"/{self.bucket}/{key}"
        return [method for method, asked, status in found if unquote(asked) == path and status[0] == "2"]

    def _request(self, method: str, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.address, self.port, timeout=30)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
