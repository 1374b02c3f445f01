# SPDX-License-Identifier: Apache-2.0
"""What ``import covalent`` costs with our plugin installed, in processes that alternate with and without."""

from __future__ import annotations

import statistics
import subprocess
import sys

from .figures import Figure

RUNS = 30

_IMPORT = """
import sys, time
from importlib import metadata
kept = sys.argv[1] == "with"
import importlib_metadata
for module in (metadata, importlib_metadata):
    def entry_points(all_of_them=module.entry_points, **group):
        found = all_of_them(**group)
        # Both ways ask the same question; only one leaves our answers out.
        return [e for e in found if kept or not e.value.startswith("covalent_joblog_plugin")]
    module.entry_points = entry_points
began = time.perf_counter()
import covalent
print(time.perf_counter() - began)
"""


def _seconds(which: str) -> float:
    argv = [sys.executable, "-c", _IMPORT, which]
    return float(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()[-1])


def measure() -> list[Figure]:
    """The difference of the medians."""
    both = [(_seconds("with"), _seconds("without")) for _ in range(RUNS + 1)][1:]  # the first fills caches
    ours, bare = (statistics.median(side) * 1e3 for side in zip(*both, strict=True))
    return [
        Figure("import covalent", ours, "ms", bare, "without the plugin"),
        Figure("what the plugin adds to it", ours - bare, "ms", aim="≤ 12 ms"),
    ]
