"""Injected fault (``RUSTDEV_FAULTS``) in which the process of a rank dies."""

import os
import signal
import sys

from .._name import NAME


def end_process(text: str) -> None:
    """Kill this process by SIGKILL.

    Args:
        text: Reason, printed to stderr.
    """
    print(f"{NAME}: process {os.getpid()} ends ({text})", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
