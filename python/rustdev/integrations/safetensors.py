"""safetensors: loading a file onto the device."""

from types import ModuleType
from typing import Any

import torch

from .._imports import _replace_everywhere
from .._name import NAME
from .._utils import _checked_device_index

__all__ = ["read_onto_device"]


def read_onto_device(library: ModuleType) -> None:
    """Patch load_file and load_model to accept the device by name; unpatched, they accept only its index.

    Args:
        library: ``safetensors.torch``.
    """
    read = library.load_file

    def load_file(filename: Any, device: Any = "cpu", **kwargs: Any) -> Any:
        if isinstance(device, str | torch.device) and torch.device(device).type == NAME:
            device = _checked_device_index(device)
        return read(filename, device=device, **kwargs)

    _replace_everywhere(read, load_file)
