"""Replacements for functions and classes that name "cuda": ``torch.cuda`` and its modules, autocast, process groups.

Each replacement maps the device arguments and calls the function that it stands for. It is a distinct object, so that references to
it in a program can be identified and restored.
"""

import dataclasses
import functools
import inspect
import multiprocessing.spawn
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence
from torch.profiler import ProfilerActivity
from torch.storage import TypedStorage, UntypedStorage, _StorageBase
from torch.utils._device import DeviceContext

from . import _cuda_comm, _rustdev, amp, graphs, memory, nvtx, profiler, random, streams
from ._cuda_bindings import _bindings, _Generator
from ._cuda_leaves import _leaves
from ._cuda_mode import _call_mapped, _CudaMode, _mapped, _modes_of_scope, _run_backward, _stand_in_function
from ._name import NAME
from ._profiles import _Profile
from .device import DeviceProperties, _properties_of, init, is_available
from .device import get_device_properties as _real_properties

_NCCL = ("nccl", "nccl2", "nccl-lazy", "nccl-legacy")


def _stand_in_class(cls: type, made_of: type | None = None, **renamed: str) -> type:
    """Return a class that constructs ``cls`` with device arguments mapped, and has the same instances and subclasses as ``cls``.

    Args:
        cls: Class to replace.
        made_of: Subclass of ``cls`` that is constructed. Default: ``cls``.
        **renamed: Parameter names of CUDA's class, with their names in ``cls``.
    """

    class Meta(type(cls)):  # type: ignore[misc]
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            if self is not made:
                return super().__call__(*args, **kwargs)
            return _call_mapped(made_of or cls, args, {renamed.get(name, name): value for name, value in kwargs.items()})

        def __instancecheck__(self, instance: object) -> bool:
            return isinstance(instance, cls) if self is made else super().__instancecheck__(instance)

        def __subclasscheck__(self, subclass: type) -> bool:
            return issubclass(subclass, cls) if self is made else super().__subclasscheck__(subclass)

    # Type parameters of the class are kept.
    parameters = getattr(cls, "__parameters__", ())
    base: Any = cls[parameters] if parameters else cls  # type: ignore[index]
    names = {"__module__": cls.__module__, "__doc__": cls.__doc__}
    made: type = types.new_class(cls.__name__, (base,), {"metaclass": Meta}, lambda namespace: namespace.update(names))
    return made


def _stand_in(value: Any, **renamed: str) -> Any:
    return _stand_in_class(value, None, **renamed) if isinstance(value, type) else _stand_in_function(value)


def _counterparts() -> Iterator[tuple[types.ModuleType, str, Any]]:
    """Yield (module of ``torch.cuda``, name, value of this name in this package)."""
    import rustdev

    pairs = (
        (torch.cuda, rustdev),
        (torch.cuda.memory, memory),
        (torch.cuda.random, random),
        (torch.cuda.streams, streams),
        (torch.cuda.graphs, graphs),
        (torch.cuda.nvtx, nvtx),
        (torch.cuda.profiler, profiler),
    )
    for theirs, ours in pairs:
        for name, value in vars(ours).items():
            home = getattr(value, "__module__", None) or ""
            if (
                hasattr(theirs, name)
                and callable(value)
                and home.startswith(("rustdev", f"torch.{NAME}"))
                and name not in ("_get_device_index", "_lazy_init", "is_available")
            ):
                yield theirs, name, value


def _properties(profile: _Profile) -> Callable[..., DeviceProperties]:
    """Return a ``get_device_properties`` that reports the GPU of a profile."""

    def get_device_properties(device_: Any = None) -> DeviceProperties:
        real = _real_properties(_mapped(device_))
        return dataclasses.replace(_properties_of(profile), total_memory=min(real.total_memory, profile.memory))

    return get_device_properties


