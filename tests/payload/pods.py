# SPDX-License-Identifier: Apache-2.0
"""A pod's container without the container: its command, its environment, its log and its last message."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field

from covalent_joblog_plugin.cluster import framing
from covalent_joblog_plugin.cluster.framing import Decoder, Frame, Lost, Text
from covalent_joblog_plugin.payload import bundle, pod_bundle
from tests.payload.calls import environment_for, packed

DEADLINE = 60


@dataclass
class Ended:
    """What a container left."""

    status: int
    log: bytes
    stderr: bytes
    message: str
    decoder: Decoder = field(default_factory=Decoder)
    events: list = field(default_factory=list)

    @property
    def found(self):
        return pod_bundle.parse_pod_verdict(self.message)

    @property
    def verdict(self):
        return self.found.verdict

    def text(self, stream):
        return b"".join(e.data for e in self.events if isinstance(e, Text) and e.stream == stream)

    @property
    def lost(self):
        return [event for event in self.events if isinstance(event, Lost)]

    @property
    def complete(self):
        return self.found.streams == dict(zip(("stdout", "stderr"), self.decoder.counted(), strict=True))

    @property
    def archive(self):
        if self.found.where == "inline":
            return pod_bundle.inline_result(self.found)
        frames = [(f.seq, f.n, f.payload) for f in self.events if isinstance(f, Frame)]
        return pod_bundle.frames_result(frames)

    @property
    def value(self):
        return bundle.load_result(self.archive, self.verdict).get_deserialized()


def payload_of(function, store=""):
    """What the server sends for a call, or for a plain function without arguments."""
    files = {"bundle": packed(function), **pod_bundle.sources(), "framing.py": framing.source()}
    return pod_bundle.payload(files, store)


def variables_of(payload, *, with_framing=True, given=None, **variables):
    """The container's variables, as Kubernetes makes them; ``given`` by the user."""
    return {
        **payload.environment(given or {}, framing=with_framing),
        **{variable: payload.secret[key] for variable, key in payload.secret_variables().items()},
        **variables,
    }


def started(
    folder,
    function,
    *,
    python=sys.executable,
    store="",
    with_framing=True,
    payload=None,
    before=(),
    given=None,
    **variables,
):
    """The running container; ``before`` stands before its command, ``variables`` in its environment.

    ``given`` is what the user gave as the executor's ``environment``.
    """
    folder.mkdir(exist_ok=True)
    payload = payload or payload_of(function, store)
    place = {"JOBLOG_TERMINATION_LOG": str(folder / "termination-log")}
    environment = variables_of(payload, with_framing=with_framing, given=given, **{**place, **variables})
    return subprocess.Popen(
        [*before, *pod_bundle.container_command([python])],
        cwd=folder,
        env=environment_for(folder, **environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ended(folder, process, began=b""):
    """Read its log, of which ``began`` was read already, to its end."""
    log, stderr = process.communicate(timeout=DEADLINE)
    message = folder / "termination-log"
    text = message.read_text() if message.exists() else ""
    done = Ended(process.returncode, began + log, stderr, text)
    if b"\x1c@" in done.log:  # else there is no framing
        assert max(map(len, done.log.split(b"\n"))) < 16_000
    for at in range(0, len(done.log), 50_000):
        # containerd drops the CR of CRLF; a chunk may end between the two.
        done.events += done.decoder.feed(_without_cr(done.log, at, at + 50_000))
    streams = pod_bundle.stream_counts(done.message)
    done.events += done.decoder.end((streams["stdout"][0], streams["stderr"][0]) if streams else None)
    return done


def _without_cr(log, begin, end):
    piece = re.sub(rb"\r\n", b"\n", log[begin:end])
    return piece[:-1] if piece.endswith(b"\r") and log[end : end + 1] == b"\n" else piece


def run(folder, function, **options):
    """Run a call in a container to its end."""
    return ended(folder, started(folder, function, **options))


def wait_for(process, text):
    """Read its log until ``text`` is there; what was read."""
    log = b""
    while text not in log:
        piece = process.stdout.read1(65_536)
        assert piece, log
        log += piece
    return log
