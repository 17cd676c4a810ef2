"""``python -m rustdev.info``: print the environment information for a bug report."""

import os
import platform
from collections.abc import Iterator

import torch

from . import _rustdev, _shim_loader
from ._name import NAME, variable
from .device import _processor_name, device_count, get_num_threads

__all__ = ["describe"]

_MIB = 1 << 20


def _lines() -> Iterator[tuple[str, str]]:
    yield "rustdev", f"{_rustdev.__version__}, with shims for torch {', '.join(_shim_loader.shims())}"
    yield "torch", torch.__version__
    yield "python", f"{platform.python_version()} ({platform.python_implementation()})"
    yield "system", platform.platform()
    yield "processor", f"{_processor_name()}, {os.cpu_count()} logical, {len(os.sched_getaffinity(0))} usable"
    yield "instruction set", _rustdev.instruction_set()
    yield "threads", str(get_num_threads())
    yield "devices", str(device_count())
    for index in range(device_count()):
        free, total = torch.accelerator.get_memory_info(index)
        yield f"memory of {NAME}:{index}", f"{free // _MIB} MiB free of {total // _MIB} MiB"
    for name in sorted(name for name in os.environ if name.startswith((variable(""), "OMP_", "MKL_", "PYTORCH_", "TORCH_"))):
        yield "environment", f"{name}={os.environ[name]}"


def describe() -> str:
    """Return versions, processor, threads, devices, memory and environment variables as text, one per line."""
    return "\n".join(f"{name + ':':20} {value}" for name, value in _lines())


if __name__ == "__main__":
    print(describe())
