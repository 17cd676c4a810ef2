"""Python functions of PyTorch that run without the function mode of ``as_cuda``, for speed.

These functions take no device arguments and call no user code. With the mode, each of their many tensor operations would cost about
a microsecond more. PyTorch's own code sees the device as "rustdev" with and without the mode.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C import _get_function_stack_at, _len_torch_function_stack, _pop_torch_function_stack, _push_on_torch_function_stack
from torch.distributions import Distribution, Independent, MixtureSameFamily, TransformedDistribution
from torch.optim import Optimizer

from ._cuda_mode import _call, _CudaMode, _rename

#: Distributions that call other distributions and transforms, which may be user code.
_COMPOSITE = (Independent, MixtureSameFamily, TransformedDistribution)


def _is_mode_on_top() -> bool:
    length = _len_torch_function_stack()
    return length != 0 and type(_get_function_stack_at(length - 1)) is _CudaMode


def _without_mode(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls ``function`` with the mode off the stack."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not _is_mode_on_top():
            return function(*args, **kwargs)
        mode = _pop_torch_function_stack()
        try:
            return function(*args, **kwargs)
        except Exception as error:
            _rename(error)
            raise
        finally:
            _push_on_torch_function_stack(mode)

    call._torchdynamo_inline = function  # type: ignore[attr-defined]
    return call


def _read(values: Any) -> Any:
    """Return the items of an iterator as a list, and other values unchanged. Iterating may run user code, which needs the mode."""
    if not isinstance(values, Iterator):
        return values
    found = list(values)
    return found or (value for value in found)  # PyTorch warns of an empty generator, not of an empty list


def _clipping_without_mode(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``_without_mode(function)`` for a function whose parameters may be an iterator of user code."""
    aside = _without_mode(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return aside(*map(_read, args), **{name: _read(value) for name, value in kwargs.items()})

    call._torchdynamo_inline = function  # type: ignore[attr-defined]
    return call


def _method_without_mode(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``_without_mode(method)`` for PyTorch's own classes. User subclasses keep the mode: they may override callees."""
    aside = _without_mode(method)

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_pytorchs = type(self).__module__.startswith("torch.")
        return aside(self, *args, **kwargs) if is_pytorchs else method(self, *args, **kwargs)

    call._torchdynamo_inline = method  # type: ignore[attr-defined]
    return call


def _handle_torch_function(handle: Callable[..., Any]) -> Callable[..., Any]:
    """Return a faster ``handle_torch_function`` for calls with this mode on top of the stack.

    It ignores tensor subclasses among the arguments: the called function handles them in turn.
    """

    @functools.wraps(handle)
    def handle_torch_function(public_api: Any, relevant_args: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_mode_on_top():
            return handle(public_api, relevant_args, *args, **kwargs)
        mode = _pop_torch_function_stack()
        try:
            return _call(public_api, (), args, kwargs)
        finally:
            _push_on_torch_function_stack(mode)

    handle_torch_function._torchdynamo_inline = handle  # type: ignore[attr-defined]
    return handle_torch_function


def _subclasses(cls: type[Any], package: str) -> Iterator[type[Any]]:
    """Yield a class and its subclasses, recursively, that are defined in a package of PyTorch."""
    if cls.__module__.startswith(package):
        yield cls
    for subclass in cls.__subclasses__():
        yield from _subclasses(subclass, package)


def _leaves() -> Iterator[tuple[Any, str, Any]]:
    yield torch.overrides, "handle_torch_function", _handle_torch_function(torch.overrides.handle_torch_function)
    for cls in set(_subclasses(Optimizer, "torch.optim.")):
        for name in ("_init_group", "zero_grad"):
            if name in vars(cls):
                yield cls, name, _method_without_mode(vars(cls)[name])
        # The functional form of the optimizer has the name of its module, as `adam` in torch.optim.adam.
        module = sys.modules[cls.__module__]
        step = module.__name__.rpartition(".")[2]
        if callable(vars(module).get(step)):
            yield module, step, _without_mode(vars(module)[step])
    for cls in set(_subclasses(Distribution, "torch.distributions.")):
        for name in ("__init__", "log_prob", "sample", "rsample", "entropy"):
            if name in vars(cls) and not issubclass(cls, _COMPOSITE):
                yield cls, name, _method_without_mode(vars(cls)[name])
    for name in ("clip_grad_norm_", "clip_grad_value_", "_clip_grads_with_norm_", "_get_total_norm"):
        yield torch.nn.utils.clip_grad, name, _clipping_without_mode(getattr(torch.nn.utils.clip_grad, name))
    yield torch.amp.GradScaler, "_unscale_grads_", _method_without_mode(torch.amp.GradScaler._unscale_grads_)
