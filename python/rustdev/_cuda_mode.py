"""What makes "cuda" mean this device in PyTorch's functions: a mode that changes device arguments, for one thread.

PyTorch asks a mode before each function and method of tensors, also before getters such as ``Tensor.device`` and before
``torch.device``. A program sees devices of type "cuda" everywhere, and they are read as this device wherever they arrive. PyTorch's
own code sees this device by its name, for which it is prepared.
"""

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

__all__: list[str] = []


class _Scope:
    """Whether "cuda" means this device. Modes outlive the scope in threads that were started in it, and do nothing then."""

    is_on = False


class _Backward(threading.local):
    """Whether this thread is in a call for gradients, which PyTorch makes with the mode put aside."""

    is_called = False


_scope = _Scope()
_backward = _Backward()


def _mapped(value: Any) -> Any:
    """Return this device for a name or an object of a device of type "cuda", and anything else as it is."""
    if isinstance(value, torch.device):
        if value.type != "cuda":
            return value
        return torch.device("rustdev") if value.index is None else torch.device("rustdev", value.index)
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return f"rustdev{value[4:]}"
    return value


def _call_mapped(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function with its device arguments mapped."""
    return function(*map(_mapped, args), **{name: _mapped(value) for name, value in kwargs.items()})


def _as_cuda(device: torch.device) -> torch.device:
    """Return what a device is called in the scope."""
    return torch.device("cuda", device.index) if device.type == "rustdev" else device


def _is_pytorchs(frame: FrameType | None) -> bool:
    """Return whether PyTorch's own code asks, or this package's, which know the device by its name.

    Args:
        frame: That of the caller, or of another mode in between.
    """
    while frame is not None and frame.f_code.co_name == "__torch_function__":
        frame = frame.f_back
    if frame is None:
        return False
    package, _, rest = frame.f_globals.get("__name__", "").partition(".")
    return package in ("torch", "rustdev") and not rest.startswith("testing._internal")


def _device(getter: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    device: torch.device = getter(*args)
    return device if _is_pytorchs(sys._getframe(2)) else _as_cuda(device)


def _make_device(make: Callable[..., torch.device], args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    if _is_pytorchs(sys._getframe(2)):
        return _call_mapped(make, args, kwargs)  # type: ignore[no-any-return]
    made = make(*args, **kwargs)
    # A number alone means the accelerator; one that is named is what is meant, as in code that PyTorch compiles.
    return _as_cuda(made) if args and isinstance(args[0], int) else made


def _unchanged(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


def _is_cuda(getter: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if _is_pytorchs(sys._getframe(2)):
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
    return result if _is_pytorchs(sys._getframe(2)) else rename(result, "torch.rustdev.", "torch.cuda.")


def _gradients(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    _backward.is_called = True
    try:
        return _call_mapped(function, args, kwargs)
    finally:
        _backward.is_called = False


#: Functions of which more than the device arguments is changed. Each takes the function and its arguments.
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


class _CudaMode(TorchFunctionMode):
    """Reads "cuda" as this device in every function of PyTorch that this thread calls."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Call a function with "cuda" mapped."""
        kwargs = kwargs or {}
        if not _scope.is_on:
            return func(*args, **kwargs)
        if torch.compiler.is_dynamo_compiling():
            # Dynamo traces this function, but none that it calls in this package.
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
        special = _SPECIAL.get(func)
        if special is not None:
            return special(func, args, kwargs)
        return func(*[_mapped(value) for value in args], **{name: _mapped(value) for name, value in kwargs.items()})


def _run_backward(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return PyTorch's entry to its engine such that hooks and backward functions of Python find the mode in place."""

    def _engine_run_backward(*args: Any, **kwargs: Any) -> Any:
        if not _backward.is_called:
            return run(*args, **kwargs)
        _backward.is_called = False
        with _CudaMode():
            return run(*args, **kwargs)

    return _engine_run_backward
