# SPDX-License-Identifier: Apache-2.0
"""A real one-node Kubeflow for the tests: see ``rig.py`` for what it can be made to do.

By hand, as root on Debian: ``python -m tests.rigs.kubeflow up`` prints what to export, ``down`` ends it,
``build`` only builds the programs and images.
"""

from .errors import RigError
from .fixture import build_before_tests, kubeflow_rig
from .rig import NEWEST, OLDEST, KubeflowRig

__all__ = ["NEWEST", "OLDEST", "KubeflowRig", "RigError", "build_before_tests", "kubeflow_rig"]
