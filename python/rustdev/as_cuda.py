"""``python -m rustdev.as_cuda script.py``: run a program that was written for "cuda" on this device.

    python -m rustdev.as_cuda [--profile NAME] [--force] (script.py | -m module) [arguments]

Arguments, exit code and tracebacks of the program are as if Python had run it directly. The attribute ``rustdev.as_cuda`` of the
package is the context manager, not this module.
"""

import argparse
import sys
from collections.abc import Sequence

from rustdev._cuda_scope import _enter_until_exit, as_cuda
from rustdev._profiles import _PROFILES
from rustdev._program import _add_program, _run_program

__all__ = ["main"]


def main(arguments: Sequence[str]) -> None:
    """Run a program within :class:`rustdev.as_cuda`.

    Args:
        arguments: Command-line arguments.

    Raises:
        SystemExit: If the program raises it, or raises another exception, whose traceback is printed.
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
else:  # `import rustdev.as_cuda` yields the context manager, too
    sys.modules[__name__] = as_cuda  # type: ignore[assignment]