def _profiled(profile: _Profile) -> dict[str, Callable[..., Any]]:
    """Return the functions of ``torch.cuda`` that report the GPU of a profile."""
    properties = _properties(profile)

    def get_device_name(device: Any = None) -> str:
        return properties(device).name

    def get_device_capability(device: Any = None) -> tuple[int, int]:
        properties(device)
        return profile.capability

    def is_bf16_supported(including_emulation: bool = True) -> bool:
        return including_emulation or profile.has_bfloat16

    def is_tf32_supported() -> bool:
        return profile.has_bfloat16

    return {
        "get_device_properties": properties,
        "get_device_name": get_device_name,
        "get_device_capability": get_device_capability,
        "is_bf16_supported": is_bf16_supported,
        "is_tf32_supported": is_tf32_supported,
    }


def _cudart() -> types.SimpleNamespace:
    """Return no-op versions of the CUDA runtime functions that start and stop NVIDIA's profilers."""
    return types.SimpleNamespace(cudaProfilerStart=lambda: 0, cudaProfilerStop=lambda: 0)


def _lazy_init() -> None:
    """Replacement for ``torch.cuda._lazy_init``, which PyTorch's C++ code calls before it allocates CUDA memory.

    Raises:
        RuntimeError: If the mode is not on this thread's stack, so that "cuda" was not mapped.
    """
    if not _modes_of_scope():
        raise RuntimeError(
            '"cuda" does not mean rustdev here: the mode of rustdev.as_cuda is not on this thread\'s stack of function modes. It is'
            " missing in a thread that ran before the scope, in one that a C++ library has started, inside __torch_dispatch__,"
            " __torch_function__ and kernels of custom operators, and where a program took it off the stack. Use the device of a"
            " tensor there."
        )
    init()


#: Modules that call ``torch.cuda.is_available`` to decide whether to generate code for NVIDIA GPUs.
_COMPILERS = ("torch._inductor", "torch._dynamo.device_interface", "torch._higher_order_ops", "torch.utils._triton")


def _is_available() -> bool:
    """Return whether at least one device is usable; False for PyTorch's compiler, which would generate code for a GPU."""
    return is_available() and not sys._getframe(1).f_globals.get("__name__", "").startswith(_COMPILERS)


def _names_of_cuda(profile: _Profile | None) -> Iterator[tuple[Any, str, Any]]:
    profiled = _profiled(profile) if profile else {}
    for module, name, value in _counterparts():
        if name in profiled and module is torch.cuda:
            yield module, name, profiled[name]
        elif isinstance(value, type) and value.__module__ == f"torch.{NAME}":
            yield module, name, value  # legacy tensor and storage types: PyTorch parses their names
        elif name == "graph":
            yield module, name, _stand_in(value, cuda_graph="rustdev_graph")
        else:
            yield module, name, _stand_in(value)
    for module in (torch.cuda, torch.cuda.graphs):
        yield module, "CUDAGraph", _stand_in(graphs.Graph)
    yield torch.cuda, "default_generators", random.default_generators
    yield torch.cuda, "_initialized", True
    yield torch.cuda, "_lazy_init", _lazy_init
    yield torch.cuda, "is_available", _is_available
    yield torch.cuda, "cudart", _cudart
    yield torch.cuda.amp, "custom_fwd", _stand_in(amp.custom_fwd)
    yield torch.cuda.amp, "custom_bwd", _stand_in(amp.custom_bwd)
    yield torch.backends.cuda, "is_built", lambda: True
    yield torch.backends.cudnn, "is_available", lambda: False
    yield torch.backends.cudnn, "version", lambda: None
    # Attributes that libraries read from CUDA's streams and events.
    yield streams.Stream, "cuda_stream", property(lambda self: self.rustdev_stream)
    yield streams.Event, "cuda_event", property(lambda self: self.event_id)


