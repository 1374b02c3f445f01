# SPDX-License-Identifier: Apache-2.0
"""Bytes at a URL, through fsspec; server's side. All of it blocks: keep it off an event loop.

fsspec and the package that knows the URL's kind (s3fs, gcsfs, adlfs, …) are installed by those who use
``store=``. Folders are not made: a mistyped name must not become a new bucket.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from covalent_joblog_plugin.model.errors import PayloadError


def put(url: str, data: bytes) -> None:
    """Write ``data`` to ``url``.

    Raises:
        PayloadError: That is not possible; the text says why and what to do.
    """
    _carry_out("written", url, lambda filesystem, path: filesystem.pipe_file(path, data))


def get(url: str) -> bytes:
    """All bytes at ``url``.

    Raises:
        PayloadError: They cannot be read; the text says why and what to do.
    """
    data: bytes = _carry_out("read", url, lambda filesystem, path: filesystem.cat_file(path))
    return data


def delete(url: str) -> None:
    """Remove what is at ``url``; where nothing is, that is so already.

    Raises:
        PayloadError: That is not possible; the text says why and what to do.
    """

    def act(filesystem: Any, path: str) -> None:
        with suppress(FileNotFoundError):
            filesystem.rm_file(path)

    _carry_out("deleted", url, act)


def _carry_out(verb: str, url: str, act: Any) -> Any:
    try:
        import fsspec  # noqa: PLC0415 - optional

        return act(*fsspec.core.url_to_fs(url))
    except ImportError as error:
        raise PayloadError(
            f"{shown(url)} cannot be {verb} without a package that is missing where Covalent's server runs: "
            f"{error}; install it there and in the image"
        ) from error
    except Exception as error:  # every driver raises its own
        raise PayloadError(
            f"{shown(url)} cannot be {verb}: {type(error).__name__}: {error}; check store=, whether the "
            "folder is there, and the credentials where Covalent's server runs"
        ) from error


def shown(url: str) -> str:
    """The URL without credentials."""
    return re.sub(r"//[^/@]*@", "//…@", url)
