# SPDX-License-Identifier: Apache-2.0
"""Other interpreters: bare ones, other versions, and calls pickled by them."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from pathlib import Path

import cloudpickle

from covalent_joblog_plugin.payload.bundle import Call, Part

SYSTEM = "/usr/bin/python3"

_PICKLE = """
import base64, json, platform, sys
sys.path.insert(0, sys.argv[1])
import cloudpickle
names = {}
exec(sys.argv[2], names)
print(json.dumps([platform.python_version(), base64.b64encode(cloudpickle.dumps(names["f"])).decode()]))
"""


def bare(folder):
    """An interpreter like the one of the tests, with the standard library alone."""
    venv.create(folder, symlinks=True, with_pip=False)
    return str(folder / "bin" / "python3")


def installed():
    """Interpreters found on this machine, by their minor version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = {}
    for python in [SYSTEM, *map(str, sorted(pyenv.glob("versions/3.*/bin/python3")))]:
        told = subprocess.run(
            [python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, check=True
        )
        found.setdefault(tuple(int(number) for number in told.stdout.split()), python)
    return found


def call_pickled_by(python, source):
    """The function ``f`` of ``source``, pickled by another interpreter as its client would."""
    cloudpickle_folder = str(Path(cloudpickle.__file__).parent.parent)
    done = subprocess.run(
        [python, "-I", "-S", "-c", _PICKLE, cloudpickle_folder, source], capture_output=True, check=True
    )
    version, text = json.loads(done.stdout)
    return Call(Part(text, "f", version), (), {})
