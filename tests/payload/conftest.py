# SPDX-License-Identifier: Apache-2.0
"""What the tests of this room share."""

from __future__ import annotations

import pytest

from tests.payload import pythons


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory):
    """An interpreter like this one, without Covalent, cloudpickle or anything else installed."""
    return pythons.bare(tmp_path_factory.mktemp("bare"))
