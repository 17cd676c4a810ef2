"""``python -m rustdev.trace script.py``: run a program and report its waits for the device and its copies.

    python -m rustdev.trace [--html FILE] (script.py | -m module) [arguments]

Arguments, exit code and tracebacks of the program are as if Python had run it directly. The report is printed to stderr after the
program and its threads have ended.
"""

import argparse
import atexit
import sys
from collections.abc import Sequence

from rustdev._program import _add_file, _add_program, _run_program, _write_file
from rustdev.waits import WaitReport, wait_report

__all__ = ["main"]


def _report(report: WaitReport, page: str | None) -> None:
    """Print a report, and write it as an HTML page if ``page`` is given."""
    print(report.table(), file=sys.stderr)
    if page is not None:
        _write_file(page, report.save_html)


def _report_at_exit(page: str | None) -> None:
    """Begin a report that ends when the program and its threads have ended."""
    scope = wait_report(tasks=page is not None)
    report = scope.__enter__()
    # atexit calls functions in reverse order of registration.
    atexit.register(_report, report, page)
    atexit.register(scope.__exit__, None, None, None)


def main(arguments: Sequence[str]) -> None:
    """Run a program with a report.

    Args:
        arguments: Command-line arguments.

    Raises:
        SystemExit: If the program raises it, or raises another exception, whose traceback is printed.
    """
    parser = argparse.ArgumentParser("python -m rustdev.trace", description="Run a program and report its waits for the device.")
    _add_file(parser, "--html", "also write the report as a page with a timeline")
    _add_program(parser)
    options = parser.parse_args(arguments)
    _run_program(options, lambda: _report_at_exit(options.html))


if __name__ == "__main__":
    main(sys.argv[1:])
