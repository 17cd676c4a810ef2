"""Compiles generated kernels, and connects them with the loaded runtime."""

import ctypes
import functools
from pathlib import Path
from typing import Any

from torch._inductor.async_compile import AsyncCompile, get_compile_threads
from torch._inductor.codecache import CppPythonBindingsCodeCache, LambdaFuture
from torch._inductor.cpp_builder import is_gcc
from torch._inductor.utils import clear_on_fresh_cache

from .. import _rustdev

__all__ = ["PARTS", "connect", "flags", "kernel", "prefix"]

#: The runtime's functions, in the order of ``Runtime`` in kernel.h.
FUNCTIONS = ("rd_stream_current", "rd_stream_submit", "rd_parallel", "rd_last_error")
#: Into so many parts a parallel loop is divided: enough for the threads of a large machine.
PARTS = 64


@functools.cache
def _functions() -> Any:
    """Return the addresses of the runtime's functions, as C takes them."""
    # The module is loaded already: this is its handle, not another copy.
    runtime = ctypes.CDLL(_rustdev.__file__)
    return (ctypes.c_void_p * len(FUNCTIONS))(*(ctypes.cast(getattr(runtime, name), ctypes.c_void_p).value for name in FUNCTIONS))


def connect(path: str) -> None:
    """Give the kernels of a loaded library the runtime's functions.

    Args:
        path: The library's file.
    """
    ctypes.CDLL(path).rustdev_connect(_functions())


def flags() -> tuple[str, ...]:
    """Return the compiler's flags beside Inductor's.

    PyTorch's header keeps the place for a division by zero in a variable that points into the frame of the CPU kernel that runs at
    the moment, and that gcc makes one for the whole process. So each kernel of ours has its own, which is never set: the division
    throws.
    """
    return ("-fno-gnu-unique",) if is_gcc() else ()


@functools.cache
def prefix() -> str:
    """Return what the source of kernels begins with; its text is in the cache's key."""
    glue = Path(__file__).with_name("kernel.h").read_text(encoding="utf-8")
    # First, and alone on its line: only then is the precompiled header used.
    return f"#include <torch/csrc/inductor/cpp_prefix.h>\n#define RUSTDEV_PARTS {PARTS}\n{glue}\n"


@clear_on_fresh_cache
class _KernelCache(CppPythonBindingsCodeCache):
    """Inductor's compiled kernels with Python bindings, where a call becomes a task."""

    cache: dict[str, Any] = {}  # noqa: RUF012 - the base class's, one for each subclass
    cache_clear = staticmethod(cache.clear)
    call_entry_function = "rustdev::enqueue(kernel, cost, kernel_name, {}); Py_RETURN_NONE;"

    @classmethod
    def _load_library_inner(cls, path: str, key: str) -> Any:
        module = super()._load_library_inner(path, key)
        connect(path)
        return module


def kernel(argument_types: list[str], source: str) -> Any:
    """Compile a kernel.

    Args:
        argument_types: The C++ types of its arguments.
        source: Its C++ source, as ``loops.Group`` writes it.

    Returns:
        What calls it with a device's index and the arguments; where several are compiled at a time, the future of that.
    """
    arguments = (["int64_t", *argument_types], prefix() + source)
    if get_compile_threads() <= 1:
        return _KernelCache.load_pybinding(*arguments, extra_flags=flags())
    return LambdaFuture(_KernelCache.load_pybinding_async(*arguments, extra_flags=flags(), submit_fn=AsyncCompile.submit))
