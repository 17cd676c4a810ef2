"""``rdccl``, the communication backend of ``torch.distributed`` for tensors of the device.

Here is its registration alone, so that ``import rustdev`` stays as quick as it is: the rest is loaded with the first process group.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backend import ProcessGroupRdccl

__all__ = ["register"]


def _create(options: Any, backend_options: object | None) -> "ProcessGroupRdccl":
    """Make the backend of one process group, as ``torch.distributed`` asks for it.

    Args:
        options: Store, rank, size, timeout and name of the group.
        backend_options: Must be None.
    """
    from .backend import ProcessGroupRdccl

    if backend_options is not None:
        raise TypeError(f"rdccl takes no options, but pg_options is a {type(backend_options).__name__}")
    return ProcessGroupRdccl.connect(options)


def register() -> None:
    """Make ``rdccl`` known to ``torch.distributed`` and the default for tensors of the device; does nothing the second time."""
    from torch.distributed.distributed_c10d import Backend

    if "RDCCL" not in Backend._plugins:
        Backend.register_backend("rdccl", _create, extended_api=True, devices=["rustdev"])


def _install() -> None:
    """Register where ``torch.distributed`` is part of this torch; ``import torch`` has loaded it then."""
    if "torch.distributed.distributed_c10d" in sys.modules:
        register()
