"""Ranks that are lost by an injected fault (``RUSTDEV_FAULTS``): those that answer no more, and those whose process ends."""

import os
import signal
import sys
import time
from datetime import timedelta

from torch._C._distributed_c10d import Work

__all__ = ["Unanswered", "end_process"]

_NO_TIME = timedelta(0)


class Unanswered(Work):
    """An operation that Gloo never gets, so that the other ranks wait for this one in vain. It fails when its time is over.

    Args:
        text: Why, for the error.
        timeout: How long an operation of the group may take.
    """

    def __init__(self, text: str, timeout: timedelta) -> None:
        super().__init__()
        self._text = text
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout.total_seconds()

    def wait(self, timeout: timedelta = _NO_TIME) -> bool:
        """Hold the host until the operation's time is over.

        Args:
            timeout: Has no effect.

        Raises:
            RuntimeError: Always.
        """
        time.sleep(max(0.0, self._deadline - time.monotonic()))
        raise RuntimeError(f"this rank takes part in no operation any more ({self._text}), for {self._timeout.total_seconds():g} s")


def end_process(text: str) -> None:
    """End this process as one is ended that is killed.

    Args:
        text: Why, for the standard error output.
    """
    print(f"rustdev: process {os.getpid()} ends ({text})", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
