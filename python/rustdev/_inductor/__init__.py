"""torch.compile for the device: PyTorch's Inductor writes C++ kernels, which run as tasks on the device's streams.

Importing this takes no time, because nothing of the compiler is imported: what has to be told to it is told when PyTorch loads the
module concerned. The rest comes with the first graph for the device, when Inductor calls :func:`init_backend`.

| module | what it holds |
|---|---|
| ``interface`` | what Dynamo and Inductor may ask about the device |
| ``layouts`` | the strides of convolutions' results, for tensors without data |
| ``backend`` | the registration with Inductor |
| ``choices`` | which operators stay calls, and what else is compiled otherwise than for the CPU |
| ``scheduling``, ``loops`` | which C++ is written for fused operators |
| ``wrapper`` | the Python that allocates memory and calls kernels |
| ``kernels``, ``kernel.h`` | compiling a kernel, and what is in each of them |
| ``builds`` | compiled files, which are in the cache as a whole or not at all |
"""

from types import ModuleType

import torch

from .._imports import _after_import

__all__ = ["init_backend"]

#: The first release with ``_inductor_backend_init`` and ``get_cache_system_info``. Nothing is installed into older ones, whose
#: code generator has not been tried: there Inductor says that it does not know the device.
_FIRST_RELEASE = (2, 15)


def _is_supported(version: str) -> bool:
    """Return whether a release of PyTorch is one that this package compiles with.

    Args:
        version: ``torch.__version__``.
    """
    major, minor = version.split(".")[:2]
    return (int(major), int(minor)) >= _FIRST_RELEASE


def init_backend() -> None:
    """Register the device with Inductor, which calls this before it lowers the first graph for it.

    Raises:
        NotImplementedError: The release of PyTorch is too old.
    """
    if not _is_supported(torch.__version__):
        first = ".".join(map(str, _FIRST_RELEASE))
        raise NotImplementedError(f"rustdev compiles with torch {first} or newer, and this is torch {torch.__version__}")
    from . import backend

    backend.register()


def _add_interface(device_interface: ModuleType) -> None:
    from .interface import Interface

    # Not by register_interface_for_device: it imports what imports this module, which is not there yet.
    device_interface.device_interfaces["rustdev"] = Interface


def _keep_operators(decomposition: ModuleType) -> None:
    from .choices import keep_undecomposed

    keep_undecomposed(decomposition)


def _build_whole_files(codecache: ModuleType) -> None:
    from .builds import build_missing

    # For every device: kernels, graphs in C++ and precompiled headers. Processes that compile get the function by its name.
    codecache._worker_compile_cpp = build_missing  # type: ignore[attr-defined]


def _skip_our_frames(trace_rules: ModuleType) -> None:
    """Keep Dynamo out of this package: traced, ``torch.random.fork_rng`` would run our functions on tensors without data."""
    trace_rules.add("rustdev")


def _install() -> None:
    """Arrange that the compiler knows the device, where the release of PyTorch is one that this package compiles with."""
    if not _is_supported(torch.__version__):
        return
    from . import layouts

    layouts.install()
    _after_import("torch._inductor.decomposition", _keep_operators)
    _after_import("torch._dynamo.device_interface", _add_interface)
    _after_import("torch._dynamo.trace_rules", _skip_our_frames)
    _after_import("torch._inductor.codecache", _build_whole_files)
