"""Runs user programs as ``python`` does, with the same arguments, exit codes and tracebacks."""

import argparse
import importlib.machinery
import io
import os
import runpy
import sys
from collections.abc import Callable
from types import CodeType, ModuleType

from ._name import NAME


def _script(path: str) -> tuple[CodeType, dict[str, object]]:
    """Return the code of a script and the globals of its ``__main__`` module. Both contain the absolute path."""
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
    """Return the code of a module and its globals as ``__main__``."""
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
    """Add the arguments that specify a program to a parser."""
    parser.add_argument("-m", dest="is_module", action="store_true", help="what follows is a module's name")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)


def _add_file(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    """Add an option for a file to write to a parser; its value is an absolute path, as the program may change the directory."""
    parser.add_argument(name, metavar="FILE", type=os.path.abspath, help=text)


def _write_file(path: str, save: Callable[[str], None]) -> None:
    """Write a file, and print to stderr that it was written or why not.

    Args:
        path: The file.
        save: Writes it.
    """
    try:
        save(path)
    except OSError as error:
        print(f"{NAME}: cannot write {path}: {error.strerror}", file=sys.stderr)
    else:
        print(f"{NAME}: wrote {path}", file=sys.stderr)


def _run_program(options: argparse.Namespace, prepare: Callable[[], None]) -> None:
    """Run a program as ``__main__``.

    Args:
        options: Parsed arguments; see ``_add_program``.
        prepare: Called after the program has been found, before it runs.

    Raises:
        SystemExit: If the program raises it, or raises another exception, whose traceback is printed.
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
        # Without the frame of this function, as if Python had run the program.
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error, error.__traceback__)
        raise SystemExit(1) from None
