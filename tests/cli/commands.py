# SPDX-License-Identifier: Apache-2.0
"""The ``joblog`` command in the process of the tests; ``ARGV`` begins it in one of its own."""

from __future__ import annotations

import sys

from click.testing import CliRunner, Result

from covalent_joblog_plugin.cli.main import joblog as command

ARGV = (
    sys.executable,
    "-c",
    "from covalent_joblog_plugin.cli.main import joblog; joblog(prog_name='joblog')",
)


def joblog(*arguments: object, **environment: str) -> Result:
    """What it wrote, and its exit status; it asks the session's server if not told otherwise."""
    result = CliRunner().invoke(command, [str(a) for a in arguments], env=environment, prog_name="joblog")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
