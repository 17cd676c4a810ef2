"""What makes "cuda" mean this device in PyTorch's functions: a mode that changes device arguments, for one thread.

PyTorch asks a mode before each function and method of tensors, also before getters such as ``Tensor.device`` and before
``torch.device``. A program sees devices of type "cuda" everywhere, and they are read as this device wherever they arrive. PyTorch's
own code sees this device by its name, for which it is prepared. Every call of a program passes here, so ordinary ones are made in
Rust (``src/python/py_cuda_mode.rs``), and only those come back to this file of which more than the arguments is changed.
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

__all__: list[str] = []


class _Backward(threading.local):
    """Whether this thread is in a call for gradients, which PyTorch makes with the mode put aside."""

    is_called = False


_backward = _Backward()

#: This device in the texts of errors: with its number, or quoted.
_NAME = re.compile(r"\brustdev(?=:\d)|(?<=')rustdev(?=')")


def _mapped(value: Any) -> Any:
    """Return this device for a name or an object of a device of type "cuda", lists of such mapped, and anything else as it is."""
    if isinstance(value, torch.device):
        if value.type != "cuda":
            return value
        return torch.device("rustdev") if value.index is None else torch.device("rustdev", value.index)
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return f"rustdev{value[4:]}"
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


#: CUDA's devices by their numbers; in the scope this package cannot make any.
_CUDA: dict[int | None, torch.device] = {index: torch.device("cuda", index) for index in range(128)}
_CUDA[None] = torch.device("cuda")


def _as_cuda(device: torch.device) -> torch.device:
    """Return what a device is called in the scope."""
    return _CUDA[device.index] if device.type == "rustdev" else device


def _rename(error: Exception) -> None:
    """Have an error name CUDA's device where its text names this one: programs, and tests of theirs, look at it."""
    if error.args and isinstance(error.args[0], str) and "rustdev" in error.args[0]:
        error.args = (_NAME.sub("cuda", error.args[0]), *error.args[1:])


def _is_asked_by_pytorch() -> bool:
    """Return whether the caller's caller is PyTorch's own code, or this package's, which know the device by its name."""
    return _rustdev.cuda_mode_is_asked_by_pytorch(2)


def _device(getter: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    device: torch.device = getter(*args)
    return device if device.type != "rustdev" or _is_asked_by_pytorch() else _as_cuda(device)


def _make_device(make: Callable[..., torch.device], args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    if _is_asked_by_pytorch():
        return _call_mapped(make, args, kwargs)  # type: ignore[no-any-return]
    made = make(*args, **kwargs)
    # A number alone means the accelerator; one that is named is what is meant, as in code that PyTorch compiles.
    return _as_cuda(made) if args and isinstance(args[0], int) else made


def _unchanged(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


def _is_cuda(getter: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if _is_asked_by_pytorch():
        return bool(getter(*args))
    return bool(args[0].device.type == "rustdev")


def _cuda(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    return _call_mapped(torch.Tensor.rustdev, args, kwargs)  # type: ignore[attr-defined, no-any-return]


def _type(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def rename(value: Any, name: str, other: str) -> Any:
        return value.replace(name, other, 1) if isinstance(value, str) and value.startswith(name) else value

    args = tuple(rename(value, "torch.cuda.", "torch.rustdev.") for value in args)
    kwargs = {name: rename(value, "torch.cuda.", "torch.rustdev.") for name, value in kwargs.items()}
    result = method(*args, **kwargs)
    return result if _is_asked_by_pytorch() else rename(result, "torch.rustdev.", "torch.cuda.")


def _gradients(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    _backward.is_called = True
    try:
        return _call_mapped(function, args, kwargs)
    finally:
        _backward.is_called = False


#: Functions of which more than the device arguments is changed, and what is called instead, with the function and its arguments.
_SPECIAL: dict[Any, Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]] = {
    torch.device: _make_device,
    # Programs see the device that it returns, which is mapped where it is used.
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
    """Reads "cuda" as this device in every function of PyTorch that this thread calls."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Call a function with "cuda" mapped."""
        if not torch.compiler.is_dynamo_compiling():
            return _call(func, types, args, kwargs)
        # Dynamo traces this function, but none that it calls in this package.
        kwargs = kwargs or {}
        values = [*args, *kwargs.values()]
        for index, value in enumerate(values):
            if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
                values[index] = "rustdev" + value[4:]
            elif isinstance(value, torch.device) and value.type == "cuda":
                values[index] = "rustdev" if value.index is None else f"rustdev:{value.index}"
        args, kwargs = tuple(values[: len(args)]), dict(zip(kwargs, values[len(args) :], strict=True))
        if func is not torch.Tensor.cuda:
            return func(*args, **kwargs)
        place = args[1] if len(args) > 1 else kwargs.get("device")
        return args[0].to("rustdev" if place is None else f"rustdev:{place}" if isinstance(place, int) else place)


def _modes_of_scope() -> list[_CudaMode]:
    """Return the modes of this kind on this thread's stack: one in the scope, none outside, unless a program changed the stack."""
    return [mode for mode in torch.overrides._get_current_function_mode_stack() if isinstance(mode, _CudaMode)]


def _put_on_stack() -> None:
    """Put a mode under all others of this thread's stack, but for that of a default device, which has to be the lowest."""
    above: list[Any] = [_pop_torch_function_stack() for _ in range(_len_torch_function_stack())]
    if above and above[-1] is getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None):
        _push_on_torch_function_stack(above.pop())
    for mode in (_CudaMode(), *reversed(above)):
        _push_on_torch_function_stack(mode)


def _take_off_stack() -> bool:
    """Take the mode off this thread's stack, wherever it is. Return whether it was there."""
    above: list[Any] = [_pop_torch_function_stack() for _ in range(_len_torch_function_stack())]
    others = [mode for mode in above if not isinstance(mode, _CudaMode)]
    for mode in reversed(others):
        _push_on_torch_function_stack(mode)
    return len(others) != len(above)


class _ScopeLength:
    """How many modes are no leak for PyTorch's ``TestCase`` where the ``setUp`` of a test does not count them: the scope's."""

    def __get__(self, instance: object, owner: type) -> int:
        return len(_modes_of_scope())


def _have_expected(common_utils: ModuleType) -> None:
    common_utils.TestCase._prev_torch_function_mode_stack_len = _ScopeLength()


_after_import("torch.testing._internal.common_utils", _have_expected)


def _run_backward(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return PyTorch's entry to its engine such that hooks and backward functions of Python find the mode in place."""

    def _engine_run_backward(*args: Any, **kwargs: Any) -> Any:
        if not _backward.is_called:
            return run(*args, **kwargs)
        _backward.is_called = False
        with _CudaMode():
            return run(*args, **kwargs)

    return _engine_run_backward
