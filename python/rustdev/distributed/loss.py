"""Ranks that are lost by an injected fault (``RUSTDEV_FAULTS``): those whose process ends."""

import os
import signal
import sys

__all__ = ["end_process"]


def end_process(text: str) -> None:
    """End this process as one is ended that is killed.

    Args:
        text: Why, for the standard error output.
    """
    print(f"rustdev: process {os.getpid()} ends ({text})", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
