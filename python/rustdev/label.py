"""Labels: names for tensors of the device, which memory snapshots, out-of-memory errors and saved files keep."""

import functools
from typing import Any

import torch
from torch.overrides import has_torch_function_unary

__all__ = ["get_label", "label_module", "set_label"]


def set_label(tensor: torch.Tensor, label: str | None) -> None:
    """Name a tensor of the device.

    The name survives ``torch.save`` and ``torch.load``, pickling, ``clone`` and ``copy.deepcopy``. Where the tensor covers its
    storage, the block of memory gets the name, too: views show it, the blocks of :func:`torch.rustdev.memory_snapshot` have it as
    ``label``, and an out-of-memory error lists the largest blocks that have one.

    Args:
        tensor: A tensor of a rustdev device.
        label: The name; None takes it away.

    Raises:
        RuntimeError: The tensor is on another device.
    """
    torch.ops.rustdev.set_label(tensor, label)


def get_label(tensor: torch.Tensor) -> str | None:
    """Return the name of a tensor, or that of the memory it views; None if it has none or is on another device.

    Args:
        tensor: Any tensor.
    """
    label: str | None = torch.ops.rustdev.label(tensor)
    return label


def label_module(module: torch.nn.Module, prefix: str = "") -> None:
    """Name the parameters and buffers of a module that are on the device as ``state_dict`` names them.

    Args:
        module: The module.
        prefix: What each name begins with.
    """
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.device.type == "rustdev":
            set_label(tensor, prefix + name)


def _install() -> None:
    """Have ``copy.deepcopy`` keep labels: PyTorch builds the copy from a bare storage, without asking the backend."""
    original = torch.Tensor.__deepcopy__

    @functools.wraps(original)
    def deepcopy(self: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
        copied = original(self, memo)  # type: ignore[no-untyped-call]
        if has_torch_function_unary(self):
            return copied  # type: ignore[no-any-return]
        if self.device.type == "rustdev" and (label := get_label(self)) is not None:
            set_label(copied, label)
        return copied  # type: ignore[no-any-return]

    torch.Tensor.__deepcopy__ = deepcopy  # type: ignore[method-assign]
