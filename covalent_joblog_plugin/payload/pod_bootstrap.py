# SPDX-License-Identifier: Apache-2.0
"""Text of the container's command: unpacks the payload and becomes ``pod_runner``."""

import base64
import hashlib
import io
import json
import os
import sys
import tempfile
import zipfile
from typing import NoReturn


def fetch(kind: str) -> bytes:
    """The payload: from the environment (a Secret) or from the store."""
    text = ""
    number = 0
    while f"JOBLOG_PAYLOAD_{number}" in os.environ:
        text += os.environ.pop(f"JOBLOG_PAYLOAD_{number}")
        number += 1
    if kind == "bundle":
        return base64.b64decode(text)
    import fsspec

    with fsspec.open(os.environ["JOBLOG_STORE"] + ".payload", "rb") as file:
        data: bytes = file.read()
    return data


def unpack(data: bytes) -> str:
    """A new folder with its files, mode 0700; the root of a container may be read-only."""
    if hashlib.sha256(data).hexdigest() != os.environ.pop("JOBLOG_PAYLOAD_SHA256", ""):
        give_up("bundle", f"{len(data)} bytes came, and they are not those that were sent")
    for place in (None, "/dev/shm"):  # noqa: S108 - mkdtemp makes a folder of its own
        try:
            folder = tempfile.mkdtemp("", "joblog-", place)
            zipfile.ZipFile(io.BytesIO(data)).extractall(folder)
        except OSError as error:
            problem = str(error)
        else:
            return folder
    return give_up("bundle", problem)


def give_up(kind: str, message: str) -> NoReturn:
    """Say why nothing was run."""
    facts = {"kind": kind, "host": os.uname().nodename, "message": message[:600]}
    try:
        with open(os.environ.get("JOBLOG_TERMINATION_LOG") or "/dev/termination-log", "w") as file:
            json.dump(facts, file)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
    sys.exit(f"the function cannot be started: {message}")


def main() -> None:
    """Everything."""
    kind = "bundle" if "JOBLOG_PAYLOAD_0" in os.environ else "store"
    try:
        data = fetch(kind)
    except Exception as error:  # noqa: BLE001 - a driver may raise anything
        give_up(kind, f"{type(error).__name__}: {error}")
    folder = unpack(data)
    os.execv(sys.executable, [sys.executable, "-u", os.path.join(folder, "pod_runner.py"), folder])  # noqa: S606


main()
