"""What the modules of kernels share: registration, launches of kernels of the operator table, names of dtypes in errors."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Operators with a kernel that is made of other operators, for :func:`rustdev.coverage`.
composites: set[str] = set()

_aten = torch.library.Library("aten", "IMPL")
# The overloads themselves: calls of an operator by its name alone look for the overload each time.
_awaited = torch.ops.rustdev._awaited.default
_launch = torch.ops.rustdev._launch.default
_takes_dtype = torch.ops.rustdev._takes_dtype.default


def launch(name: str, outputs: list[torch.Tensor], inputs: list[torch.Tensor], *scalars: float) -> None:
    """Enqueue a kernel of the operator table, on the current stream; it computes in the dtype of the first input."""
    _launch(name, outputs, inputs, scalars)


@functools.cache
def takes_dtype(name: str, dtype: torch.dtype) -> bool:
    """Whether a kernel of the operator table computes in a dtype."""
    found: bool = _takes_dtype(name, dtype)
    return found


def awaited(number: torch.Tensor, reader: str) -> int:
    """Wait for a tensor of one integer, for an operator of that name, and return it."""
    found: int = _awaited(number, reader)
    return found


def kernel(
    name: str, key: str = "PrivateUse1", *, composite: bool = True, with_keyset: bool = False
) -> Callable[[_Function], _Function]:
    """Return a decorator that makes a function the kernel of an operator of ATen.

    Like a kernel in C++ it calls operators past ``__torch_function__``: modes and subclasses of a program do not see its parts.

    Args:
        name: The operator's name, with its overload and without the namespace.
        key: The dispatch key of the kernel.
        composite: Whether the kernel is made of other operators, rather than launches of the operator table's kernels.
        with_keyset: Whether the function takes the call's dispatch keys as first argument.
    """
    if composite and key == "PrivateUse1":
        composites.add(f"aten::{name}")

    def register(function: _Function) -> _Function:
        _aten.impl(name, past_torch_function(function), key, with_keyset=with_keyset)
        return function

    return register


def past_torch_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with ``__torch_function__`` of modes and subclasses switched off while it runs."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return function(*args, **kwargs)

    return run


def fallback(name: str, key: str = "PrivateUse1") -> Callable[..., Any]:
    """Return the CPU fallback of an operator, whose kernel takes some arguments only; it takes the call's dispatch keys first.

    It is asked for before that kernel is registered.
    """
    found: Callable[..., Any] = torch.library.get_kernel(f"aten::{name}", key).call_boxed
    return found


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor in the dtype that it is computed with: that of float32 where its numbers are narrower."""
    dtype = tensor.dtype
    if dtype.is_floating_point and dtype.itemsize < 4:
        return tensor.to(torch.float32)
    return tensor.to(torch.complex64) if dtype is torch.complex32 else tensor


def scalar_type(dtype: torch.dtype) -> str:
    """Return a dtype's name in errors of PyTorch's C++."""
    return torch.empty(0, dtype=dtype, device="cpu").type().removeprefix("torch.").removesuffix("Tensor")
