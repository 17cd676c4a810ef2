"""Programs that a module of this package runs as ``python`` would: with their arguments, exit codes and tracebacks."""

import argparse
import importlib.machinery
import io
import os
import runpy
import sys
from collections.abc import Callable
from types import CodeType, ModuleType

__all__: list[str] = []


def _script(path: str) -> tuple[CodeType, dict[str, object]]:
    """Return a script's code and the names that Python gives its module; both have the absolute path."""
    path = os.path.join(os.getcwd(), path.removeprefix("./"))
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        raise SystemExit(f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}") from None
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    sys.path[0] = os.path.dirname(os.path.realpath(path))
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


def _add_program(parser: argparse.ArgumentParser) -> None:
    """Add what names a program and its arguments to those of a command."""
    parser.add_argument("-m", dest="is_module", action="store_true", help="what follows is a module's name")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)


def _run_program(options: argparse.Namespace, prepare: Callable[[], None]) -> None:
    """Run a program as the main module.

    Args:
        options: What the parser made of the arguments.
        prepare: Called when the program was found, before it runs.

    Raises:
        SystemExit: The program asks for it, or it raised something else, whose traceback is written then.
    """
    sys.argv = [options.program, *options.arguments]
    code, names = _module(options.program) if options.is_module else _script(options.program)
    if options.is_module:
        sys.argv[0] = str(names["__file__"])
    module = ModuleType("__main__")
    vars(module).update(names)
    sys.modules["__main__"] = module
    prepare()
    try:
        exec(code, vars(module))
    except SystemExit:
        raise
    except BaseException as error:
        # Without the frame above, as if Python had run the program itself.
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error, error.__traceback__)
        raise SystemExit(1) from None
