"""What Dynamo and Inductor may ask about the device."""

import hashlib
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

__all__ = ["Interface"]


def _hash_of_generator() -> str:
    """Return a hash of this package's files: other code would be generated if one of them changed."""
    files = sorted(path for path in Path(__file__).parent.rglob("*") if path.suffix in (".py", ".h"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


class Interface(DeviceInterface):
    """The device, as the compiler sees it.

    ``is_gpu`` stays False: Inductor would look for Triton otherwise.
    """

    device = device
    Event = streams.Event
    Stream = streams.Stream

    class Worker:
        """The same for the processes that compile: they see no device of their own."""

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
        """Return nothing: generated code depends on the processor, which Inductor looks at itself."""
        return ""

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        """Return whether bfloat16 can be computed with: always."""
        return True

    @staticmethod
    def get_cpp_device_options(
        aot_mode: bool, compile_only: bool
    ) -> tuple[list[str], list[str], list[str], list[str], list[str], list[str], list[str]]:
        """Return what a graph in C++ is compiled with beside what the CPU's is.

        Args:
            aot_mode: Whether for AOTInductor, whose headers know no devices but PyTorch's own: with ``USE_MPS`` they ask the
                functions that our header defines for memory.
            compile_only: Whether it is not linked at once.

        Returns:
            Definitions, folders of headers, compiler's flags, linker's flags, folders of libraries, libraries, other arguments.
        """
        from torch.utils.cpp_extension import include_paths, library_paths

        from .kernels import flags

        definitions = ["USE_MPS"] if aot_mode else []
        headers = [str(Path(__file__).with_name("include")), *include_paths()]
        return definitions, headers, [flag.removeprefix("-") for flag in flags()], [], library_paths(), [], []

    @classmethod
    def get_cache_system_info(cls) -> dict[str, object]:
        """Return what compiled code depends on beside PyTorch, for the keys of Inductor's caches."""
        return {
            "version": _rustdev.__version__,
            "instruction_set": _rustdev.instruction_set(),
            "generator": _hash_of_generator(),
        }
