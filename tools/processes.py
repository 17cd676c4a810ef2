"""Child processes of the tools: they have a time limit, and end with all that they have started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import Any

#: How long a process may take to end after SIGTERM, in seconds.
PATIENCE = 20


def run(command: list[str], seconds: float, **options: Any) -> int | None:
    """Run a command in a process group of its own, and end what is left of the group.

    Args:
        command: Program and arguments.
        seconds: Time limit.
        options: Further arguments of ``subprocess.Popen``.

    Returns:
        The exit status, negative for a signal; None after the time limit.
    """
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0, **options)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _signal(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[Any], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def told(status: int | None, seconds: float) -> str:
    """Return the end of a process as text."""
    if status is None:
        return f"no end within {seconds:g} s"
    return f"signal {-status}" if status < 0 else f"exit status {status}"
