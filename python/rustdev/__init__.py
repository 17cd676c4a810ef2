"""rustdev: a PyTorch accelerator that runs on any CPU.

Importing this package registers the device ``rustdev`` with PyTorch and makes this package available as ``torch.rustdev``, with
the names and the behaviour of ``torch.cuda``. Where the package is installed, ``import torch`` imports it.

Raises:
    ImportError: If rustdev has no shim for this minor release of torch, or another backend has taken PyTorch's PrivateUse1 slot.
    ValueError: If a ``RUSTDEV_*`` environment variable is unknown or malformed.
"""
# ruff: noqa: E402, F401, F403 - the device is registered between the imports, and private names are part of torch's protocol

import sys
import types
import typing

import torch
from torch import AcceleratorError as AcceleratorError
from torch import OutOfMemoryError as OutOfMemoryError

from ._name import NAME

if torch._C._get_privateuse1_backend_name() not in ("privateuseone", NAME):
    raise ImportError(f"torch holds one extension device at a time, and it is {torch._C._get_privateuse1_backend_name()} already")

from . import _rustdev, _shim_loader

_shim_loader.load(torch.__version__)

# A failed import leaves a placeholder module (rustdev_autoload.Unavailable).
if hasattr(torch, NAME):
    delattr(torch, NAME)

torch.utils.rename_privateuse1_backend(NAME)
torch._register_device_module(NAME, sys.modules[__name__])
torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True)

from . import _absent, _device_info, _exit, _inductor, _ops, _triton, dlpack, label, legacy, multiprocessing
from . import amp as amp
from . import backends as backends
from . import distributed as distributed
from . import graphs as graphs
from . import memory as memory
from . import nvtx as nvtx
from . import profiler as profiler
from . import random as random
from . import streams as streams
from ._inductor import init_backend as _inductor_backend_init
from ._rustdev import __version__ as __version__
from .amp import get_amp_supported_dtype as get_amp_supported_dtype
from .amp import get_autocast_dtype as get_autocast_dtype
from .amp import is_autocast_available as is_autocast_available
from .amp import is_autocast_enabled as is_autocast_enabled
from .amp import set_autocast_dtype as set_autocast_dtype
from .amp import set_autocast_enabled as set_autocast_enabled
from .clock import *
from .coverage import *
from .debugging import *
from .device import *
from .device import _exchange_device, _is_compiled, _is_in_bad_fork, _lazy_init, _maybe_exchange_device, is_initialized
from .graphs import *
from .label import *
from .memory import *
from .memory import (
    _allocation_traceback,
    _dump_snapshot,
    _record_memory_history,
    _save_memory_usage,
    _save_segment_usage,
    _snapshot,
)
from .multiprocessing import *
from .random import *
from .random import _get_generator, _get_rng_state_offset, _set_rng_state_offset
from .sanitizer import *
from .sanitizer import _begin as _begin_sanitizer
from .streams import *
from .streams import _sleep
from .sync_debug import *
from .waits import wait_report as wait_report

label._install()
dlpack._install()
multiprocessing._install()
_exit._install()
_inductor._install()
_device_info._install()
_triton._install()
distributed._install()
_begin_sanitizer()
_rustdev.dry_run_begin(at_start=True)
sys.modules[f"torch.backends.{NAME}"] = backends
setattr(torch.backends, NAME, backends)
globals().update({name: getattr(legacy, name) for name in legacy.__all__})

if typing.TYPE_CHECKING:
    from ._cuda_scope import as_cuda as as_cuda
else:  # hidden from type checkers, which would accept every name

    def __getattr__(name: str) -> object:
        if name == "as_cuda":  # imported lazily: few programs need it
            from . import _cuda_scope

            globals()[name] = _cuda_scope.as_cuda
            return _cuda_scope.as_cuda
        if name == "_initialized":  # torch.utils.checkpoint saves the RNG states if this is true
            return is_initialized()
        return _absent._refuse(f"torch.{NAME}", name)

    _MODULES = {"amp", "backends", "distributed", "graphs", "memory", "nvtx", "profiler", "random", "streams"}
    _OWN = {name for name, value in globals().items() if name[0] != "_" and not isinstance(value, types.ModuleType)}
    __all__ = sorted({"__version__", "as_cuda", *_MODULES, *_OWN})
