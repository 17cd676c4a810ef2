"""DLPack: exchange of the device's tensors with other libraries, with the device type ``kDLExtDev``.

PyTorch's C++ code packs and unpacks such tensors. Its Python methods, however, recognize an extension device only by the name
"privateuse1", which a renamed device does not have, and synchronize streams only for CUDA. This module replaces these methods.
"""

import enum
import functools
from typing import Any

import torch
from torch.overrides import has_torch_function_unary
from torch.utils import dlpack

from ._name import NAME
from .streams import ExternalStream, current_stream, default_stream

__all__: list[str] = []


def _order(device: torch.device, stream: int | None) -> None:
    """Make the consumer's stream wait for the current stream of the device.

    Args:
        device: Device of the tensor.
        stream: Native handle of the consumer's stream; None for the default stream; -1 for no synchronization.
    """
    if stream == -1:
        return
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    consumer = default_stream(device) if stream is None else ExternalStream(stream, device)
    consumer.wait_stream(current_stream(device))


def _is_ours(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is on the device. Subclasses with __torch_function__ are left to torch's own methods."""
    return not has_torch_function_unary(tensor) and tensor.device.type == NAME


def _install() -> None:
    """Replace the DLPack methods of ``torch.Tensor`` by methods that support the device."""
    export, device_of = torch.Tensor.__dlpack__, torch.Tensor.__dlpack_device__

    @functools.wraps(export)
    def __dlpack__(self: torch.Tensor, *, stream: Any = -1, **options: Any) -> Any:  # noqa: N807
        if not _is_ours(self):
            return export(self, stream=stream, **options)
        _order(self.device, stream)
        return export(self, stream=-1, **options)

    @functools.wraps(device_of)
    def __dlpack_device__(self: torch.Tensor) -> tuple[enum.IntEnum, int]:  # noqa: N807
        return (dlpack.DLDeviceType.kDLExtDev, self.device.index) if _is_ours(self) else device_of(self)

    torch.Tensor.__dlpack__ = __dlpack__  # type: ignore[method-assign]
    torch.Tensor.__dlpack_device__ = __dlpack_device__  # type: ignore[method-assign]
    # This wrapper class of torch forwards only the methods of this set.
    read_only = getattr(dlpack, "ReadOnlyTensorWrapper", None)
    if read_only is not None:
        read_only._DLPACK_ALLOWED |= {__dlpack__, __dlpack_device__}
