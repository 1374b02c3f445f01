# SPDX-License-Identifier: Apache-2.0
"""Run all tests: python -m tools.all_tests [PYTEST'S OPTIONS].

Those that need a Kubernetes cluster mostly wait for it, so they run beside the others, in a process of their
own; what they say is shown when both are done. What the cluster consists of is built before that.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from tests.rigs.kubeflow.errors import RigError
from tests.rigs.kubeflow.rig import prepare

NOTHING_TO_RUN = 5
"""Exit status of pytest where no test was selected."""


def main(options: list[str]) -> int:
    """Run them; 0 when all passed, else pytest's exit status."""
    if not os.environ.get("JOBLOG_TEST_KUBECONFIG"):
        try:
            prepare()
        except RigError as error:
            print(f"{error}\nthe tests that need it will fail", file=sys.stderr, flush=True)
    pytest = [sys.executable, "-m", "pytest", *options]
    with tempfile.TemporaryFile() as said:
        beside = subprocess.Popen([*pytest, "-m", "kubeflow"], stdout=said, stderr=subprocess.STDOUT)
        try:
            first = subprocess.run([*pytest, "-m", "not kubeflow"], check=False).returncode
            print("the tests that need a Kubernetes cluster run on …", flush=True)
            second = beside.wait()
        finally:
            beside.terminate()
            beside.wait()
        said.seek(0)
        sys.stdout.write(said.read().decode(errors="replace"))
    statuses = [status for status in (first, second) if status != NOTHING_TO_RUN]
    return max(statuses, key=abs) if statuses else NOTHING_TO_RUN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
