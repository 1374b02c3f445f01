# SPDX-License-Identifier: Apache-2.0
"""Puts what we add into Covalent's own web server; the only file that names it.

``covalent_ui.api.main`` is imported by the server after the executor plugins and before it starts, so a hook
on that import reaches the one application object in time, with public calls only. A client may import the
same module (``lattice.draw()`` does); what is added there is never asked for.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import wrapt

if TYPE_CHECKING:
    from types import ModuleType

log = logging.getLogger("covalent_joblog_plugin")

_SERVER_MODULE = "covalent_ui.api.main"
_installed: list[str] = []


def install() -> None:
    """Have our routes and middleware added when Covalent's web server is imported, once.

    It costs the import of ``wrapt`` and touches nothing of Covalent's.
    """
    if not _installed:
        _installed.append(_SERVER_MODULE)
        wrapt.register_post_import_hook(_extend, _SERVER_MODULE)


def _extend(server: ModuleType) -> None:
    from covalent._shared_files.config import get_config  # noqa: PLC0415 - covalent is only half imported

    try:
        from .live_files import LiveFiles  # noqa: PLC0415 - only the server needs it
        from .routes import router  # noqa: PLC0415 - the same

        app: Any = server.app
        # Before Covalent adds the route that takes whatever is left.
        app.include_router(router)
        app.add_middleware(LiveFiles, root=get_config("dispatcher.results_dir"))
    except (AttributeError, ImportError, RuntimeError) as error:
        # The plugin was imported while that module was half imported, or after the server had started, or
        # something it needs is missing; the server starts all the same.
        log.warning(
            "/api/v1/joblog is not served, and growing output is served as it is on disk, perhaps cut inside "
            "a character: %s; start Covalent again with this plugin installed",
            error,
        )
