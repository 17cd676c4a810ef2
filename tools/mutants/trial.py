"""Test runs with a selected fault, and their outcomes."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from typing import NamedTuple

from .scratch import TREE, environment

__all__ = ["Trial", "failures", "of_check", "run"]

#: pytest's line for a test that failed or had an error.
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


class Trial(NamedTuple):
    """The outcome of a run."""

    #: "survived", "killed", or "error" if no test ran.
    outcome: str
    #: The test that failed, or how else the run ended.
    by: str
    seconds: float


class _Output(NamedTuple):
    #: Exit status of pytest, negative for a signal; None after a timeout.
    status: int | None
    text: str
    seconds: float


def _pytest(number: int, arguments: list[str], limit: float) -> _Output:
    """Run pytest with a fault.

    Args:
        number: Number of the fault; 0 for none.
        arguments: Arguments of pytest.
        limit: Time limit in seconds.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rfE", *arguments]
    begin = time.monotonic()
    # A new process group, which is killed as a whole: tests start processes.
    process = subprocess.Popen(
        command,
        cwd=TREE,
        env=environment(number),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        process_group=0,
    )
    try:
        text, _ = process.communicate(timeout=limit)
        return _Output(process.returncode, text, round(time.monotonic() - begin, 1))
    except subprocess.TimeoutExpired:
        return _Output(None, "", limit)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(number: int, arguments: list[str], limit: float) -> Trial:
    """Run tests with a fault up to the first failure.

    Args:
        number: Number of the fault; 0 for none.
        arguments: Arguments of pytest.
        limit: Time limit in seconds.
    """
    status, text, seconds = _pytest(number, ["-x", *arguments], limit)
    if status is None:
        return Trial("killed", f"no end within {limit:g} s", seconds)
    if status == 0:
        return Trial("survived", "", seconds)
    if status < 0:
        return Trial("killed", f"the process ended by {signal.Signals(-status).name}", seconds)
    failed = _FAILED.search(text)
    if failed and status in (1, 2):
        return Trial("killed", failed[1], seconds)
    return Trial("error", text[-2000:], seconds)


def failures(tests: list[str], limit: float) -> list[str]:
    """Return those of the given tests that fail without a fault.

    Args:
        tests: Node ids of pytest.
        limit: Time limit in seconds.
    """
    status, text, _ = _pytest(0, tests, limit)
    return [] if status == 0 else _FAILED.findall(text) or tests


def of_check(selections: list[list[str]]) -> set[str]:
    """Return the pytest node ids of the tests of ``make check``.

    Args:
        selections: Arguments of its pytest runs.
    """
    found: set[str] = set()
    for arguments in selections:
        status, text, _ = _pytest(0, ["--layer=check", "--collect-only", *arguments], 3600)
        if status != 0:
            sys.exit(f"mutants: the tests of the layer cannot be collected:\n{text[-2000:]}")
        found |= {line for line in text.splitlines() if "::" in line}
    return found
