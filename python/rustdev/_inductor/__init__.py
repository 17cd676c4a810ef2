"""torch.compile for the device: PyTorch's Inductor generates C++ kernels, which run as tasks on the device's streams.

Importing this package is cheap, because it imports nothing of the compiler: modules of the compiler are patched when PyTorch loads
them. The rest is imported with the first graph for the device, when Inductor calls :func:`init_backend`.

| module | content |
|---|---|
| ``interface`` | the device interface of Dynamo and Inductor |
| ``layouts`` | the strides of convolution results for fake tensors |
| ``backend`` | the registration with Inductor |
| ``old_gpus`` | what is not compiled on imitated GPUs |
| ``choices`` | operators that are not compiled, and other differences from the CPU |
| ``scheduling``, ``loops`` | the C++ code of fused operators |
| ``wrapper`` | the code that allocates memory and calls kernels |
| ``kernels``, ``kernel.h`` | compilation of a kernel, and the header of all kernels |
| ``builds`` | atomic creation of compiled files in the cache |
"""

from types import ModuleType

import torch

from .._imports import _after_import
from .._name import NAME

__all__ = ["init_backend"]

#: The first release with ``_inductor_backend_init`` and ``get_cache_system_info``. Older releases, whose code generators are
#: untested, are not patched: their Inductor reports that it does not know the device.
_FIRST_RELEASE = (2, 15)


def _is_supported(version: str) -> bool:
    """Return whether a release of PyTorch is supported for torch.compile.

    Args:
        version: ``torch.__version__``.
    """
    major, minor = version.split(".")[:2]
    return (int(major), int(minor)) >= _FIRST_RELEASE


def init_backend() -> None:
    """Register the device with Inductor, which calls this before it lowers the first graph for it.

    Raises:
        NotImplementedError: If the release of PyTorch is too old.
    """
    if not _is_supported(torch.__version__):
        first = ".".join(map(str, _FIRST_RELEASE))
        raise NotImplementedError(f"rustdev compiles with torch {first} or newer, and this is torch {torch.__version__}")
    from . import backend

    backend.register()


def _add_interface(device_interface: ModuleType) -> None:
    from .interface import Interface

    # register_interface_for_device cannot be used: it would import device_interface, which is still being loaded.
    device_interface.device_interfaces[NAME] = Interface


def _keep_operators(decomposition: ModuleType) -> None:
    from .choices import keep_undecomposed

    keep_undecomposed(decomposition)


def _build_whole_files(codecache: ModuleType) -> None:
    from .builds import build_missing

    # Applies to all devices: kernels, graphs in C++ and precompiled headers. Compile workers import the function by its name.
    codecache._worker_compile_cpp = build_missing  # type: ignore[attr-defined]


def _allow_flex_attention(module: ModuleType) -> None:
    from . import flex_attention

    flex_attention.allow(module)


def _skip_bfloat16(compile_fx: ModuleType) -> None:
    from .old_gpus import skip_bfloat16

    skip_bfloat16(compile_fx)


def _skip_our_frames(trace_rules: ModuleType) -> None:
    """Make Dynamo skip this package. Else it would trace our functions with fake tensors, for example in ``fork_rng``."""
    trace_rules.add("rustdev")


def _install() -> None:
    """Register the hooks that add the device to the compiler, if the release of PyTorch is supported."""
    if not _is_supported(torch.__version__):
        return
    from . import layouts

    layouts.install()
    _after_import("torch._inductor.decomposition", _keep_operators)
    _after_import("torch._dynamo.device_interface", _add_interface)
    _after_import("torch._dynamo.trace_rules", _skip_our_frames)
    _after_import("torch._inductor.compile_fx", _skip_bfloat16)
    _after_import("torch._inductor.codecache", _build_whole_files)
    _after_import("torch.nn.attention.flex_attention", _allow_flex_attention)
