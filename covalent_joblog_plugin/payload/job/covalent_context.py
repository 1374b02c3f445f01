# SPDX-License-Identifier: Apache-2.0
"""Readies Covalent for the functions that import it, and costs the others nothing."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any, Sequence

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

CONTEXT = "covalent.executor.utils.context"


class CovalentContext(MetaPathFinder):
    """Finds modules as before, and tells Covalent which node it is in if the function ever imports it.

    Importing Covalent takes 0.4 s, writes a configuration file and takes a lock on it, so it is neither
    imported for nothing nor let loose on a home folder that many nodes share.
    """

    def __init__(self, dispatch_id: str, node_id: int) -> None:
        self.dispatch_id = dispatch_id
        self.node_id = node_id
        if CONTEXT in sys.modules:  # a start-up file of the site imports Covalent
            self.tell(sys.modules[CONTEXT])

    def tell(self, module: Any) -> None:
        """Set what ``ct.get_context()`` answers from now on."""
        module.current_context = module.Context(dispatch_id=self.dispatch_id, task_id=self.node_id)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer Python's import; None leaves the module to the finders after this one."""
        if fullname == "covalent" and "COVALENT_CONFIG_DIR" not in os.environ:
            os.environ["COVALENT_CONFIG_DIR"] = own_folder()
        if fullname != CONTEXT:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                self.follow(spec.loader)
                return spec
        return None

    def follow(self, loader: Any) -> None:
        """Tell the module as soon as ``loader`` has executed it."""
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self.tell(module)

        loader.exec_module = exec_module


def own_folder() -> str:
    """A temporary folder of this process, removed at its end."""
    folder, owner = tempfile.mkdtemp(prefix="covalent-"), os.getpid()

    def remove() -> None:
        # A forked process runs the same exit functions, and the folder is not its own.
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
