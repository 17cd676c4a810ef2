"""The function mode of ``as_cuda``: it maps device arguments of type "cuda" to this device, in one thread.

PyTorch calls a function mode for each function and tensor method, including getters such as ``Tensor.device``, and for
``torch.device``. User code sees devices of type "cuda" everywhere, and the mode maps them back wherever they are passed. PyTorch's
own code sees the device as "rustdev". Since every call of a program passes through the mode, ordinary calls are handled in Rust
(``src/python/py_cuda_mode.rs``). Only calls that need more than mapped arguments (``_SPECIAL``) are handled in this file.
"""

import functools
import re
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch._C import _len_torch_function_stack, _pop_torch_function_stack, _push_on_torch_function_stack
from torch.overrides import TorchFunctionMode

from . import _rustdev
from ._imports import _after_import
from ._name import NAME


class _Backward(threading.local):
    """Whether this thread is in ``backward`` or ``grad``, which PyTorch runs with the mode off the stack."""

    is_called = False


_backward = _Backward()

#: The device in error messages: its name followed by an index, or in single quotes.
_NAME = re.compile(rf"\b{NAME}(?=:\d)|(?<='){NAME}(?=')")


def _mapped(value: Any) -> Any:
    """Map a "cuda" device, given by name or as ``torch.device``, to this device. Lists and tuples are mapped item by item."""
    if isinstance(value, torch.device):
        if value.type != "cuda":
            return value
        return torch.device(NAME) if value.index is None else torch.device(NAME, value.index)
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return f"{NAME}{value[4:]}"
    if type(value) in (list, tuple):
        found = [_mapped(each) for each in value]
        return value if all(new is old for new, old in zip(found, value, strict=True)) else type(value)(found)
    return value


