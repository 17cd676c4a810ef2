"""rustdev: a PyTorch accelerator that runs on any CPU.

Importing this package, or torch where it is installed, registers the device ``rustdev`` and makes this package ``torch.rustdev``, with
the names and the behaviour of ``torch.cuda``.

Raises:
    ImportError: rustdev was built for another minor release of torch, or another backend holds PyTorch's one slot for such devices.
    ValueError: A ``RUSTDEV_*`` environment variable is unknown or malformed.
"""

import sys

import torch

from . import _torch_build

_torch_build.require(torch.__version__)
if torch._C._get_privateuse1_backend_name() != "privateuseone":
    raise ImportError(f"torch holds one extension device at a time, and it is {torch._C._get_privateuse1_backend_name()} already")

from . import _rustdev  # noqa: E402

torch.utils.rename_privateuse1_backend("rustdev")
torch._register_device_module("rustdev", sys.modules[__name__])
torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True)

from . import amp, memory  # noqa: E402
from ._rustdev import __version__  # noqa: E402
from .amp import get_amp_supported_dtype, is_autocast_available  # noqa: E402
from .coverage import (  # noqa: E402
    FallbackStat,
    coverage,
    fallback_mode,
    fallback_stats,
    op_calls,
    reset_fallback_stats,
    set_fallback_allowlist,
    set_fallback_blocklist,
    set_fallback_mode,
)
from .coverage import (  # noqa: E402
    coverage,
    fallback_mode,
    fallback_stats,
    op_calls,
    reset_fallback_stats,
    set_fallback_allowlist,
    set_fallback_blocklist,
    set_fallback_mode,
)
from .device import (  # noqa: E402
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
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_num_threads,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    set_device,
    set_num_threads,
    synchronize,
)
from .memory import (  # noqa: E402
    attach_out_of_memory_observer,
    caching_allocator_alloc,
    caching_allocator_delete,
    empty_cache,
    empty_host_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    ipc_collect,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .random import (  # noqa: E402
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
from .stream import (  # noqa: E402
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
