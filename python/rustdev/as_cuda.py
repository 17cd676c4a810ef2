"""``python -m rustdev.as_cuda script.py``: run a program that was written for "cuda" on this device.

    python -m rustdev.as_cuda [--profile NAME] [--force] (script.py | -m module) [arguments]

The program finds its arguments, its exit code and its tracebacks as Python gives them. As a name of the package,
``rustdev.as_cuda`` is the context manager.
"""

import argparse
import importlib.machinery
import io
import os
import runpy
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType

from rustdev._cuda_scope import _enter_until_exit, as_cuda
from rustdev._profiles import _PROFILES

__all__ = ["main"]


def _script(path: str) -> tuple[CodeType, dict[str, object]]:
    """Return a script's code and the names that Python gives its module."""
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except OSError as error:
        raise SystemExit(
            f"{sys.executable}: can't open file {os.path.abspath(path)!r}: [Errno {error.errno}] {error.strerror}"
        ) from None
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    return compile(source, path, "exec"), {
        "__file__": path,
        "__loader__": loader,
        "__spec__": None,
        "__package__": None,
        "__cached__": None,
    }


def _module(name: str) -> tuple[CodeType, dict[str, object]]:
    """Return a module's code and the names that Python gives it where it is the main module."""
    try:
        _, spec, code = runpy._get_module_details(name)  # type: ignore[attr-defined]
    except ImportError as error:
        raise SystemExit(f"{sys.executable}: {error}") from None
    names = {
        "__file__": spec.origin,
        "__loader__": spec.loader,
        "__spec__": spec,
        "__package__": spec.parent,
        "__cached__": spec.cached,
    }
    return code, names


def main(arguments: Sequence[str]) -> None:
    """Run a program in the scope.

    Args:
        arguments: Those of the command line.

    Raises:
        SystemExit: The program asks for it, or it raised something else, whose traceback is written then.
    """
    parser = argparse.ArgumentParser(
        "python -m rustdev.as_cuda", description='Run a program that was written for "cuda" on rustdev.'
    )
    parser.add_argument("--profile", choices=_PROFILES, help="present the device as this GPU")
    parser.add_argument("--force", action="store_true", help="also where there is a GPU")
    parser.add_argument("-m", dest="is_module", action="store_true", help="what follows is a module's name")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    sys.argv = [options.program, *options.arguments]
    code, names = _module(options.program) if options.is_module else _script(options.program)
    if options.is_module:
        sys.argv[0] = str(names["__file__"])
    module = ModuleType("__main__")
    vars(module).update(names)
    sys.modules["__main__"] = module
    _enter_until_exit(options.profile, options.force)
    try:
        exec(code, vars(module))
    except SystemExit:
        raise
    except BaseException as error:
        # Without the frame above, as if Python had run the program itself.
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error, error.__traceback__)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main(sys.argv[1:])
else:  # the package's name is the context manager's, also when this module is imported
    sys.modules[__name__] = as_cuda  # type: ignore[assignment]
