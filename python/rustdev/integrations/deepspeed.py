"""DeepSpeed: the accelerator by which its engine and ZeRO use the device, with a kernel for its Adam.

DeepSpeed chooses its accelerator, and by it its operators, while it is imported: call :func:`rustdev.integrations.enable` before.
"""

import functools
import importlib
import math
import os
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from deepspeed.accelerator.abstract_accelerator import DeepSpeedAccelerator
from torch import Tensor

from .. import graphs, memory, nvtx, streams
from .. import random as numbers
from .._name import NAME
from ..device import current_device, device_count, is_available, is_bf16_supported, set_device, synchronize

__all__ = ["RustdevAccelerator", "use_accelerator"]

#: DeepSpeed's operators for the processor, which it compiles when they are first used, and those of them that work beside the
#: device: the optimizers of ZeRO-Offload, which run on the host, files, and pinned memory.
_OPERATORS = "deepspeed.ops.op_builder.cpu"
_HOST_BUILDERS = ("AsyncIOBuilder", "CPUAdamBuilder", "CPUAdagradBuilder", "CPULionBuilder", "PinMemoryBuilder")


class _Adam:
    """Operator of DeepSpeed's class FusedAdam, by PyTorch's fused operators on the device."""

    @staticmethod
    def multi_tensor_adam(
        chunk_size: int, overflow: Tensor, lists: Sequence[list[Tensor]], lr: float, beta1: float, beta2: float, eps: float,
        step: int, adam_w_mode: int, bias_correction: int, weight_decay: float, *args: object,
    ) -> None:  # fmt: skip
        """Update weights in place.

        Args:
            chunk_size: Number of elements that a block of CUDA's kernel takes. Ignored.
            overflow: Flag that CUDA's kernel sets. Ignored, as CUDA's kernel for Adam does.
            lists: Gradients, weights, means and means of squares.
            lr: Learning rate.
            beta1: Weight of the past in the means.
            beta2: Weight of the past in the means of squares.
            eps: Number added to the denominator.
            step: Number of the step, from 1 on.
            adam_w_mode: 1 for decoupled weight decay, else 0.
            bias_correction: 1 to correct the means for their start at zero, else 0.
            weight_decay: Weight decay.
            *args: Ignored.
        """
        grads, weights, means, squares = lists
        update = torch._fused_adamw_ if adam_w_mode else torch._fused_adam_
        # An infinite step: the corrections, 1 - beta ** step, are 1.
        steps = torch.full((), step if bias_correction else math.inf, device=weights[0].device)
        update(
            weights, grads, means, squares, [], [steps] * len(weights), lr=lr, beta1=beta1, beta2=beta2, weight_decay=weight_decay,
            eps=eps, amsgrad=False, maximize=False,
        )  # fmt: skip


def _tensor(dtype: torch.dtype) -> property:
    """Return a property that is the legacy constructor of tensors of a dtype."""
    return property(lambda self: functools.partial(torch.tensor, dtype=dtype, device=NAME))


def _constant(value: object) -> Callable[[object], Any]:
    """Return a method that returns a constant."""
    return lambda self: value


