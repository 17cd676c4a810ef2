"""Labels: names of device tensors, which appear in memory snapshots, out-of-memory errors and saved files."""

import functools
from typing import Any

import torch
from torch.overrides import has_torch_function_unary

from ._name import NAME

__all__ = ["get_label", "label_module", "set_label"]


def set_label(tensor: torch.Tensor, label: str | None) -> None:
    """Set the label of a device tensor.

    The label survives ``torch.save`` and ``torch.load``, pickling, ``clone`` and ``copy.deepcopy``. If the tensor covers its whole
    storage, the memory block gets the label, too: views of it return it, the blocks of :func:`torch.rustdev.memory_snapshot` have
    it as ``label``, and an out-of-memory error lists the largest labelled blocks.

    Args:
        tensor: Tensor on a rustdev device.
        label: Label; None removes it.

    Raises:
        RuntimeError: If the tensor is on another device.
    """
    torch.ops.rustdev.set_label(tensor, label)


def get_label(tensor: torch.Tensor) -> str | None:
    """Return the label of a tensor, or of the memory that it views; None if there is none or the tensor is on another device.

    Args:
        tensor: Tensor on any device.
    """
    label: str | None = torch.ops.rustdev.label(tensor)
    return label


def label_module(module: torch.nn.Module, prefix: str = "") -> None:
    """Label the parameters and buffers of a module that are on the device with their names in ``state_dict``.

    Args:
        module: Module to label.
        prefix: Prefix of each label.
    """
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.device.type == NAME:
            set_label(tensor, prefix + name)


def _install() -> None:
    """Make ``copy.deepcopy`` keep labels: PyTorch builds the copy from a bare storage, without calling the backend."""
    original = torch.Tensor.__deepcopy__

    @functools.wraps(original)
    def deepcopy(self: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
        copied = original(self, memo)  # type: ignore[no-untyped-call]
        if has_torch_function_unary(self):
            return copied  # type: ignore[no-any-return]
        if self.device.type == NAME and (label := get_label(self)) is not None:
            set_label(copied, label)
        return copied  # type: ignore[no-any-return]

    torch.Tensor.__deepcopy__ = deepcopy  # type: ignore[method-assign]
