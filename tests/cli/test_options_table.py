# SPDX-License-Identifier: Apache-2.0
"""README's tables of the command."""

from __future__ import annotations

import pytest

from tools.options import END, README, rewritten


def test_readme_lists_the_commands_their_options_and_the_exit_statuses_as_they_are() -> None:
    """``make docs`` writes them."""
    readme = README.read_text()
    assert readme == rewritten(readme)


def test_what_is_written_replaces_what_was_there_before_and_nothing_else() -> None:
    readme = README.read_text()
    assert rewritten(readme.replace(END, f"| old |\n{END}")) == rewritten(readme)


def test_a_readme_without_its_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="both marks"):
        rewritten("# README\n")
