# SPDX-License-Identifier: Apache-2.0
"""Whether a program of the rig answers."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def answers(url: str, pki: Path | None = None) -> bool:
    """Whether a health check answers 200; over TLS as the administrator whose certificate is in ``pki``."""
    context = None
    if pki:
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    try:
        with urllib.request.urlopen(url, timeout=5, context=context) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