class RustdevAccelerator(DeepSpeedAccelerator):  # type: ignore[misc]
    """DeepSpeed's accelerator for the device. Its methods have the names and meanings of DeepSpeed's for CUDA."""

    def __init__(self) -> None:
        self._name, self._communication_backend_name, self._compile_backend = NAME, "rdccl", "inductor"

    is_synchronized_device = use_host_timers = resolves_data_dependency = handles_memory_backpressure = _constant(False)
    is_fp16_supported = _constant(True)
    # Triton runs in its interpreter alone.
    is_triton_supported = _constant(False)

    is_available = staticmethod(is_available)
    is_bf16_supported = staticmethod(is_bf16_supported)
    set_device = staticmethod(set_device)
    current_device = staticmethod(current_device)
    device_count = staticmethod(device_count)
    synchronize = staticmethod(synchronize)

    manual_seed = staticmethod(numbers.manual_seed)
    manual_seed_all = staticmethod(numbers.manual_seed_all)
    initial_seed = staticmethod(numbers.initial_seed)
    random = _constant(torch.random)

    Stream = property(_constant(streams.Stream))
    Event = property(_constant(streams.Event))
    stream = staticmethod(streams.stream)
    current_stream = staticmethod(streams.current_stream)
    default_stream = staticmethod(streams.default_stream)

    empty_cache = staticmethod(memory.empty_cache)
    memory_allocated = staticmethod(memory.memory_allocated)
    max_memory_allocated = staticmethod(memory.max_memory_allocated)
    memory_cached = memory_reserved = staticmethod(memory.memory_reserved)
    max_memory_cached = max_memory_reserved = staticmethod(memory.max_memory_reserved)
    memory_stats = staticmethod(memory.memory_stats)
    reset_peak_memory_stats = staticmethod(memory.reset_peak_memory_stats)
    reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats

    is_current_stream_capturing = staticmethod(graphs.is_current_stream_capturing)
    create_graph = staticmethod(graphs.Graph)
    capture_to_graph = staticmethod(graphs.graph)

    BFloat16Tensor = _tensor(torch.bfloat16)
    ByteTensor = _tensor(torch.uint8)
    DoubleTensor = _tensor(torch.double)
    FloatTensor = _tensor(torch.float)
    HalfTensor = _tensor(torch.half)
    IntTensor = _tensor(torch.int)
    LongTensor = _tensor(torch.long)

    def device_name(self, device_index: int | None = None) -> str:
        """Return the name of a device, or of the kind of device."""
        return NAME if device_index is None else f"{NAME}:{device_index}"

    def device(self, device_index: int | None = None) -> torch.device:
        """Return a device. Default: the kind of device."""
        return torch.device(self.device_name(device_index))

    def current_device_name(self) -> str:
        """Return the name of the current device."""
        return self.device_name(self.current_device())

    def get_rng_state(self, device_index: int | None = None) -> Tensor:
        """Return the state of the generator of a device. Default: the current device."""
        return numbers.get_rng_state(self.device_name(device_index))

    def set_rng_state(self, new_state: Tensor, device_index: int | None = None) -> None:
        """Set the state of the generator of a device. Default: the current device."""
        numbers.set_rng_state(new_state, self.device_name(device_index))

    def default_generator(self, device_index: int) -> torch.Generator:
        """Return the generator of a device."""
        return numbers.default_generators[device_index]

    def total_memory(self, device_index: int | None = None) -> int:
        """Return the budget of a device in bytes."""
        return memory.mem_get_info(device_index)[1]

    def available_memory(self, device_index: int | None = None) -> int:
        """Return the free memory of a device in bytes."""
        return memory.mem_get_info(device_index)[0]

    def supported_dtypes(self) -> list[torch.dtype]:
        """Return the dtypes of weights."""
        return [torch.float, torch.half, torch.bfloat16]

    def range_push(self, msg: str, domain: object = None, category: object = None) -> int:
        """Begin a range of the profiler."""
        return nvtx.range_push(msg)

    def range_pop(self, domain: object = None) -> int:
        """End the last range."""
        return nvtx.range_pop()

    def lazy_call(self, callback: Callable[[], object]) -> None:
        """Call a function that sets up the device, which is initialised when it is needed."""
        callback()

    def replay_graph(self, graph: graphs.Graph) -> None:
        """Replay a graph."""
        graph.replay()

    def on_accelerator(self, tensor: Tensor) -> bool:
        """Return whether a tensor is on the device."""
        return tensor.device.type == NAME

    def op_builder_dir(self) -> str:
        """Return the package of the operators' builders."""
        return _OPERATORS

    def get_op_builder(self, class_name: str) -> Any:
        """Return the class that builds an operator; for an operator that is not there, one that refuses to."""
        builders = _builders()
        return builders.get(class_name, builders["NotImplementedBuilder"])

    def create_op_builder(self, class_name: str) -> Any:
        """Return an object that builds an operator; None for an operator that is not there."""
        return self.get_op_builder(class_name)() if class_name in _builders() else None

    def build_extension(self) -> Any:
        """Return the command of setuptools that builds operators ahead of time."""
        return importlib.import_module("torch.utils.cpp_extension").BuildExtension

    def export_envs(self) -> list[str]:
        """Return the beginnings of the environment variables that DeepSpeed's launcher passes to other machines."""
        return [NAME.upper()]

    def visible_devices_envs(self) -> list[str]:
        """Return the environment variables that select devices. There are none: each process has devices of its own."""
        return []

    def set_visible_devices_envs(self, current_env: dict[str, str], local_accelerator_ids: list[int]) -> None:
        """Do nothing, as there are no such variables."""

    def communication_backend_name(self) -> str:
        """Return the name of the backend of torch.distributed."""
        return self._communication_backend_name

    def get_compile_backend(self) -> str:
        """Return the name of the backend of torch.compile."""
        return self._compile_backend

    def set_compile_backend(self, backend: str) -> None:
        """Set the backend of torch.compile.

        Raises:
            ValueError: If there is no such backend.
        """
        known = torch._dynamo.list_backends(exclude_tags=())
        if backend not in known:
            raise ValueError(f"there is no backend {backend!r}; there are {', '.join(known)}")
        self._compile_backend = backend


def _refuse(self: Any, verbose: bool = True) -> None:
    raise ValueError(f"DeepSpeed has no such operator for the device {NAME}")


@functools.cache
def _builders() -> dict[str, type]:
    """Return the classes that build operators by their names."""
    theirs = importlib.import_module(_OPERATORS)
    return {
        **{name: getattr(theirs, name) for name in _HOST_BUILDERS},
        "FusedAdamBuilder": type("FusedAdamBuilder", (theirs.FusedAdamBuilder,), {"load": lambda self, verbose=True: _Adam}),
        "NotImplementedBuilder": type("NotImplementedBuilder", (theirs.NotImplementedBuilder,), {"load": _refuse}),
    }


def use_accelerator(real_accelerator: ModuleType) -> None:
    """Let DeepSpeed use the device, unless ``DS_ACCELERATOR`` or the program has chosen another one.

    Args:
        real_accelerator: ``deepspeed.accelerator.real_accelerator``.
    """
    if "DS_ACCELERATOR" not in os.environ and real_accelerator.ds_accelerator is None:
        real_accelerator.set_accelerator(RustdevAccelerator())
