"""``python -m rustdev.as_cuda script.py``: run a program that was written for "cuda" on this device.

    python -m rustdev.as_cuda [--profile NAME] [--force] (script.py | -m module) [arguments]

The program finds its arguments, its exit code and its tracebacks as Python gives them. As a name of the package,
``rustdev.as_cuda`` is the context manager.
"""

import argparse
import sys
from collections.abc import Sequence

from rustdev._cuda_scope import _enter_until_exit, as_cuda
from rustdev._profiles import _PROFILES
from rustdev._program import _add_program, _run_program

__all__ = ["main"]


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
    _add_program(parser)
    options = parser.parse_args(arguments)
    _run_program(options, lambda: _enter_until_exit(options.profile, options.force))


if __name__ == "__main__":
    main(sys.argv[1:])
else:  # the package's name is the context manager's, also when this module is imported
    sys.modules[__name__] = as_cuda  # type: ignore[assignment]