def _call_mapped(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function with its device arguments mapped."""
    return function(*map(_mapped, args), **{name: _mapped(value) for name, value in kwargs.items()})


def _stand_in_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another one with device arguments mapped."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _call_mapped(function, args, kwargs)

    return call


#: CUDA devices by index, made in advance: within the scope, `torch.device("cuda")` would be mapped.
_CUDA: dict[int | None, torch.device] = {index: torch.device("cuda", index) for index in range(128)}
_CUDA[None] = torch.device("cuda")


def _as_cuda(device: torch.device) -> torch.device:
    """Return the "cuda" device that stands for this device in the scope; other devices unchanged."""
    return _CUDA[device.index] if device.type == NAME else device


def _rename(error: Exception) -> None:
    """Replace "rustdev" by "cuda" in the message of an error: programs and their tests match such messages."""
    if error.args and isinstance(error.args[0], str) and NAME in error.args[0]:
        error.args = (_NAME.sub("cuda", error.args[0]), *error.args[1:])


def _is_asked_by_pytorch() -> bool:
    """Return whether the caller's caller is code of PyTorch or of this package, which see the device as "rustdev"."""
    return _rustdev.cuda_mode_is_asked_by_pytorch(2)


def _device(getter: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    device: torch.device = getter(*args)
    return device if device.type != NAME or _is_asked_by_pytorch() else _as_cuda(device)


def _make_device(make: Callable[..., torch.device], args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    if _is_asked_by_pytorch():
        return _call_mapped(make, args, kwargs)  # type: ignore[no-any-return]
    made = make(*args, **kwargs)
    # torch.device(0) means the accelerator, so it is shown as "cuda". An explicit "rustdev", as in compiled code, is kept.
    return _as_cuda(made) if args and isinstance(args[0], int) else made


def _unchanged(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


def _is_cuda(getter: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if _is_asked_by_pytorch():
        return bool(getter(*args))
    return bool(args[0].device.type == NAME)


def _cuda(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    return _call_mapped(torch.Tensor.rustdev, args, kwargs)  # type: ignore[attr-defined, no-any-return]


def _type(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def rename(value: Any, name: str, other: str) -> Any:
        return value.replace(name, other, 1) if isinstance(value, str) and value.startswith(name) else value

    args = tuple(rename(value, "torch.cuda.", f"torch.{NAME}.") for value in args)
    kwargs = {name: rename(value, "torch.cuda.", f"torch.{NAME}.") for name, value in kwargs.items()}
    result = method(*args, **kwargs)
    return result if _is_asked_by_pytorch() else rename(result, f"torch.{NAME}.", "torch.cuda.")


def _gradients(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    _backward.is_called = True
    try:
        return _call_mapped(function, args, kwargs)
    finally:
        _backward.is_called = False


#: Functions that need more than mapped device arguments: function to its handler, called with (function, args, kwargs).
_SPECIAL: dict[Any, Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]] = {
    torch.device: _make_device,
    # Not mapped: programs see the returned device. It is mapped when it is used.
    torch._C._nn._parse_to: _unchanged,
    torch.Tensor.device.__get__: _device,
    torch.Tensor.is_cuda.__get__: _is_cuda,  # type: ignore[attr-defined]
    torch.Tensor.cuda: _cuda,
    torch.Tensor.type: _type,
    torch.Tensor.backward: _gradients,
    torch.autograd.backward: _gradients,
    torch.autograd.grad: _gradients,
}

_call = _rustdev.cuda_mode_calls(_SPECIAL, torch.device, _mapped, _rename)


class _CudaMode(TorchFunctionMode):
    """Maps "cuda" to this device in every PyTorch function that this thread calls."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Call a function with "cuda" mapped."""
        if not torch.compiler.is_dynamo_compiling():
            return _call(func, types, args, kwargs)
        # Dynamo traces this function, but no other function of this package, so the mapping is inlined here.
        kwargs = kwargs or {}
        values = [*args, *kwargs.values()]
        for index, value in enumerate(values):
            if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
                values[index] = NAME + value[4:]
            elif isinstance(value, torch.device) and value.type == "cuda":
                values[index] = NAME if value.index is None else f"{NAME}:{value.index}"
        args, kwargs = tuple(values[: len(args)]), dict(zip(kwargs, values[len(args) :], strict=True))
        if func is not torch.Tensor.cuda:
            return func(*args, **kwargs)
        place = args[1] if len(args) > 1 else kwargs.get("device")
        return args[0].to(NAME if place is None else f"{NAME}:{place}" if isinstance(place, int) else place)


def _modes_of_scope() -> list[_CudaMode]:
    """Return the _CudaMode instances on this thread's stack: one in the scope, none outside, unless a program changed the stack."""
    return [mode for mode in torch.overrides._get_current_function_mode_stack() if isinstance(mode, _CudaMode)]


def _put_on_stack() -> None:
    """Insert a mode at the bottom of this thread's stack, above the mode of a default device, which must be the lowest."""
    above: list[Any] = [_pop_torch_function_stack() for _ in range(_len_torch_function_stack())]
    if above and above[-1] is getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None):
        _push_on_torch_function_stack(above.pop())
    for mode in (_CudaMode(), *reversed(above)):
        _push_on_torch_function_stack(mode)


def _take_off_stack() -> bool:
    """Remove the mode from this thread's stack at any depth. Return whether it was on the stack."""
    above: list[Any] = [_pop_torch_function_stack() for _ in range(_len_torch_function_stack())]
    others = [mode for mode in above if not isinstance(mode, _CudaMode)]
    for mode in reversed(others):
        _push_on_torch_function_stack(mode)
    return len(others) != len(above)


class _ScopeLength:
    """Default of ``TestCase._prev_torch_function_mode_stack_len``, for tests whose ``setUp`` does not set it: the scope's modes.

    PyTorch's TestCase compares this with the stack after the test to detect leaked modes.
    """

    def __get__(self, instance: object, owner: type) -> int:
        return len(_modes_of_scope())


def _have_expected(common_utils: ModuleType) -> None:
    common_utils.TestCase._prev_torch_function_mode_stack_len = _ScopeLength()


_after_import("torch.testing._internal.common_utils", _have_expected)


def _run_backward(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap PyTorch's entry to the autograd engine so that Python hooks and backward functions run with the mode on the stack."""

    def _engine_run_backward(*args: Any, **kwargs: Any) -> Any:
        if not _backward.is_called:
            return run(*args, **kwargs)
        _backward.is_called = False
        with _CudaMode():
            return run(*args, **kwargs)

    return _engine_run_backward
