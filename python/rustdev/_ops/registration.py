"""Shared by the modules of kernels: registration, launches of kernels of the operator table, names of dtypes in errors."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Operators with a kernel composed of other operators, for :func:`rustdev.coverage`.
composites: set[str] = set()

_aten = torch.library.Library("aten", "IMPL")
# Overloads, not overload packets: a call of a packet resolves the overload each time.
_awaited = torch.ops.rustdev._awaited.default
_launch = torch.ops.rustdev._launch.default
_takes_dtype = torch.ops.rustdev._takes_dtype.default


def launch(name: str, outputs: list[torch.Tensor], inputs: list[torch.Tensor], *scalars: float) -> None:
    """Enqueue a kernel of the operator table on the current stream. It computes in the dtype of the first input."""
    _launch(name, outputs, inputs, scalars)


@functools.cache
def takes_dtype(name: str, dtype: torch.dtype) -> bool:
    """Return whether a kernel of the operator table supports a dtype."""
    found: bool = _takes_dtype(name, dtype)
    return found


def awaited(number: torch.Tensor, reader: str, in_dry_run: int) -> int:
    """Wait for a tensor of one integer and return its value.

    Args:
        number: Tensor of one integer.
        reader: Name of the waiting operator in reports.
        in_dry_run: Value in a dry run; its rule is that of ``Caller::read`` in ``src/call.rs``.
    """
    found: int = _awaited(number, reader, in_dry_run)
    return found


def kernel(
    name: str, key: str = "PrivateUse1", *, composite: bool = True, with_keyset: bool = False
) -> Callable[[_Function], _Function]:
    """Return a decorator that registers a function as the kernel of an ATen operator.

    As in a C++ kernel, ``__torch_function__`` is disabled: modes and subclasses do not see the operators that it calls.

    Args:
        name: Name of the operator with its overload, without the namespace.
        key: Dispatch key of the kernel.
        composite: Whether the kernel calls other operators, rather than launches kernels of the operator table.
        with_keyset: Whether the function takes the call's dispatch keys as its first argument.
    """
    if composite and key == "PrivateUse1":
        composites.add(f"aten::{name}")

    def register(function: _Function) -> _Function:
        _aten.impl(name, past_torch_function(function), key, with_keyset=with_keyset)
        return function

    return register


def past_torch_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that ``__torch_function__`` of modes and subclasses is disabled while it runs."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return function(*args, **kwargs)

    return run


def fallback(name: str, key: str = "PrivateUse1") -> Callable[..., Any]:
    """Return the CPU fallback of an operator, for arguments that its kernel does not support.

    The fallback takes the call's dispatch keys as its first argument. Must be called before the kernel is registered.
    """
    found: Callable[..., Any] = torch.library.get_kernel(f"aten::{name}", key).call_boxed
    return found


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor in its computing type: float16 and bfloat16 as float32, complex32 as complex64, others unchanged."""
    dtype = tensor.dtype
    if dtype.is_floating_point and dtype.itemsize < 4:
        return tensor.to(torch.float32)
    return tensor.to(torch.complex64) if dtype is torch.complex32 else tensor


def scalar_type(dtype: torch.dtype) -> str:
    """Return the name of a dtype in the errors of PyTorch's C++ code, such as "Float"."""
    return torch.empty(0, dtype=dtype, device="cpu").type().removeprefix("torch.").removesuffix("Tensor")
