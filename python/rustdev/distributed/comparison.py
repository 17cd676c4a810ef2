"""Comparison of the calls of all ranks (``RUSTDEV_NCCL``): ranks that call different collectives fail with a report of both calls.

Before a collective the ranks exchange descriptions of their calls through Gloo. Messages and coalesced operations, which may differ
among the ranks, are not compared.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rustdev.waits import _directories

#: Bytes of a description.
_BYTES = 1024
#: Operations whose ranks may differ in sizes.
_UNEVEN = ("all_to_all", "barrier", "gather", "scatter")
#: Operations that are not compared.
_NOT_COMPARED = ("coalesced", "recv", "refused", "send")


class CollectiveCall(NamedTuple):
    """A rank's call of a collective."""

    name: str
    tensors: str
    line: str

    def __str__(self) -> str:
        return f"calls {self.name}{self.tensors} at {self.line}"

    def is_like(self, other: "CollectiveCall") -> bool:
        """Return whether another rank's call belongs to this one."""
        return self[:2] == other[:2]


def _users_line() -> str:
    """Return file, line and function of the innermost frame that is not of PyTorch or this package."""
    libraries = tuple(path for paths in _directories() for path in paths)
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(libraries):
        frame = frame.f_back
    return f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name}"


class Comparison:
    """Compares the calls of a group.

    Args:
        gloo: Gloo process group of the ranks.
        hangs: Whether calls that differ fail after the timeout, as with NCCL, and not at once.
    """

    def __init__(self, gloo: Any, *, hangs: bool) -> None:
        self._gloo = gloo
        self.hangs = hangs

    def call(self, name: str, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> CollectiveCall | None:
        """Describe a call of the program, on its thread; None if it is not compared."""
        if name.startswith(_NOT_COMPARED):
            return None
        dtypes = {str(tensor.dtype).removeprefix("torch.") for tensor in (*outputs, *inputs)}
        text = f" of {', '.join(sorted(dtypes))}" if dtypes else ""
        if not name.startswith(_UNEVEN):
            count = max(sum(tensor.numel() for tensor in tensors) for tensors in (outputs, inputs))
            text += f" with {count} elements"
        return CollectiveCall(name, text, _users_line())

    def difference(self, call: CollectiveCall) -> str | None:
        """Compare the calls of all ranks, and wait for them.

        Args:
            call: This rank's.

        Returns:
            Report of the first two calls that differ; None if none do.
        """
        data = "\0".join(call).encode()[:_BYTES].ljust(_BYTES, b"\0")
        own = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        found = [torch.empty(_BYTES, dtype=torch.uint8, device="cpu") for _ in range(self._gloo.size())]
        self._gloo.allgather([found], [own]).wait()
        calls = [CollectiveCall(*bytes(it.tolist()).rstrip(b"\0").decode(errors="replace").split("\0", 2)) for it in found]
        for rank, other in enumerate(calls):
            if not calls[0].is_like(other):
                return f"the ranks call different collectives: rank 0 {calls[0]}; rank {rank} {other}"
        return None
