"""Import hooks, by which a library is patched when it is imported."""

import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any


class _AfterImport(MetaPathFinder):
    """Meta path finder that calls a function when a module has been loaded, before its importer sees it."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self.name, self.then = name, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the module by the finders behind this one, with a loader that also calls the function."""
        if fullname != self.name:
            return None
        finders = list(sys.meta_path)
        if self in finders:  # unless another thread has loaded the module meanwhile
            del finders[: finders.index(self) + 1]
        found = (it.find_spec(fullname, path, target) for it in finders if hasattr(it, "find_spec"))
        spec = next(filter(None, found), None)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            if self in sys.meta_path:  # removed here, not in find_spec, which libraries also call to test for installed modules
                sys.meta_path.remove(self)
                self.then(sys.modules[self.name])  # a module can have put another in its place

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _after_import(name: str, then: Callable[[ModuleType], None]) -> None:
    """Call a function with a module: at once if the module is loaded, else when it has been loaded.

    Args:
        name: Name of the module.
        then: Called once with the module.
    """
    if name in sys.modules:
        then(sys.modules[name])
    else:
        sys.meta_path.insert(0, _AfterImport(name, then))


def _replace_everywhere(function: Callable[..., Any], replacement: Callable[..., Any]) -> None:
    """Replace a function in every loaded module, including those that have imported it by name.

    Args:
        function: Function to replace.
        replacement: Its replacement.
    """
    for module in list(sys.modules.values()):
        names = [name for name, value in list(getattr(module, "__dict__", {}).items()) if value is function]
        for name in names:
            setattr(module, name, replacement)
