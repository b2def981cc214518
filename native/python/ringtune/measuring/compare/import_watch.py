# SPDX-License-Identifier: Apache-2.0
"""Calls a function right after a module was imported, whoever imports it, and whenever.

A script may set variables before it imports torch, so that torch must not be imported earlier than the script does.
"""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any


class ImportWatch(importlib.abc.MetaPathFinder):
    """Finds watched modules as the other finders do, and wraps their loaders."""

    def __init__(self, after: Mapping[str, Callable[[], None]]) -> None:
        """Watch; `after` has the function to call after each module's import, once."""
        self._after = dict(after)

    def install(self) -> None:
        """Stand before the other finders; modules that are there already are taken as imported now."""
        for name in list(self._after):
            if name in sys.modules:
                self._after.pop(name)()
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a watched module, None for any other."""
        after = self._after.pop(fullname, None)
        if after is None:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = None if find is None or finder is self else find(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _NotifyingLoader(spec.loader, after)
                return spec  # type: ignore[no-any-return]  # finders are untyped
        self._after[fullname] = after
        return None


class _NotifyingLoader(importlib.abc.Loader):
    """A module's own loader, and a call once it is done."""

    def __init__(self, loader: Any, after: Callable[[], None]) -> None:
        self._loader = loader
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """See `Loader`."""
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, give it its own loader back, and call."""
        self._loader.exec_module(module)
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._after()
