"""rustdev: a PyTorch accelerator that runs on any CPU.

Importing this package registers the device ``rustdev`` with PyTorch and makes this package available as ``torch.rustdev``, with
the names and the behaviour of ``torch.cuda``. Where the package is installed, ``import torch`` imports it.

Raises:
    ImportError: If rustdev has no shim for this minor release of torch, or another backend has taken PyTorch's PrivateUse1 slot.
    ValueError: If a ``RUSTDEV_*`` environment variable is unknown or malformed.
"""
# ruff: noqa: E402, F401 - the device is registered between the imports, and private names are part of torch's protocol

import sys
from typing import TYPE_CHECKING

import torch
from torch import AcceleratorError, OutOfMemoryError

if torch._C._get_privateuse1_backend_name() not in ("privateuseone", "rustdev"):
    raise ImportError(f"torch holds one extension device at a time, and it is {torch._C._get_privateuse1_backend_name()} already")

from . import _rustdev, _shim_loader

_shim_loader.load(torch.__version__)

# A failed import leaves a placeholder module (rustdev_autoload.Unavailable).
if hasattr(torch, "rustdev"):
    del torch.rustdev

torch.utils.rename_privateuse1_backend("rustdev")
torch._register_device_module("rustdev", sys.modules[__name__])
torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True)

from . import (
    _absent,
    _exit,
    _inductor,
    _ops,
    amp,
    backends,
    debugging,
    distributed,
    dlpack,
    graphs,
    label,
    legacy,
    memory,
    multiprocessing,
    nvtx,
    profiler,
    random,
    streams,
)
from ._inductor import init_backend as _inductor_backend_init
from ._rustdev import __version__
from .amp import (
    get_amp_supported_dtype,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from .coverage import (
    FallbackStat,
    coverage,
    fallback_allowlist,
    fallback_blocklist,
    fallback_mode,
    fallback_stats,
    op_calls,
    reset_fallback_stats,
    set_fallback_allowlist,
    set_fallback_blocklist,
    set_fallback_mode,
)
from .debugging import inject_faults, schedule
from .device import (
    DeviceProperties,
    _exchange_device,
    _is_compiled,
    _is_in_bad_fork,
    _lazy_init,
    _maybe_exchange_device,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_num_threads,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    set_num_threads,
    synchronize,
)
from .graphs import Graph, RustdevGraph, graph, graph_pool_handle, is_current_stream_capturing, make_graphed_callables
from .label import get_label, label_module, set_label
from .memory import (
    MemPool,
    _allocation_traceback,
    _dump_snapshot,
    _record_memory_history,
    _save_memory_usage,
    _save_segment_usage,
    _snapshot,
    attach_out_of_memory_observer,
    caching_allocator_alloc,
    caching_allocator_delete,
    caching_allocator_enable,
    device_memory_used,
    empty_cache,
    empty_host_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    list_gpu_processes,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    use_mem_pool,
)
from .multiprocessing import ipc_collect
from .random import (
    _get_generator,
    _get_rng_state_offset,
    _set_rng_state_offset,
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .sanitizer import (
    SanitizerAccess,
    SanitizerReport,
    SynchronizationError,
    clear_sanitizer_reports,
    disable_sanitizer,
    enable_sanitizer,
    sanitizer,
    sanitizer_mode,
    sanitizer_reports,
)
from .sanitizer import _begin as _begin_sanitizer
from .streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    _sleep,
    current_stream,
    default_stream,
    get_stream_from_external,
    launch_host_func,
    set_stream,
    stream,
)
from .sync_debug import get_sync_debug_mode, set_sync_debug_mode
from .waits import wait_report

label._install()
dlpack._install()
multiprocessing._install()
_exit._install()
_inductor._install()
distributed._install()
_begin_sanitizer()
sys.modules["torch.backends.rustdev"] = backends
torch.backends.rustdev = backends  # type: ignore[attr-defined]
globals().update({name: getattr(legacy, name) for name in legacy.__all__})

if TYPE_CHECKING:
    from ._cuda_scope import as_cuda
else:  # hidden from type checkers, which would accept every name

    def __getattr__(name: str) -> object:
        if name == "as_cuda":  # imported lazily: few programs need it
            from . import _cuda_scope

            globals()[name] = _cuda_scope.as_cuda
            return _cuda_scope.as_cuda
        if name == "_initialized":  # torch.utils.checkpoint saves the RNG states if this is true
            return is_initialized()
        return _absent._refuse("torch.rustdev", name)


__all__ = [
    "AcceleratorError",
    "DeviceProperties",
    "Event",
    "ExternalStream",
    "FallbackStat",
    "Graph",
    "MemPool",
    "OutOfMemoryError",
    "RustdevGraph",
    "SanitizerAccess",
    "SanitizerReport",
    "Stream",
    "StreamContext",
    "SynchronizationError",
    "__version__",
    "amp",
    "as_cuda",
    "attach_out_of_memory_observer",
    "backends",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_enable",
    "can_device_access_peer",
    "clear_sanitizer_reports",
    "coverage",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "disable_sanitizer",
    "distributed",
    "empty_cache",
    "empty_host_cache",
    "enable_sanitizer",
    "fallback_allowlist",
    "fallback_blocklist",
    "fallback_mode",
    "fallback_stats",
    "get_allocator_backend",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_autocast_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_label",
    "get_num_threads",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "graphs",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "inject_faults",
    "ipc_collect",
    "is_autocast_available",
    "is_autocast_enabled",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "label_module",
    "launch_host_func",
    "list_gpu_processes",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "nvtx",
    "op_calls",
    "profiler",
    "random",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_fallback_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "sanitizer",
    "sanitizer_mode",
    "sanitizer_reports",
    "schedule",
    "seed",
    "seed_all",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_device",
    "set_fallback_allowlist",
    "set_fallback_blocklist",
    "set_fallback_mode",
    "set_label",
    "set_num_threads",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "streams",
    "synchronize",
    "use_mem_pool",
    "wait_report",
]
__all__ += legacy.__all__
