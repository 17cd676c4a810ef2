"""Legacy types such as ``torch.rustdev.FloatTensor`` and ``FloatStorage``, for programs older than dtypes and devices.

PyTorch creates such classes only for its own devices, but uses their names for this device: ``tensor.type()`` returns them,
``tensor.type(cls)`` accepts them, and a typed storage looks up its class here.
"""

from typing import Any

import torch
from torch.storage import _LegacyStorage, _warn_typed_storage_removal

from ._name import NAME
from ._utils import DeviceLike, _checked_device_index

_DTYPES = {
    "BFloat16": torch.bfloat16, "Bool": torch.bool, "Byte": torch.uint8, "Char": torch.int8, "Double": torch.float64,
    "Float": torch.float32, "Half": torch.float16, "Int": torch.int32, "Long": torch.int64, "Short": torch.int16,
}  # fmt: skip
_COMPLEX_DTYPES = {"ComplexDouble": torch.complex128, "ComplexFloat": torch.complex64}

__all__ = sorted([f"{name}Tensor" for name in _DTYPES] + [f"{name}Storage" for name in _DTYPES | _COMPLEX_DTYPES])


class _TensorType(type):
    """Metaclass of the legacy tensor types: their instances are the device tensors of a dtype, and calling one creates a tensor."""

    dtype: torch.dtype

    def __repr__(cls) -> str:
        return f"<class '{cls.__name__}'>"

    def __instancecheck__(cls, instance: object) -> bool:
        if not isinstance(instance, torch.Tensor):
            return False
        return (instance.device.type, instance.layout, instance.dtype) == (NAME, torch.strided, cls.dtype)

    def __call__(cls, *data: Any, device: DeviceLike = None) -> torch.Tensor:
        """Create a tensor: uninitialized from sizes, with the values of a sequence or an array, or an alias of a tensor.

        Raises:
            TypeError: If the argument is a tensor of another type.
        """
        place = torch.device(NAME, _checked_device_index(device))
        if len(data) != 1 or isinstance(data[0], int):
            return torch.empty(data or (0,), dtype=cls.dtype, device=place)
        (source,) = data
        if isinstance(source, torch.Size):
            return torch.empty(source, dtype=cls.dtype, device=place)
        if isinstance(source, torch.Tensor) and not isinstance(source, cls):
            raise TypeError(f"expected {cls.__name__} (got {source.type()})")
        if isinstance(source, torch.Tensor):
            return torch.ops.aten.alias(source)  # type: ignore[no-any-return]
        return torch.tensor(source, dtype=cls.dtype, device=place)


class _StorageType(type(_LegacyStorage)):  # type: ignore[misc]
    """Metaclass of the legacy storage types: reading ``dtype`` warns, as for PyTorch's own typed storages."""

    @property
    def dtype(cls) -> torch.dtype:
        _warn_typed_storage_removal()
        return cls._dtype  # type: ignore[no-any-return]


def _tensor_type(name: str, dtype: torch.dtype) -> type:
    # PyTorch parses the device and the dtype from the qualified name of the type.
    attributes = {"dtype": dtype, "layout": torch.strided, "is_sparse": False, f"is_{NAME}": True, "__module__": f"torch.{NAME}"}
    return _TensorType(f"torch.{NAME}.{name}", (), attributes)


def _storage_type(name: str, dtype: torch.dtype) -> type:
    # PyTorch reads the device from the module's name.
    return _StorageType(name, (_LegacyStorage,), {"_dtype": dtype, "__module__": f"torch.{NAME}"})


def _types() -> dict[str, type]:
    tensors = {f"{name}Tensor": _tensor_type(f"{name}Tensor", dtype) for name, dtype in _DTYPES.items()}
    storages = {f"{name}Storage": _storage_type(f"{name}Storage", dtype) for name, dtype in (_DTYPES | _COMPLEX_DTYPES).items()}
    return tensors | storages


globals().update(_types())
