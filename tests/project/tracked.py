# SPDX-License-Identifier: Apache-2.0
"""The files of the project, as git knows them."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tracked(*patterns):
    """Paths of the tracked files that match one of git's ``patterns``."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--", *patterns], check=True, capture_output=True
    )
    return [path for name in listed.stdout.decode().split("\0") if name and (path := ROOT / name).exists()]
