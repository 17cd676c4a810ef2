"""Test runs with a selected fault, and their outcomes."""

import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import processes

from .scratch import TREE, environment

#: pytest's line for a test that failed or had an error.
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


def _pytest(number: int, arguments: list[str], limit: float) -> tuple[int | None, str]:
    """Run pytest with a fault, and return its exit status and output; see `processes.run`."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rfE", *arguments]
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        status = processes.run(command, limit, cwd=TREE, env=environment(number), stdout=output, stderr=subprocess.STDOUT)
        output.seek(0)
        return status, output.read()


def run(number: int, arguments: list[str], limit: float) -> dict[str, Any]:
    """Run tests with a fault, or 0 for none, up to the first failure or a time limit in seconds.

    Returns:
        The outcome, which is "survived", "killed" or "error" if no test ran; the test that killed it, or how else the run ended;
        and the time in seconds.
    """
    begin = time.monotonic()
    status, text = _pytest(number, ["-x", *arguments], limit)
    failed = _FAILED.search(text) if status in (1, 2) else None
    outcome, by = "killed", failed[1] if failed else text[-2000:]
    if status is None:
        by = f"no end within {limit:g} s"
    elif status < 0:
        by = f"the process ended by {signal.Signals(-status).name}"
    elif not failed:
        outcome, by = ("survived", "") if status == 0 else ("error", by)
    return {"outcome": outcome, "by": by, "seconds": round(time.monotonic() - begin, 1)}


def of_check(arguments: list[str]) -> set[str]:
    """Return the pytest node ids of the tests of ``make check``, which runs pytest with these arguments."""
    status, text = _pytest(0, ["--layer=check", "--collect-only", *arguments], 3600)
    if status != 0:
        sys.exit(f"mutants: the tests of the layer cannot be collected:\n{text[-2000:]}")
    return {line for line in text.splitlines() if "::" in line}
