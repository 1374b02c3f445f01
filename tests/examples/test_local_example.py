# SPDX-License-Identifier: Apache-2.0
"""``make demo``, without the making of its environment."""

import re

import pytest

from tools import demo

pytestmark = pytest.mark.covalent


@pytest.fixture
def demonstrated(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(demo, "FOLDER", tmp_path / "demo")
    status = demo.main([])
    shown = capfd.readouterr()
    return status, shown.out, shown.err


def test_the_demo_shows_the_output_as_it_grows_and_ends_with_the_result(demonstrated, tmp_path):
    status, out, err = demonstrated
    assert status == 0, out + err
    percents = [int(percent) for percent in re.findall(r"darts: +(\d+)%", out)]
    # Frames of a progress bar that is not full were read while the task ran.
    assert len(percents) > 3
    assert percents == sorted(percents)
    assert percents[-1] == 100
    said = re.findall(r"after ([\d.]+) million darts pi is about 3\.1\d+", out)
    assert said == [f"{n * 2.5:.1f}" for n in range(1, 13)]
    dispatch_id = re.search(r"^(\S+) COMPLETED\nresult: 3\.1\d+$", out, re.MULTILINE)[1]
    kept = tmp_path / "demo" / "data" / dispatch_id / "node_0" / "stdout.log"
    assert [line.split()[1] for line in kept.read_text().splitlines()] == said
    assert err.splitlines()[-1] == "# that server is stopped"
