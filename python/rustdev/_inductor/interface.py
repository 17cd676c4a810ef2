"""The device interface of Dynamo and Inductor."""

import hashlib
import sys
from pathlib import Path
from typing import Any

from torch._dynamo.device_interface import DeviceInterface

from .. import _rustdev, streams
from ..device import (
    _exchange_device,
    _maybe_exchange_device,
    current_device,
    device,
    device_count,
    get_device_properties,
    is_available,
    set_device,
    synchronize,
)
from .old_gpus import has_bfloat16


def _hash_of_generator() -> str:
    """Return a hash of this package's files, on which the generated code depends."""
    files = sorted(path for path in Path(__file__).parent.rglob("*") if path.suffix in (".py", ".h"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


class Interface(DeviceInterface):
    """Device interface of the device.

    ``is_gpu`` stays False, because Inductor would require Triton otherwise.
    """

    device = device
    Event = streams.Event
    Stream = streams.Stream

    class Worker:
        """Device interface of compile workers, which use no device."""

        set_device = staticmethod(set_device)
        current_device = staticmethod(current_device)
        get_device_properties = staticmethod(get_device_properties)

    current_device = staticmethod(current_device)
    set_device = staticmethod(set_device)
    exchange_device = staticmethod(_exchange_device)  # type: ignore[assignment]
    maybe_exchange_device = staticmethod(_maybe_exchange_device)  # type: ignore[assignment]
    device_count = staticmethod(device_count)
    is_available = staticmethod(is_available)
    stream = staticmethod(streams.stream)
    current_stream = staticmethod(streams.current_stream)
    set_stream = staticmethod(streams.set_stream)
    synchronize = staticmethod(synchronize)

    @staticmethod
    def get_compute_capability(device: Any = None) -> str:
        """Return an empty string: generated code depends on the processor, which Inductor detects by itself."""
        return ""

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        """Return whether graphs may have bfloat16.

        Args:
            including_emulation: If False, return whether the GPU that the device imitates, if any, supports bfloat16 natively.
        """
        return including_emulation or has_bfloat16()

    @staticmethod
    def get_cpp_device_options(
        aot_mode: bool, compile_only: bool
    ) -> tuple[list[str], list[str], list[str], list[str], list[str], list[str], list[str]]:
        """Return the additional compiler options of a graph in C++, on top of those for the CPU.

        Args:
            aot_mode: Whether to compile for AOTInductor. Its headers support only PyTorch's own devices; with ``USE_MPS`` they
                allocate memory by functions that our header defines.
            compile_only: Whether linking is a separate step.

        Returns:
            Definitions, include directories, compiler flags, linker flags, library directories, libraries, other arguments.
        """
        from torch.utils.cpp_extension import include_paths, library_paths

        from .kernels import flags

        definitions = ["USE_MPS"] if aot_mode else []
        headers = [str(Path(__file__).with_name("include")), *include_paths()]
        return definitions, headers, [flag.removeprefix("-") for flag in flags()], [], library_paths(), [], []

    @classmethod
    def get_cache_system_info(cls) -> dict[str, object]:
        """Return what compiled code depends on in addition to PyTorch, for the keys of Inductor's caches."""
        integration = sys.modules.get("rustdev.integrations.torchao")
        return {
            "version": _rustdev.__version__,
            "instruction_set": _rustdev.instruction_set(),
            "generator": _hash_of_generator(),
            "bfloat16": has_bfloat16(),
            "torchao": integration.cache_key() if integration else None,
        }
