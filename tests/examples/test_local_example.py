# SPDX-License-Identifier: Apache-2.0
"""``make demo``, without the making of its environment."""

import os
import pty
import re
import sys

import pytest

from tests.project.tracked import ROOT

pytestmark = pytest.mark.covalent

DEMO = """
import pathlib, sys
from tools import demo
demo.FOLDER = pathlib.Path(sys.argv[1])
sys.exit(demo.main([]))
"""


def shown_in_a_terminal(argv):
    """All that a program writes to a terminal, and its exit status."""
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(ROOT)
        os.environ.update(TERM="xterm", COLUMNS="120", PYTHONPATH=str(ROOT))
        os.execv(argv[0], argv)
    written = b""
    try:
        while piece := os.read(terminal, 1 << 16):
            written += piece
    except OSError:
        pass  # so ends a terminal whose last program has ended
    os.close(terminal)
    return written.decode().replace("\r\n", "\n"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_the_demo_shows_the_output_as_it_grows_until_the_end(tmp_path):
    shown, status = shown_in_a_terminal([sys.executable, "-c", DEMO, str(tmp_path / "demo")])
    assert status == 0, shown
    percents = [int(percent) for percent in re.findall(r"darts: +(\d+)%", shown)]
    # Frames of a progress bar that is not full were read while the task ran.
    assert len(set(percents)) > 3
    assert percents == sorted(percents)
    assert percents[-1] == 100
    said = re.findall(r"after ([\d.]+) million darts pi is about 3\.1\d+", shown)
    assert said == [f"{n * 2.5:.1f}" for n in range(1, 13)]
    dispatch_id = re.search(r"([0-9a-f-]{36}) \(darts\) COMPLETED", shown)[1]
    kept = tmp_path / "demo" / "data" / dispatch_id / "node_0" / "stdout.log"
    assert [line.split()[1] for line in kept.read_text().splitlines()] == said
    assert "# that server is stopped" in shown.splitlines()[-1]
