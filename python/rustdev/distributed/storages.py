"""Copies of storages, which PyTorch makes without letting go of Python's lock.

Such a copy waits for the stream, and the stream may wait for an operation whose end needs Python: neither would ever go on.
``torch.save`` and checkpoints copy that way. So the stream is waited for before, without the lock.
"""

import functools
from typing import Any

import torch

__all__ = ["install_storage_copy"]


def _wait_for(storage: torch.UntypedStorage) -> None:
    if storage.device.type == "rustdev":
        torch._C._accelerator_getStream(storage.device.index).synchronize()


@functools.cache
def install_storage_copy() -> None:
    """Have ``UntypedStorage.copy_`` wait first, unless it is one that does not wait."""
    copy = torch.UntypedStorage.copy_

    @functools.wraps(copy)
    def copy_(self: torch.UntypedStorage, source: Any, non_blocking: bool | None = None) -> Any:
        if self.device != source.device and not (non_blocking and (self.is_pinned() or source.is_pinned())):
            _wait_for(self)
            _wait_for(source)
        return copy(self, source, non_blocking)

    torch.UntypedStorage.copy_ = copy_  # type: ignore[assignment, method-assign]
