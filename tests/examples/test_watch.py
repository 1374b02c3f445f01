# SPDX-License-Identifier: Apache-2.0
"""What the watching example lets into a terminal."""

import importlib.util

import pytest

from tests.project.tracked import ROOT


@pytest.fixture(scope="module")
def watch():
    spec = importlib.util.spec_from_file_location("watch", ROOT / "examples" / "watch.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("", ""),
        ("plain", "plain"),
        ("\r  0%|\r 50%|", " 50%|"),
        ("100%|\r", "100%|"),
        ("windows\r", "windows"),
        ("\r\r", ""),
    ],
)
def test_of_a_line_written_over_and_over_the_newest_is_shown(watch, written, shown):
    assert watch.newest(written) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("caf\u00e9 \u2588\u258c", "caf\u00e9 \u2588\u258c"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
        ("up\x1b[2Aup", "upup"),
        ("bell\x07, nul\x00, rest of a cut escape \x1b", "bell, nul, rest of a cut escape "),
        ("a\tb", "a       b"),
    ],
)
def test_nothing_of_a_tasks_text_steers_the_terminal(watch, text, shown):
    assert watch.printable(text) == shown
