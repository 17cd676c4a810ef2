"""``rdccl``, the communication backend of ``torch.distributed`` for tensors of the device.

This module only registers the backend, to keep ``import rustdev`` fast. The rest is imported with the first process group.
"""

import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from rustdev._imports import _after_import

from .._name import NAME

if TYPE_CHECKING:
    from .backend import ProcessGroupRdccl

__all__ = ["register"]


def _create(options: Any, backend_options: object | None) -> "ProcessGroupRdccl":
    """Create the backend of a process group, for ``torch.distributed``.

    Args:
        options: Store, rank, size, timeout and name of the group.
        backend_options: Must be None.
    """
    from . import dry_runs
    from .backend import ProcessGroupRdccl

    dry_runs.install()
    if backend_options is not None:
        raise TypeError(f"rdccl takes no options, but pg_options is a {type(backend_options).__name__}")
    return ProcessGroupRdccl.connect(options)


def _create_alone(options: Any, backend_options: object | None) -> "ProcessGroupRdccl":
    """Create a backend whose other ranks do not exist, for ``torch.distributed``."""
    from .backend import ProcessGroupRdccl

    return ProcessGroupRdccl.connect(options, is_alone=True)


def register() -> None:
    """Register ``rdccl``, the default backend of the device, and ``rdccl-dry`` with ``torch.distributed``; once.

    ``rdccl-dry`` is for a dry run of one rank of a group, whose other ranks do not exist: ``store`` may be a ``HashStore``.
    """
    from torch.distributed.distributed_c10d import Backend

    if "RDCCL" not in Backend._plugins:
        Backend.register_backend("rdccl", _create, extended_api=True, devices=[NAME])
        default = Backend.default_device_backend_map[NAME]
        Backend.register_backend("rdccl-dry", _create_alone, extended_api=True, devices=[NAME])
        Backend.default_device_backend_map[NAME] = default


def _add_to_fake(module: ModuleType) -> None:
    """Let PyTorch's fake process group, which moves nothing, accept tensors of the device."""
    devices = module.dist.Backend.backend_capability["fake"]
    if NAME not in devices:
        devices.append(NAME)


def _draw_as_cuda(module: ModuleType) -> None:
    """Have LocalTensor take the random state of the device, as it does for "cuda" and "xpu"; else it would take the CPU's."""
    tracker: Any = module._LocalOffsetBasedRNGTracker
    device_of = tracker._device.fget

    def device(self: Any) -> Any:
        found = device_of(self)
        return SimpleNamespace(type="cuda", index=found.index) if found.type == NAME else found

    tracker._device = property(device)


def _install() -> None:
    """Register the backend if this torch includes ``torch.distributed``, which ``import torch`` has then loaded."""
    if "torch.distributed.distributed_c10d" in sys.modules:
        register()
        _after_import("torch.testing._internal.distributed.fake_pg", _add_to_fake)
        _after_import("torch.distributed._local_tensor", _draw_as_cuda)
