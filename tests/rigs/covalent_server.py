# SPDX-License-Identifier: Apache-2.0
"""A real Covalent server of our own: own home, own port, own database; any other server is left alone."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import toml

from tests.rigs.covalent_client import CovalentClient
from tests.rigs.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

_EXECUTORS = Path(__file__).parent / "executors"
SUBLATTICES_RUN = hasattr(tarfile, "tar_filter")
"""Covalent unpacks a sublattice with an argument that Python has since 3.10.12, 3.11.4 and 3.12."""
TERMINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED", "POSTPROCESSING_FAILED"})


def eventually(condition: Any, timeout: float, what: str, interval: float = 0.05) -> Any:
    """The first true value of ``condition()``; AssertionError naming ``what`` after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(interval)
    raise AssertionError(f"{what}: not within {timeout} s")


class CovalentServer:
    """A server below ``root``; everything it writes stays there.

    Modules put into ``executor_dir`` before ``start()`` become executors named like their files. Covalent
    reads its configuration when it is imported, so clients run as processes of their own: ``client()``.
    A test process whose first import of covalent comes after ``COVALENT_CONFIG_DIR=server.config_dir`` was
    set works on this server's database and results.
    """

    def __init__(self, root: Path, database: Path | None = None) -> None:
        """Lay out ``root``; ``database`` is a migrated one to start from, which saves seconds."""
        self.root = root
        self.port = free_port()
        self.url = f"http://localhost:{self.port}"
        self.config_dir = root / "config"
        self.executor_dir = root / "executors"
        self.results_dir = root / "data"
        self.database = root / "dispatcher_db.sqlite"
        self.log = root / "cache" / "covalent_ui.log"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("COVALENT_", "XDG_"))}
        self.env |= {
            "HOME": str(root / "home"),
            "COVALENT_CONFIG_DIR": str(self.config_dir),
            "PYTHONUNBUFFERED": "1",
        }
        self.pid = 0
        self._shell: subprocess.Popen[bytes] | None = None
        self._client = CovalentClient(self.env, root, root / "client.log")
        self._write_config()
        if database is not None:
            shutil.copy(database, self.database)

    def _write_config(self) -> None:
        cache = self.root / "cache"
        for folder in (self.config_dir, self.executor_dir, self.results_dir, cache, self.root / "home"):
            folder.mkdir(parents=True)
        config = {
            "sdk": {
                "config_file": str(self.config_dir / "covalent.conf"),
                "log_dir": str(cache),
                "executor_dir": str(self.executor_dir),
                "dispatch_cache_dir": str(cache / "dispatches"),
                "results_dir": str(cache / "results"),
                "no_cluster": "true",
            },
            "dispatcher": {
                "port": self.port,
                "cache_dir": str(cache),
                "results_dir": str(self.results_dir),
                "log_dir": str(cache),
                "db_path": str(self.database),
                "heartbeat_file": str(cache / "heartbeat"),
            },
            "dask": {"cache_dir": str(cache), "log_dir": str(cache)},
            "workflow_data": {"storage_type": "local", "base_dir": str(self.root / "workflow_data")},
            "user_interface": {"port": self.port, "log_dir": str(cache)},
        }
        (self.config_dir / "covalent.conf").write_text(toml.dumps(config))

    def add_executors(self) -> None:
        """Install the test executors; before ``start()``."""
        for module in _EXECUTORS.glob("*.py"):
            shutil.copy(module, self.executor_dir)

    def migrate(self) -> None:
        """Make the database, as ``covalent db migrate`` does."""
        with self._covalent("db", "migrate"):
            pass

    def start(self) -> CovalentServer:
        """Start as ``covalent start --no-cluster`` does, and wait until it answers.

        The same shell line, because ``covalent stop`` signals the first child of the process in the
        pid file; but our child, so that its end can be awaited.
        """
        if not self.database.exists():
            self.migrate()
        folder = Path(sys.executable).parent
        where = subprocess.run(
            [sys.executable, "-c", "import importlib.util as u; print(u.find_spec('covalent_ui').origin)"],
            check=True,
            capture_output=True,
            text=True,
        )
        line = f"{sys.executable} app.py --port {self.port} --no-cluster >> {self.log} 2>&1"
        env = {**self.env, "PATH": f"{folder}:{self.env['PATH']}"}
        self._shell = subprocess.Popen(line, shell=True, cwd=Path(where.stdout.strip()).parent, env=env)
        (self.root / "cache" / "ui.pid").write_text(str(self._shell.pid))
        eventually(self._answers, 60, f"Covalent at {self.url}, see {self.log}")
        children = Path(f"/proc/{self._shell.pid}/task/{self._shell.pid}/children").read_text().split()
        self.pid = int(children[0])
        return self

    def _answers(self) -> bool:
        assert self._shell is not None
        assert self._shell.poll() is None, f"Covalent ended while starting: {self.log.read_text()[-3000:]}"
        with contextlib.suppress(OSError):
            self.get("/api/v1/dispatches/list")
            return True
        return False

    @contextlib.contextmanager
    def _covalent(self, *arguments: str) -> Iterator[None]:
        """The ``covalent`` command, running while the body runs."""
        command = [sys.executable, "-c", "from covalent_dispatcher._cli.cli import cli; cli()", *arguments]
        output = self.root / "cache" / "command.log"
        with output.open("wb") as file:
            process = subprocess.Popen(command, env=self.env, stdout=file, stderr=file)
        try:
            yield
            assert process.wait(120) == 0, output.read_text()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def stop(self) -> None:
        """``covalent stop``: SIGINT, and all children killed."""
        # It waits until the server's shell is gone, and that is our child to collect.
        with self._covalent("stop"):
            self._gone()

    def term(self) -> None:
        """SIGTERM to the server."""
        os.kill(self.pid, signal.SIGTERM)
        self._gone()

    def kill(self) -> None:
        """SIGKILL to the server."""
        os.kill(self.pid, signal.SIGKILL)
        self._gone()

    def _gone(self) -> None:
        assert self._shell is not None
        self._shell.wait(60)
        self._shell = None
        self.pid = 0

    def close(self) -> None:
        """End the server if it runs, what is left of it, and the client's process."""
        self._client.close()
        if self._shell is not None:
            with contextlib.suppress(ProcessLookupError):
                # A server that never answered has no pid here, and 0 would be ourselves and all our children.
                os.kill(self.pid or self._shell.pid, signal.SIGINT)
            try:
                self._gone()
            except subprocess.TimeoutExpired:
                self.kill()
        for pid in self._left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _left(self) -> list[int]:
        """The processes of Covalent's own local executor: only ``covalent stop`` ends them as well."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended
                if f"app.py\0--port\0{self.port}\0".encode() in (process / "cmdline").read_bytes():
                    found.append(int(process.name))
        return found

    def client(self, script: str, /, timeout: float = 180, **values: Any) -> Any:
        """Run ``script`` in a client's process and return what it left in ``answer`` (JSON).

        ``values`` (JSON) are global names in it. The process is kept for the next script.
        """
        return self._client.run(script, values, timeout)

    def get(self, path: str, headers: dict[str, str] | None = None, method: str = "GET") -> Any:
        """The response (``.status``, ``.headers``, ``.body``) to one request, whatever its status."""
        request = urllib.request.Request(self.url + path, headers=headers or {}, method=method)
        try:
            response: Any = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            response.body = response.read()
        return response

    def status(self, dispatch_id: str) -> str:
        """The dispatch's status."""
        body = self.get(f"/api/v2/dispatches?dispatch_id={dispatch_id}&status_only=true").body
        return str(json.loads(body)["dispatches"][0]["status"])

    def finished(self, dispatch_id: str, timeout: float = 60) -> str:
        """Wait for the dispatch's end; its status."""
        eventually(lambda: self.status(dispatch_id) in TERMINAL, timeout, f"end of {dispatch_id}")
        return self.status(dispatch_id)

    def completed(self, dispatch_id: str, timeout: float = 60) -> None:
        """Wait for the dispatch's end; AssertionError with its nodes' errors unless it is COMPLETED."""
        status = self.finished(dispatch_id, timeout)
        errors = [path.read_text() for path in (self.results_dir / dispatch_id).glob("node_*/error.log")]
        assert status == "COMPLETED", (status, errors)

    def stdout(self, dispatch_id: str, node_id: int, stream: str = "stdout") -> bytes:
        """What ``/api/v0/files`` serves for a node's own stream."""
        response = self.get(f"/api/v0/files/{dispatch_id}/node_{node_id}/{stream}.log")
        assert response.status == 200, response.body
        return bytes(response.body)
