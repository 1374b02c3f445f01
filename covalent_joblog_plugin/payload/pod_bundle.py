# SPDX-License-Identifier: Apache-2.0
"""The server's side of a call in a pod: what is sent there, and what the pod's termination message says.

A small payload goes as text in a Secret, whose keys become variables of the container; a larger one by the
store. The container's command unpacks it (``pod_bootstrap``) and becomes ``pod_runner``.
"""

from __future__ import annotations

import base64
import binascii
import functools
import io
import json
import re
import zipfile
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import PayloadError

from . import pod_delivery
from . import verdict as verdicts
from .bundle import EPOCH
from .verdict import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from covalent_joblog_plugin.model.records import StreamCounts

    from .verdict import Verdict

CHUNK_BYTES = 100 * 1024
"""Text in one key: Linux takes variables of at most 128 KiB."""
SECRET_BYTES = 960 * 1024
"""Text in a Secret: Kubernetes takes 1 MiB, and Linux 2 MiB of arguments and environment."""
RANK_FROM = "JOB_COMPLETION_INDEX,RANK"
"""Variables that tell the rank of a TrainJob's pod and of a PyTorchJob's."""

_WHERE = ("PYTHONHOME", "PYTHONPATH")
"""Where Python and packages such as fsspec's drivers are: ours may need them too."""
_FIRST_CHUNK = "joblog-payload-0"
_SHA256 = re.compile("[0-9a-f]{64}")
_FILES = ("runner.py", "pod_runner.py", "pod_delivery.py")
_KEYS = {"payload-sha256": "JOBLOG_PAYLOAD_SHA256", "store": "JOBLOG_STORE"}


@functools.cache
def sources() -> dict[str, bytes]:
    """Our files that a pod needs beside the bundle and ``framing.py``."""
    return {name: Path(__file__).with_name(name).read_bytes() for name in _FILES}


def container_command(python: Sequence[str]) -> list[str]:
    """The container's command; ``python`` is what starts Python there."""
    return [*python, "-u", "-c", Path(__file__).with_name("pod_bootstrap.py").read_text("utf-8")]


@dataclass(frozen=True, slots=True)
class Payload:
    """What is sent into the pods.

    Attributes:
        secret: Key → text of the Secret.
        stored: What is to be put into the store; empty where the Secret holds all.
        stored_at: The URL for it.
    """

    secret: Mapping[str, str] = field(repr=False)
    stored: bytes = field(default=b"", repr=False)
    stored_at: str = ""

    def environment(self, given: Mapping[str, str], *, framing: bool) -> dict[str, str]:
        """Variables of the container that are no secret.

        Args:
            given: Those of the function. What steers Python itself would make our own programs write into
                the log, so only the function's Python gets it.
            framing: Whether the log is framed.
        """
        steering = {
            name: value for name, value in given.items() if name.startswith("PYTHON") and name not in _WHERE
        }
        plain = {name: value for name, value in given.items() if name not in steering}
        own = {"JOBLOG_FRAMING": "1" if framing else "0", "JOBLOG_RANK_FROM": RANK_FROM}
        return {**plain, **own, "JOBLOG_FUNCTION_ENVIRONMENT": json.dumps(steering)}

    def secret_variables(self) -> dict[str, str]:
        """Variables of the container → keys of the Secret."""
        return {_KEYS.get(key, key.upper().replace("-", "_")): key for key in self.secret}


def payload(files: Mapping[str, bytes], store: str = "") -> Payload:
    """Pack what a pod needs; the same files give the same payload. It compresses: keep it off an event loop.

    Args:
        files: Name → contents: ``bundle``, ``framing.py`` and ``sources()``.
        store: Beginning of an fsspec URL that server and pods reach, of this task alone; empty for none.

    Raises:
        PayloadError: It is too large for a Secret, and there is no store.
    """
    data = _packed(files)
    texts = {"payload-sha256": sha256_of(data), **({"store": store} if store else {})}
    text = base64.b64encode(data).decode("ascii")
    if len(text) <= SECRET_BYTES:
        chunks = range(0, len(text), CHUNK_BYTES)
        return Payload(
            {**texts, **{f"joblog-payload-{n}": text[at : at + CHUNK_BYTES] for n, at in enumerate(chunks)}}
        )
    if not store:
        raise PayloadError(
            f"function and arguments have {sum(map(len, files.values()))} bytes, {len(text)} as compressed "
            f"text, and a Secret takes {SECRET_BYTES}: set store= to a folder that Covalent's server and the "
            "pods reach, or pass large data by a path"
        )
    return Payload(texts, data, _payload_url(store))


