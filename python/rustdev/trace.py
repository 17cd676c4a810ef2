"""``python -m rustdev.trace script.py``: run a program and report where it waits for the device, and what it copies.

    python -m rustdev.trace [--html FILE] (script.py | -m module) [arguments]

The program finds its arguments, its exit code and its tracebacks as Python gives them. The report goes to the standard error stream
when the program has ended, its threads too.
"""

import argparse
import atexit
import os
import sys
from collections.abc import Sequence

from rustdev._program import _add_program, _run_program
from rustdev.waits import WaitReport, wait_report

__all__ = ["main"]


def _report(report: WaitReport, page: str | None) -> None:
    """Print a report, and write its page."""
    print(report.table(), file=sys.stderr)
    if page is None:
        return
    try:
        report.save_html(page)
    except OSError as error:
        print(f"rustdev: cannot write {page}: {error.strerror}", file=sys.stderr)
    else:
        print(f"rustdev: wrote {page}", file=sys.stderr)


def _report_at_exit(page: str | None) -> None:
    """Begin a report that ends with the program, after its threads."""
    scope = wait_report(tasks=page is not None)
    report = scope.__enter__()
    # What is registered last is called first.
    atexit.register(_report, report, page)
    atexit.register(scope.__exit__, None, None, None)


def main(arguments: Sequence[str]) -> None:
    """Run a program with a report.

    Args:
        arguments: Those of the command line.

    Raises:
        SystemExit: The program asks for it, or it raised something else, whose traceback is written then.
    """
    parser = argparse.ArgumentParser("python -m rustdev.trace", description="Run a program and report its waits for the device.")
    parser.add_argument("--html", metavar="FILE", help="also write the report as a page with a timeline")
    _add_program(parser)
    options = parser.parse_args(arguments)
    page = os.path.abspath(options.html) if options.html else None
    _run_program(options, lambda: _report_at_exit(page))


if __name__ == "__main__":
    main(sys.argv[1:])
