# SPDX-License-Identifier: Apache-2.0
"""Removes a job's folder. Part of a program for the login node; see ``remote_frames``."""

import errno
import os
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .remote_call import Answer


def remove(path: str, names: str) -> Answer:
    """Remove the files we made, by name, then the folders that are empty; whatever else is there stays."""
    ours = re.compile(names)
    for folder in sorted(os.listdir(path)):
        inside = os.path.join(path, folder)
        if re.match(r"x\d{3,}$", folder) and not os.path.islink(inside):
            for name in sorted(os.listdir(inside), reverse=True):
                drop(os.path.join(inside, name), ours.match(name))
            drop(inside, True)
        else:
            drop(os.path.join(path, folder), ours.match(folder) or folder == "work")
    left = sorted(os.path.join(where, name) for where, _, names in os.walk(path) for name in names)
    if not left:
        drop(path, True)
        drop(os.path.dirname(path), True)  # the dispatch's folder, when this was its last node
    return {"left": [name[len(path) + 1 :] for name in left[:20]]}


def drop(path: str, ours: Any) -> None:
    """Unlink a file of ours or remove an empty folder."""
    if not ours:
        return
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            os.rmdir(path)
        else:
            os.unlink(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
            raise
