"""Compiles generated kernels and links them to the loaded runtime."""

import ctypes
import functools
from pathlib import Path
from typing import Any

from torch._inductor.async_compile import AsyncCompile, get_compile_threads
from torch._inductor.codecache import CppPythonBindingsCodeCache, LambdaFuture
from torch._inductor.cpp_builder import is_gcc
from torch._inductor.utils import clear_on_fresh_cache

from .. import _rustdev

#: Functions of the runtime, in the order of ``Runtime`` in kernel.h.
FUNCTIONS = ("rd_stream_current", "rd_stream_submit", "rd_parallel", "rd_last_error")
#: Number of parts of a parallel loop: enough for the threads of a large machine.
PARTS = 64


@functools.cache
def _functions() -> Any:
    """Return the addresses of the runtime's functions as a C array."""
    # The module is already loaded: this is its handle, not a second copy.
    runtime = ctypes.CDLL(_rustdev.__file__)
    return (ctypes.c_void_p * len(FUNCTIONS))(*(ctypes.cast(getattr(runtime, name), ctypes.c_void_p).value for name in FUNCTIONS))


def connect(path: str) -> None:
    """Pass the addresses of the runtime's functions to a loaded library of kernels.

    Args:
        path: Path of the library.
    """
    ctypes.CDLL(path).rustdev_connect(_functions())


def flags() -> tuple[str, ...]:
    """Return the compiler flags in addition to Inductor's.

    PyTorch's header has a variable that points to the division-by-zero flag in the frame of the running CPU kernel. gcc makes this
    variable unique in the process (STB_GNU_UNIQUE). With the flag returned here, each kernel of ours has its own variable, which is
    never set, so that a division by zero throws.
    """
    return ("-fno-gnu-unique",) if is_gcc() else ()


@functools.cache
def prefix() -> str:
    """Return the prefix of the source of kernels. Its text is part of the cache key."""
    glue = Path(__file__).with_name("kernel.h").read_text(encoding="utf-8")
    # The include must be the first line: only then is the precompiled header used.
    return f"#include <torch/csrc/inductor/cpp_prefix.h>\n#define RUSTDEV_PARTS {PARTS}\n{glue}\n"


@clear_on_fresh_cache
class _KernelCache(CppPythonBindingsCodeCache):
    """Cache of compiled kernels with Python bindings, in which a call submits a task."""

    cache: dict[str, Any] = {}  # noqa: RUF012 - overrides the base class's, one for each subclass
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
        argument_types: C++ types of its arguments.
        source: C++ source, as written by ``loops.Group``.

    Returns:
        A callable that takes a device index and the arguments; with parallel compilation, a future of it.
    """
    arguments = (["int64_t", *argument_types], prefix() + source)
    if get_compile_threads() <= 1:
        return _KernelCache.load_pybinding(*arguments, extra_flags=flags())
    return LambdaFuture(_KernelCache.load_pybinding_async(*arguments, extra_flags=flags(), submit_fn=AsyncCompile.submit))
