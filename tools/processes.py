"""Child processes of the tools, with a time limit."""

import contextlib
import functools
import os
import signal
import subprocess
from typing import Any

#: How long a process may take to end after SIGTERM, in seconds.
PATIENCE = 20


def run(command: list[str], seconds: float, *, own_group: bool = True, **options: Any) -> int | None:
    """Run a command and end it after its time limit. Return its exit status, negative for a signal; None after the time limit.

    In a process group of its own it does not get signals such as that of Ctrl-C, and what is left of the group is ended as well.
    """
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0 if own_group else None, **options)
    signal_to = functools.partial(os.killpg, process.pid) if own_group else process.send_signal
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                signal_to(number)
                process.wait(PATIENCE)


def told(status: int | None, seconds: float) -> str:
    """Return the end of a process as text."""
    if status is None:
        return f"no end within {seconds:g} s"
    return f"signal {-status}" if status < 0 else f"exit status {status}"