def _autocast() -> Iterator[tuple[Any, str, Any]]:
    is_enabled, set_enabled = torch.is_autocast_enabled, torch.set_autocast_enabled

    def is_autocast_enabled(device_type: str = "cuda") -> bool:
        return is_enabled(_mapped(device_type))

    def set_autocast_enabled(*args: Any) -> None:
        set_enabled(*(_mapped(value) for value in (args if len(args) > 1 else ("cuda", *args))))

    def get_autocast_gpu_dtype() -> torch.dtype:
        return amp.get_autocast_dtype()

    def set_autocast_gpu_dtype(dtype: torch.dtype) -> None:
        amp.set_autocast_dtype(dtype)

    yield torch, "is_autocast_enabled", is_autocast_enabled
    yield torch, "set_autocast_enabled", set_autocast_enabled
    yield torch, "get_autocast_gpu_dtype", get_autocast_gpu_dtype
    yield torch, "set_autocast_gpu_dtype", set_autocast_gpu_dtype
    for name in ("get_autocast_dtype", "set_autocast_dtype"):
        yield torch, name, _stand_in(getattr(torch, name))
    for name in ("custom_fwd", "custom_bwd", "is_autocast_available"):
        yield torch.amp, name, _stand_in(getattr(torch.amp, name))
    begin = torch.amp.autocast_mode.autocast.__init__

    @functools.wraps(begin)
    def begin_mapped(
        self: Any, device_type: Any, dtype: torch.dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        place = _mapped(device_type)
        is_ours = place == NAME
        # PyTorch checks the dtype only if autocast is enabled. For CUDA it accepts every dtype, and casts to it.
        begin(self, place, dtype, enabled and not is_ours, cache_enabled)
        if is_ours:
            self._enabled = enabled

    yield torch.amp.autocast_mode.autocast, "__init__", begin_mapped
    scaler = torch.amp.GradScaler.__init__

    @functools.wraps(scaler)
    def initialize(self: Any, device: str = "cuda", *args: Any, **kwargs: Any) -> None:  # a default is not mapped like an argument
        scaler(self, _mapped(device), *args, **kwargs)

    yield torch.amp.GradScaler, "__init__", initialize


def _storages() -> Iterator[tuple[Any, str, Any]]:
    is_cuda = property(lambda self: self.device.type == NAME)
    for cls in (_StorageBase, TypedStorage):
        yield cls, "to", _stand_in_function(cls.to)
    yield UntypedStorage, "is_cuda", is_cuda
    yield TypedStorage, "is_cuda", is_cuda
    yield PackedSequence, "is_cuda", property(lambda self: self.data.device.type == NAME)


def _backend(backend: Any) -> Any:
    """Map a process group backend for CUDA to the one for this device.

    Args:
        backend: Such as ``"nccl"`` or ``"cpu:gloo,cuda:nccl"``; None for the default of each device.
    """
    if backend is None:
        return f"cpu:gloo,{NAME}:rdccl"
    if not isinstance(backend, str):
        return backend
    parts = []
    for part in backend.lower().split(","):
        place, colon, name = part.rpartition(":")
        parts.append(f"{_mapped(place)}{colon}{'rdccl' if name in _NCCL else name}")
    return ",".join(parts)


def _process_groups() -> Iterator[tuple[Any, str, Any]]:
    import torch.distributed.distributed_c10d as c10d
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

    def with_backend(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs).arguments
            named = bound.get("backend")
            if named is not None or function is c10d.init_process_group:
                bound["backend"] = _backend(named)
                if bound["backend"] != named:
                    bound.pop("pg_options", None)  # NCCL's
            if bound.get("device_id") is not None:
                bound["device_id"] = _mapped(bound["device_id"])
            return function(**bound)

        return call

    get_backend = c10d.get_backend

    @functools.wraps(get_backend)
    def nccl_for_rdccl(*args: Any, **kwargs: Any) -> Any:
        name = get_backend(*args, **kwargs)
        return c10d.Backend("nccl") if name == "rdccl" else name

    for name in ("init_process_group", "new_group"):
        yield c10d, name, with_backend(getattr(c10d, name))
    yield c10d, "get_backend", nccl_for_rdccl
    yield c10d, "is_nccl_available", lambda: True
    yield torch.distributed.device_mesh, "init_device_mesh", _stand_in(init_device_mesh)
    yield DeviceMesh, "__init__", _stand_in_function(DeviceMesh.__init__)


def _profilers() -> Iterator[tuple[Any, str, Any]]:
    cls = torch.profiler.profiler._KinetoProfile
    initialize = cls.__init__

    @functools.wraps(initialize)
    def initialize_mapped(self: Any, *args: Any, activities: Any = None, **kwargs: Any) -> None:
        if activities is not None:
            ours = ProfilerActivity.PrivateUse1
            activities = [ours if activity == ProfilerActivity.CUDA else activity for activity in activities]
        initialize(self, *args, activities=activities, **kwargs)

    yield cls, "__init__", initialize_mapped


def _threads_and_processes(enter_in_child: Callable[[str | None], Any], profile: str | None) -> Iterator[tuple[Any, str, Any]]:
    run = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]
    prepare = multiprocessing.spawn.get_preparation_data

    def _bootstrap_inner(self: threading.Thread) -> None:
        if not _rustdev.cuda_mode_is_on():
            run(self)
            return
        with _CudaMode():
            run(self)

    class Child:
        """Enters the scope when unpickled, in the child process before it imports the program's main module."""

        def __reduce__(self) -> Any:
            return enter_in_child, (profile,)

    def get_preparation_data(name: str) -> dict[str, Any]:
        return {"rustdev_as_cuda": Child(), **prepare(name)}

    yield threading.Thread, "_bootstrap_inner", _bootstrap_inner
    yield multiprocessing.spawn, "get_preparation_data", get_preparation_data


