"""A device ``toy``, which is not rustdev's: a PrivateUse1 backend in Python that computes by the CPU and lacks some operators."""

from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

#: Operators without a kernel.
MISSING = {"aten::erfinv", "aten::cumsum"}
#: Operators with a wrong one.
WRONG = {"aten::floor": torch.ceil}


class ToyTensor(torch.Tensor):
    """A tensor of the device: a shell around one of the CPU."""

    host: torch.Tensor

    @staticmethod
    def __new__(cls: Any, host: torch.Tensor) -> Any:
        made = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, host.size(), strides=host.stride(), storage_offset=host.storage_offset(), dtype=host.dtype, device="toy:0"
        )
        made.host = host
        return made

    @classmethod
    def __torch_dispatch__(cls, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(operator, *args, **(kwargs or {}))


def compute(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Call an operator with the tensors of the CPU, and return those of the device; what is written stays the same object."""
    name = operator._schema.name
    if name in MISSING:
        raise NotImplementedError(f"toy has no kernel for {name}")
    shells: dict[int, ToyTensor] = {}

    def inner(value: Any) -> Any:
        if isinstance(value, ToyTensor):
            shells[id(value.host)] = value
            return value.host
        return torch.device("cpu") if isinstance(value, torch.device) and value.type == "toy" else value

    target = kwargs.get("device")
    hosts, named = pytree.tree_map(inner, (args, kwargs))
    result = WRONG[name](*hosts) if name in WRONG else operator(*hosts, **named)
    if name == "aten::_to_copy" and target is not None and torch.device(target).type == "cpu":
        return result

    def outer(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or isinstance(value, ToyTensor):
            return value
        return shells[id(value)] if id(value) in shells else ToyTensor(value)

    return pytree.tree_map(outer, result)


_setup_privateuseone_for_python_backend("toy")
LIBRARY = torch.library.Library("_", "IMPL")
LIBRARY.fallback(compute, "PrivateUse1")
