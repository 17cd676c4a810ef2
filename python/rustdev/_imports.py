"""Telling a library about the device when it is imported, and not before: a hook that costs nothing where it never is."""

import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

__all__: list[str] = []


class _AfterImport(MetaPathFinder):
    """Calls a function when a module has been loaded, before anyone else sees it."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self.name, self.then = name, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the one module as Python would have, with a loader that calls the function as well."""
        if fullname != self.name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            if self in sys.meta_path:  # here and not above: libraries look for a module's spec to know whether it is installed
                sys.meta_path.remove(self)
                self.then(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _after_import(name: str, then: Callable[[ModuleType], None]) -> None:
    """Call a function with a module: now if it is loaded, else when it is.

    Args:
        name: The module.
        then: Called once.
    """
    if name in sys.modules:
        then(sys.modules[name])
    else:
        sys.meta_path.insert(0, _AfterImport(name, then))


def _replace_everywhere(function: Callable[..., Any], replacement: Callable[..., Any]) -> None:
    """Put a function in another's place in every module that is loaded, as some have taken the other by name.

    Args:
        function: What is there.
        replacement: What is put there.
    """
    for module in list(sys.modules.values()):
        names = [name for name, value in list(getattr(module, "__dict__", {}).items()) if value is function]
        for name in names:
            setattr(module, name, replacement)