def _default_tensor_type(tensor_type: Any) -> None:
    """Set the default dtype and the default device from a tensor type of ``torch.cuda``."""
    name = tensor_type if isinstance(tensor_type, str) else getattr(tensor_type, "__name__", "")
    dtype = {"HalfTensor": torch.float16, "BFloat16Tensor": torch.bfloat16, "DoubleTensor": torch.float64}
    torch.set_default_dtype(dtype.get(name.rpartition(".")[2], torch.float32))
    torch.set_default_device(NAME)


def _torch() -> Iterator[tuple[Any, str, Any]]:
    for name in ("Stream", "Event"):
        yield torch, name, _stand_in(getattr(torch, name))
    yield torch, "Generator", _stand_in_class(torch.Generator, _Generator)
    yield DeviceContext, "__init__", _stand_in_function(DeviceContext.__init__)
    set_type = torch.set_default_tensor_type

    @functools.wraps(set_type)
    def set_default_tensor_type(t: Any) -> None:
        name = t if isinstance(t, str) else f"{t.__module__}.{t.__name__}" if isinstance(t, type) else ""
        if name.startswith(("torch.cuda.", f"torch.{NAME}.")):
            _default_tensor_type(t)
        else:
            set_type(t)

    get_module = torch.get_device_module

    @functools.wraps(get_module)
    def get_device_module(device: Any = None) -> Any:
        # PyTorch's function is not called for "cuda": it caches its results beyond the scope.
        return torch.cuda if _mapped(device) != device else get_module(device)

    yield torch, "get_device_module", get_device_module
    yield torch, "set_default_tensor_type", set_default_tensor_type
    for name in ("scatter", "gather", "broadcast", "broadcast_coalesced", "reduce_add", "reduce_add_coalesced"):
        yield torch.nn.parallel.comm, name, getattr(_cuda_comm, name)
    yield torch._utils, "_get_available_device_type", lambda: NAME
    fork = torch.random.fork_rng

    @functools.wraps(fork)
    def fork_rng(devices: Any = None, *args: Any, **kwargs: Any) -> Any:
        return _call_mapped(fork, (devices if devices is None else list(devices), *args), kwargs)

    yield torch.random, "fork_rng", fork_rng
    yield torch.jit, "load", _stand_in(torch.jit.load)
    yield torch.futures, "Future", _stand_in(torch.futures.Future)
    yield torch.autograd.graph, "_engine_run_backward", _run_backward(torch.autograd.graph._engine_run_backward)


def _replacements(
    profile: _Profile | None, profile_name: str | None, enter_in_child: Callable[[str | None], Any]
) -> Iterator[tuple[Any, str, Any]]:
    """Yield (module or class, attribute name, replacement in the scope).

    Args:
        profile: Profile of the imitated GPU, if any.
        profile_name: Name of the profile.
        enter_in_child: Called with this name in child processes of ``multiprocessing``.
    """
    yield from _names_of_cuda(profile)
    yield from _bindings()
    yield from _autocast()
    yield from _storages()
    if torch.distributed.is_available():
        yield from _process_groups()
    yield from _profilers()
    yield from _threads_and_processes(enter_in_child, profile_name)
    yield from _torch()
    yield from _leaves()
