# SPDX-License-Identifier: Apache-2.0
"""Function and arguments in, result out, all as bytes: nothing of the user's is unpickled here.

Covalent hands an executor ``partial(wrapper_fn, function, call_before, call_after)`` and arguments, all of
them ``TransportableObject``: a JSON header and base64 of a pickle. The bundle is a zip of those pickles with
a manifest, the runner's package ``job`` (there ``joblog_job``) and our own cloudpickle (in ``lib``).
"""

from __future__ import annotations

import base64
import binascii
import functools
import io
import json
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
from covalent._workflow.transportable_object import TransportableObject

from covalent_joblog_plugin.model.errors import PayloadError

from .verdict import Verdict, sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

COLLECTION_FUNCTIONS = ("_auto_list_node", "_auto_dict_node")
"""Names of the functions Covalent makes for lists and dicts of electrons."""

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The one date in a bundle, so that the same call gives the same bytes."""


@dataclass(frozen=True, slots=True)
class Part:
    """One pickle as Covalent holds it.

    Attributes:
        text: Base64 of the pickle.
        name: ``__name__`` of the pickled object, "" where it has none.
        python: Version of the Python that pickled it, such as ``3.11.7``.
    """

    text: str
    name: str
    python: str

    def pickle(self) -> bytes:
        """The pickle itself.

        Raises:
            PayloadError: It is not base64.
        """
        try:
            return base64.b64decode(self.text, validate=True)
        except binascii.Error as error:
            raise PayloadError(
                f"the pickle of {self.name or 'a value'} is damaged: {error}; dispatch it again"
            ) from error


@dataclass(frozen=True, slots=True)
class Hook:
    """A dependency: a function Covalent wants called before or after the electron's.

    Attributes:
        function: What to call.
        args: Pickle of the list of arguments.
        kwargs: Pickle of the dict of keyword arguments.
        retval_keyword: The electron's keyword that receives the value; "" for none.
    """

    function: Part
    args: Part
    kwargs: Part
    retval_keyword: str


@dataclass(frozen=True, slots=True)
class Call:
    """What is to be run.

    Attributes:
        function: The electron's function.
        args: Its arguments.
        kwargs: Its keyword arguments.
        before: Dependencies called before it.
        after: Dependencies called after it.
    """

    function: Part
    args: tuple[Part, ...]
    kwargs: Mapping[str, Part]
    before: tuple[Hook, ...] = ()
    after: tuple[Hook, ...] = ()

    @property
    def name(self) -> str:
        """The function's name; "" where it has none."""
        return self.function.name

    @property
    def python_version(self) -> str:
        """Version of the client's Python; the job needs the same major and minor."""
        return self.function.python

    @property
    def is_helper_candidate(self) -> bool:
        """Whether Covalent may have made this function of a list, dict, subscript or attribute of electrons.

        An electron of a user's can be called ``_auto_list_node`` as well: for these names look at the node's
        name, too (``:electron_list:``, ``:electron_dict:``). No function of a user's begins with a colon.
        """
        return self.name.startswith(":") or self.name in COLLECTION_FUNCTIONS

    def without_hooks(self) -> Call:
        """The same call without its dependencies.

        A subscript of an electron inherits the electron's: what prepares the cluster for a training has no
        business on the machine that only picks an item of its result.
        """
        return replace(self, before=(), after=())


