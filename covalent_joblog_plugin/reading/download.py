# SPDX-License-Identifier: Apache-2.0
"""Output into a file."""

from __future__ import annotations

import secrets
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .blocking import blocking

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from .evaluation import Evaluation


def download(evaluation: Evaluation, path: str | os.PathLike[str]) -> Path:
    """Write the bytes of the one output into a file; a progress bar on a terminal tells how far it is.

    The file is complete or not there: it appears under its name when all bytes are in it, in place of one
    that was there.

    Args:
        evaluation: What to write.
        path: The file, or a folder to put it into.

    Raises:
        BadSelection: There are several outputs, or lines are selected.
        OutputError: The output cannot be read.
        TransportError: The server does not answer.
        OSError: The file cannot be written.
    """
    target = Path(path)
    source = evaluation.extents[0].source
    if target.is_dir():
        name = "".join(char if char.isalnum() or char in "._-" else "_" for char in source.file)
        target /= f"{source.dispatch_id[:8]}-{source.node_id}-{name}"
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with fresh.open("xb") as file, _progress(evaluation.size, target.name) as advance:
            for data in blocking(evaluation.raw()):
                file.write(data)
                advance(len(data))
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)
    return target


@contextmanager
def _progress(total: int, name: str) -> Iterator[Callable[[float], None]]:
    """A progress bar on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    # Only people who watch pay for its import.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(name, total=total)
        yield lambda size: progress.advance(task, size)
