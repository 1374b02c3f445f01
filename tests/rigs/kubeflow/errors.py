# SPDX-License-Identifier: Apache-2.0
"""What stops the Kubeflow rig, and how it tells of its progress."""

from __future__ import annotations

import sys


class RigError(RuntimeError):
    """The rig cannot be built, started or used so; the message says what to do."""


def say(text: str) -> None:
    """Tell somebody who waits what is going on."""
    print(f"kubeflow rig: {text}", file=sys.stderr, flush=True)