def take_apart(function: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Call:
    """Take apart what Covalent gives to ``run()``.

    Raises:
        PayloadError: It is not what Covalent 0.240 gives.
    """
    bound: tuple[Any, ...] = getattr(function, "args", ())
    if getattr(getattr(function, "func", None), "__name__", "") != "wrapper_fn" or len(bound) != 3:
        raise PayloadError(
            f"run() was given {function!r} instead of the wrapped function of Covalent 0.240; "
            "leave the call of run() to Covalent, and check its version"
        )
    return Call(
        function=_part(bound[0]),
        args=tuple(_part(arg) for arg in args),
        kwargs={key: _part(value) for key, value in kwargs.items()},
        before=tuple(_hook(*parts) for parts in bound[1]),
        after=tuple(_hook(*parts) for parts in bound[2]),
    )


def _part(value: Any) -> Part:
    if not isinstance(value, TransportableObject):
        raise PayloadError(
            f"a {type(value).__name__} came where Covalent 0.240 gives a TransportableObject; "
            "leave the call of run() to Covalent, and check its version"
        )
    name = value.attrs.get("name")
    return Part(value.get_serialized(), name if isinstance(name, str) else "", value.python_version)


def _hook(function: Any, args: Any, kwargs: Any, retval_keyword: str | None) -> Hook:
    return Hook(_part(function), _part(args), _part(kwargs), retval_keyword or "")


def pack(call: Call, *, dispatch_id: str, node_id: int) -> bytes:
    """The bundle; the same call gives the same bytes. It copies all arguments: keep it off an event loop.

    Raises:
        PayloadError: A pickle is damaged.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        manifest = {
            "call_after": [_add_hook(archive, f"after/{n}", hook) for n, hook in enumerate(call.after)],
            "call_before": [_add_hook(archive, f"before/{n}", hook) for n, hook in enumerate(call.before)],
            "args": [_add(archive, f"args/{n}", part) for n, part in enumerate(call.args)],
            # Keywords may be any text, names of files in a zip may not.
            "kwargs": [
                (key, _add(archive, f"kwargs/{n}", part)) for n, (key, part) in enumerate(call.kwargs.items())
            ],
            "function": _add(archive, "function", call.function),
            "cloudpickle": cloudpickle.__version__,
            "dispatch_id": dispatch_id,
            "node_id": node_id,
            "python": call.python_version,
        }
        _write(archive, "manifest.json", json.dumps(manifest, sort_keys=True).encode("ascii"))
        for name, source in _modules():
            _write(archive, name, source, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, file: str, part: Part) -> dict[str, str]:
    _write(archive, file, part.pickle())
    return {"file": file, "name": part.name, "python": part.python}


def _add_hook(archive: zipfile.ZipFile, folder: str, hook: Hook) -> dict[str, Any]:
    return {
        "function": _add(archive, f"{folder}/function", hook.function),
        "args": _add(archive, f"{folder}/args", hook.args),
        "kwargs": _add(archive, f"{folder}/kwargs", hook.kwargs),
        "retval_keyword": hook.retval_keyword,
    }


def _write(archive: zipfile.ZipFile, name: str, data: bytes, compression: int = zipfile.ZIP_STORED) -> None:
    archive.writestr(zipfile.ZipInfo(name, EPOCH), data, compress_type=compression)


@functools.cache
def _modules() -> tuple[tuple[str, bytes], ...]:
    """The Python files of a bundle: name in it, and source."""
    packages = {
        "joblog_job": Path(__file__).with_name("job"),
        "lib/cloudpickle": Path(cloudpickle.__file__).parent,
    }
    return tuple(
        (f"{target}/{path.name}", path.read_bytes())
        for target, folder in packages.items()
        for path in sorted(folder.glob("*.py"))
    )


@functools.cache
def runner_source() -> bytes:
    """The file that runs a bundle: ``python3 -u runner.py BUNDLE FOLDER``."""
    return Path(__file__).with_name("runner.py").read_bytes()


def load_result(archive: bytes, verdict: Verdict) -> TransportableObject:
    """The result as Covalent wants it, not unpickled.

    Args:
        archive: All bytes of the file ``result``.
        verdict: The verdict of the same run, of kind ``ok``.

    Raises:
        PayloadError: The bytes are not those the verdict speaks of.
    """
    if len(archive) != verdict.size or sha256_of(archive) != verdict.sha256:
        raise PayloadError(
            f"the result is damaged: {len(archive)} bytes with sha256 {sha256_of(archive)} came, the job "
            f"wrote {verdict.size} bytes with sha256 {verdict.sha256}; look whether the file there is whole"
        )
    try:
        return TransportableObject.deserialize(archive)
    except ValueError as error:  # covers bad JSON and bad UTF-8
        raise PayloadError(
            f"the result is not in Covalent's archive form: {error}; run the node again"
        ) from error