def _payload_url(store: str) -> str:
    return f"{store}.payload"


def _packed(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class PodVerdict:
    """What a termination message says.

    Attributes:
        verdict: How the call went; of kind ``died`` where the runner left nothing.
        status: Of the process, -n where signal n ended it; None where it was not started.
        streams: What was written; None where nobody counted.
        where: Where the result is: ``inline``, ``store``, ``frames``, ``file``, ``nowhere``, or empty.
        place: The path of a ``file``.
        problem: Why it is not in the store.
        data: The ``inline`` result, compressed, as base64.
    """

    verdict: Verdict
    status: int | None = None
    streams: StreamCounts | None = None
    where: str = ""
    place: str = ""
    problem: str = ""
    data: str = ""


def parse_pod_verdict(message: str) -> PodVerdict:
    """Read a termination message.

    Raises:
        PayloadError: It is not our runner's.
    """
    verdict = verdicts.parse(message.encode("utf-8", "surrogateescape"))
    facts: dict[str, Any] = json.loads(message)
    texts = {name: facts.get(name, "") for name in ("where", "place", "problem", "data")}
    status = facts.get("status")
    if not all(isinstance(text, str) for text in texts.values()) or not isinstance(status, int | None):
        raise _foreign(message)
    return PodVerdict(verdict, status, _streams(facts.get("streams"), message), **texts)


def _streams(found: Any, message: str) -> StreamCounts | None:
    if found is None:
        return None
    try:
        counts = {name: (size, digest) for name, (size, digest) in found.items()}
    except (AttributeError, TypeError, ValueError):
        raise _foreign(message) from None
    types = [(type(size), type(digest)) for size, digest in counts.values()]
    if set(counts) != {"stdout", "stderr"} or types != [(int, str)] * 2:
        raise _foreign(message)
    return counts


def _foreign(message: str) -> PayloadError:
    return PayloadError(
        f"the pod's termination message is not the runner's: {message[:80]!r}; run the node again"
    )


def stream_counts(message: str) -> StreamCounts | None:
    """What a termination message says about the streams; None where it does not."""
    try:
        return parse_pod_verdict(message).streams
    except PayloadError:
        return None


def inline_result(found: PodVerdict) -> bytes:
    """The result a termination message holds, still to be compared with the verdict (``load_result``).

    Raises:
        PayloadError: It is damaged.
    """
    try:
        return _expanded(base64.b64decode(found.data, validate=True))
    except binascii.Error as error:
        raise _damaged(str(error)) from error


def stored_result(secret: Mapping[str, str], found: PodVerdict) -> str:
    """URL of a result in the store; ``secret`` is the job's ``Payload.secret``.

    It is made here, and not told by the pod, which cannot have the server read, or delete, what it likes.

    Raises:
        PayloadError: The verdict names no result.
    """
    if not _SHA256.fullmatch(found.verdict.sha256):  # it may hold a ``..``
        raise PayloadError(
            f"the verdict names a result {found.verdict.sha256[:80]!r}, which no runner of ours writes: "
            "something else in the pod wrote its termination message; run the node again"
        )
    return pod_delivery.result_url(secret["store"], found.verdict.sha256)


def stored_objects(secret: Mapping[str, str], messages: Iterable[str]) -> list[str]:
    """URLs of what a job has put into the store; none without one.

    Args:
        secret: The job's ``Payload.secret``.
        messages: Termination messages of all of rank 0's containers; others than our runner's are left out.
    """
    if "store" not in secret:
        return []
    found = [] if _FIRST_CHUNK in secret else [_payload_url(secret["store"])]
    for message in messages:
        with suppress(PayloadError):
            told = parse_pod_verdict(message)
            if told.where == "store":
                found.append(stored_result(secret, told))
    return list(dict.fromkeys(found))


def frames_result(frames: Iterable[tuple[int, int, bytes]]) -> bytes | None:
    """The result that came in frames (number from 1, how many, part), or None where some are missing.

    It is still to be compared with the verdict (``load_result``).

    Raises:
        PayloadError: It is damaged.
    """
    found = {(number, count): part for number, count, part in frames}
    counts = {count for _, count in found}
    if len(counts) != 1 or len(found) != counts.pop():
        return None
    return _expanded(b"".join(part for _, part in sorted(found.items())))


def _expanded(data: bytes) -> bytes:
    expander = zlib.decompressobj()
    try:
        return expander.decompress(data, pod_delivery.ARCHIVE_BYTES)
    except zlib.error as error:
        raise _damaged(str(error)) from error


def _damaged(why: str) -> PayloadError:
    return PayloadError(f"the result came damaged out of the pod: {why}; run the node again")
