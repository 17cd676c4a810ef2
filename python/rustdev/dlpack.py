"""DLPack: tensors of the device as other libraries see them, of the device type ``kDLExtDev``.

PyTorch's C++ packs and unpacks such tensors, but its Python methods know an extension device by the name "privateuse1" alone, which
a renamed one does not have, and order streams for CUDA alone.
"""

import enum
import functools
from typing import Any

import torch
from torch.overrides import has_torch_function_unary
from torch.utils import dlpack

from .streams import ExternalStream, current_stream, default_stream

__all__: list[str] = []


def _order(device: torch.device, stream: int | None) -> None:
    """Make the stream that a consumer names wait for the current one of the device.

    Args:
        device: The tensor's device.
        stream: A native handle; None for the default stream; -1 for none, as the consumer orders its work itself.
    """
    if stream == -1:
        return
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    consumer = default_stream(device) if stream is None else ExternalStream(stream, device)
    consumer.wait_stream(current_stream(device))


def _is_ours(tensor: torch.Tensor) -> bool:
    """Tell tensors of the device, without a question to a subclass: torch's own methods hand those over first."""
    return not has_torch_function_unary(tensor) and tensor.device.type == "rustdev"


def _install() -> None:
    """Give ``torch.Tensor`` DLPack methods that know the device."""
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
    # A wrapper class of torch that passes these two methods on and refuses all others.
    read_only = getattr(dlpack, "ReadOnlyTensorWrapper", None)
    if read_only is not None:
        read_only._DLPACK_ALLOWED |= {__dlpack__, __dlpack_device__}
