"""Triton kernels on tensors of the device, by Triton's interpreter.

With ``TRITON_INTERPRET=1`` Triton computes kernels in Python with NumPy on copies of the arguments, which it takes from any device.
Importing Triton adds what the interpreter lacks for this device: a driver, which autotuning and ``triton.testing`` ask for;
products of bfloat16, whose bit patterns the interpreter would multiply; ``tl.device_assert`` under ``TRITON_DEBUG=1``. Arguments
that a kernel only reads are not written back. Without the variable a launch raises an error that names it.
"""

import os
import sys
from types import ModuleType
from typing import Any, NamedTuple

import torch

from ._imports import _after_import
from ._name import NAME
from .device import current_device, get_device_properties
from .streams import current_stream

#: Bytes of the buffer that benchmarks fill to empty the caches.
_CACHE_BYTES = 64 << 20


class _Target(NamedTuple):
    """Target of kernels."""

    backend: str = NAME
    arch: int = 0
    warp_size: int = 32


class _Utils:
    """Properties of the device by Triton's names."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Return the device's memory clock (kHz), bus width (bits), multiprocessors, and limits of CUDA's kind."""
        properties = get_device_properties(device)
        cores = int(getattr(properties, "multi_processor_count", 1))
        return {
            "max_shared_mem": 1 << 20, "max_num_regs": 1 << 16, "multiprocessor_count": cores, "warpSize": 32,
            "sm_clock_rate": 1_000_000, "mem_clock_rate": 1_000_000, "mem_bus_width": 128,
        }  # fmt: skip


class _Driver:
    """Driver of Triton, without a compiler."""

    utils = _Utils()

    def get_current_target(self) -> _Target:
        """Return the target of kernels."""
        return _Target()

    def get_active_torch_device(self) -> torch.device:
        """Return the current device."""
        return torch.device(NAME, self.get_current_device())

    def get_device_interface(self) -> ModuleType:
        """Return ``torch.rustdev``."""
        return sys.modules[__package__]

    def get_current_device(self) -> int:
        """Return the index of the current device."""
        return current_device()

    def get_current_stream(self, device: int) -> int:
        """Return a number of the current stream."""
        number: int = current_stream(device).stream_id
        return number

    def get_benchmarker(self) -> Any:
        """Return the function that measures a call."""
        from triton.testing import do_bench  # type: ignore[import-untyped]

        return do_bench

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """Return the buffer for :meth:`clear_cache`."""
        return torch.empty(_CACHE_BYTES // 4, dtype=torch.int32, device=self.get_active_torch_device())

    def clear_cache(self, cache: torch.Tensor) -> None:
        """Empty the caches."""
        cache.zero_()


def _is_set(name: str) -> bool:
    return os.environ.get(name, "0").lower() in {"1", "true", "on", "yes", "y"}


def _add_driver(module: ModuleType) -> None:
    """Patch ``triton.runtime.driver``: where no other driver is active, ours is."""
    create = module._create_driver

    def _create_driver() -> Any:
        try:
            return create()
        except RuntimeError:
            if _is_set("TRITON_INTERPRET"):
                return _Driver()
            raise RuntimeError(
                "Triton has no compiler for rustdev. Set TRITON_INTERPRET=1 before the kernels are defined: its interpreter takes "
                "tensors of the device."
            ) from None

    module._create_driver = _create_driver  # type: ignore[attr-defined]


def _mend(module: ModuleType) -> None:
    """Patch ``triton.runtime.interpreter``."""
    import dataclasses

    builder, executor = module.InterpreterBuilder, module.GridExecutor
    if _is_set("TRITON_DEBUG"):
        module.interpreter_builder.options = dataclasses.replace(module.interpreter_builder.options, debug=True)
    multiply, load, restore = builder.create_dot, executor._init_args_hst, executor._restore_args_dev
    language = module.tl

    def widened(handle: Any) -> Any:
        if handle.dtype.scalar != language.bfloat16:
            return handle
        bits = handle.data.astype("uint32") << 16
        return module.TensorHandle(bits.view("float32"), language.float32)

    def create_dot(self: Any, a: Any, b: Any, d: Any, *options: Any) -> Any:
        product = multiply(self, widened(a), widened(b), widened(d), *options)
        if d.dtype.scalar != language.bfloat16:
            return product
        rounded = torch.from_numpy(product.data).bfloat16().view(torch.uint16).numpy()
        return module.TensorHandle(rounded, language.bfloat16)

    def _init_args_hst(self: Any, args_dev: Any, kwargs: Any) -> Any:
        hosts, keywords = load(self, args_dev, kwargs)
        self._before = {
            id(host): host.untyped_storage().clone() for host in (*hosts, *keywords.values()) if isinstance(host, torch.Tensor)
        }
        return hosts, keywords

    def _restore_args_dev(self: Any, args_dev: Any, args_hst: Any, kwargs: Any, kwargs_hst: Any) -> None:
        def is_read(host: Any) -> bool:
            before = self._before.get(id(host))
            return before is not None and torch.equal(_bytes(before), _bytes(host.untyped_storage()))

        written = [(device, host) for device, host in zip(args_dev, args_hst, strict=True) if not is_read(host)]
        names = [name for name, host in kwargs_hst.items() if not is_read(host)]
        restore(
            self, [device for device, _ in written], [host for _, host in written],
            {name: kwargs[name] for name in names}, {name: kwargs_hst[name] for name in names},
        )  # fmt: skip
        self._before = {}

    builder.create_dot = create_dot
    executor._init_args_hst, executor._restore_args_dev = _init_args_hst, _restore_args_dev


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)


def _install() -> None:
    """Prepare Triton when it is imported."""
    _after_import("triton.runtime.driver", _add_driver)
    _after_import("triton.runtime.interpreter", _mend)
