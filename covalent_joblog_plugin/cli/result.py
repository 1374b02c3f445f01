# SPDX-License-Identifier: Apache-2.0
"""``joblog result``: a node's value, from Covalent's results folder or else from the cluster.

A value is a pickle, and unpickling runs whatever its writer put into it. Nothing here does that unless it is
asked for, and then in the process of who asked.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import platform
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from covalent_joblog_plugin.model.errors import BadSelection, PayloadError

from . import choosing, console, direct

if TYPE_CHECKING:
    from covalent_joblog_plugin.store.folders import StoredJob

SHOWN = 200
"""Characters shown of what a value says of itself."""


@click.command()
@choosing.dispatch_argument
@choosing.node_argument
@click.option(
    "--save",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the pickle into this file, which must not exist yet.",
)
@click.option(
    "--unpickle",
    is_flag=True,
    help="Unpickle it here and print it: this runs what the job put into it.",
)
def result(dispatch: str | None, node: int | str | None, *, save: Path | None, unpickle: bool) -> None:
    """Show what a node returned, and save it.

    Covalent's results folder is read, no server is needed. What Covalent has not got is fetched from the
    cluster when the job has ended, with its size and SHA-256 verified.
    """
    if save is not None and save.exists():
        raise BadSelection("save", f"{save} exists; give the name of a new file")
    job = direct.one_job(dispatch, node)
    value, source = asyncio.run(_value(job))
    pickle = _pickle(value, job)
    for line in _described(job, value, pickle, source):
        console.say(line)
    if save is not None:
        _save(save, pickle)
        console.event(f"saved in {save}; cloudpickle.load() reads it, and runs what is in it")
    if unpickle:
        for line in _unpickled(value).split("\n"):
            console.say(line)


async def _value(job: StoredJob) -> tuple[Any, str]:
    """A TransportableObject, and where it comes from; raises as ``OutputReader.result`` does."""
    from covalent._workflow.transportable_object import TransportableObject

    if stored := _stored(job.result_file):
        try:
            return TransportableObject.deserialize(stored), f"Covalent has it: {job.result_file}"
        except ValueError as error:
            raise PayloadError(
                f"{job.result_file} is damaged: {error}; a server may have been killed while it wrote; move "
                "it away, and what the cluster has is fetched"
            ) from error
    async with direct.opened(job) as reader:
        console.event(f"Covalent has no result of {job}: asking its cluster, until the job has ended")
        return await reader.result(), "from the cluster, size and SHA-256 as the job recorded them"


def _stored(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise PayloadError(f"{path} cannot be read: {error}; run this as Covalent's server's user") from error


def _pickle(value: Any, job: StoredJob) -> bytes:
    """The bytes to unpickle; what was cut off does not pass.

    Raises:
        PayloadError: They are no pickle.
    """
    try:
        pickle = base64.b64decode(value.get_serialized(), validate=True)
    except binascii.Error as error:
        raise PayloadError(f"the result of {job} is damaged: {error}; run the node again") from error
    # Every pickle ends with its opcode STOP.
    if not pickle.endswith(b"."):
        raise PayloadError(f"the result of {job} is cut off after {len(pickle)} bytes; run the node again")
    return pickle


def _described(job: StoredJob, value: Any, pickle: bytes, source: str) -> list[str]:
    text = repr(str(value.object_string)[: SHOWN + 1])
    return [
        f"{job}: {source}",
        f"pickle  {len(pickle)} bytes, sha256 {sha256(pickle).hexdigest()}",
        f"python  {value.python_version}",
        f"says    {text[:SHOWN] + '…' if len(text) > SHOWN + 2 else text}",
    ]


def _save(path: Path, pickle: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(pickle)
    except FileExistsError as error:
        raise BadSelection("save", f"{path} exists; give the name of a new file") from error
    except OSError as error:
        raise BadSelection("save", f"{path} cannot be written: {error}") from error


def _unpickled(value: Any) -> str:
    """``repr`` of the value.

    Raises:
        PayloadError: It cannot be unpickled here.
    """
    console.event("unpickling it here: this runs what the job put into it")
    try:
        return repr(value.get_deserialized())
    except Exception as error:
        # Any code may run there, and raise anything.
        here, there = platform.python_version(), value.python_version
        raise PayloadError(
            f"it cannot be unpickled here, by Python {here} ({type(error).__name__}: {error}); it was "
            f"pickled by Python {there}: --save it, and load it where what it needs is installed"
        ) from error
