"""The ranks of a group that do not exist: one process makes a dry run of its part of a large group."""

from typing import Any

import torch
from torch._C._distributed_c10d import Work


class _Done(Work):
    """An operation that is over."""

    def wait(self, timeout: Any = None) -> bool:
        """Return at once."""
        return True

    def is_completed(self) -> bool:
        """Return True."""
        return True

    def get_future(self) -> Any:
        """Return a completed future."""
        future: torch.futures.Future[None] = torch.futures.Future()
        future.set_result(None)
        return future


class AbsentRanks:
    """Stands for Gloo's process group in a dry run, in which no operation but barriers reaches Gloo.

    Args:
        rank: Number of this rank in the group.
        size: Number of ranks.
    """

    def __init__(self, rank: int, size: int) -> None:
        self._rank = rank
        self._size = size

    def rank(self) -> int:
        """Return the number of this rank."""
        return self._rank

    def size(self) -> int:
        """Return the number of ranks."""
        return self._size

    def barrier(self, options: object) -> Work:
        """Return an operation that is over: nobody else has to arrive."""
        return _Done()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*arguments: object, **options: object) -> Work:
            raise RuntimeError(f"the other ranks of an rdccl-dry group do not exist, so that {name} needs a dry run")

        return refuse
