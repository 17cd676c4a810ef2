"""A module moved to the device keeps its Parameters: they become device tensors in place, as on other accelerators."""

from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_map_only

D = "rustdev"


def test_a_moved_module_keeps_its_parameters_and_gradients() -> None:
    module, other = nn.Linear(3, 2), nn.Linear(3, 2)
    other.weight = module.weight
    module(torch.ones(1, 3)).sum().backward()
    weight, grad, values = module.weight, module.weight.grad, module.weight.detach().clone()
    both = nn.ModuleList([module, other]).to(D)
    assert module.weight is other.weight is weight
    assert weight.grad is grad
    assert grad is not None
    assert weight.device == grad.device == torch.device(D, 0)
    both.cpu()
    assert module.weight is weight
    assert torch.equal(weight, values)


def test_an_optimizer_made_before_the_move_trains_the_module() -> None:
    module = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    expected = module.weight.detach() - 0.5
    module.to(D)(torch.ones(1, 3, device=D)).sum().backward()
    optimizer.step()
    assert torch.equal(module.weight.cpu(), expected)


def test_the_accumulator_of_gradients_follows_the_weight() -> None:
    weight = nn.Parameter(torch.ones(2))
    before = weight * 1  # its graph keeps the accumulator of the CPU
    weight.data = weight.data.to(D)
    (weight * 3).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [3.0, 3.0]
    assert weight.grad.device.type == D
    assert before.device.type == "cpu"


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_data_of_another_device_and_dtype(memory_format: torch.memory_format) -> None:
    x = torch.zeros(3)
    new = torch.rand(2, 3, 4, 5, device=D, dtype=torch.float16).to(memory_format=memory_format)
    x.data = new
    assert (x.device, x.dtype, x.shape, x.stride()) == (new.device, new.dtype, new.shape, new.stride())
    assert x.data_ptr() == new.data_ptr()
    assert torch.equal(x, new)


def test_sparse_and_dense_tensors_are_not_alike() -> None:
    dense = torch.eye(2)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        dense.data = torch.eye(2, device=D).to_sparse()


class Wrapper(torch.Tensor):
    """A tensor around another, which notes the operators that reach it."""

    inner: torch.Tensor
    seen: ClassVar[list[str]] = []

    @staticmethod
    def __new__(cls: Any, inner: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(str(func))
        args, kwargs = tree_map_only(cls, lambda each: each.inner, (args, kwargs or {}))
        return tree_map_only(torch.Tensor, cls, func(*args, **kwargs))


@pytest.mark.parametrize("device", ["cpu", D])
def test_data_of_a_parameter_that_is_a_subclass(device: str) -> None:
    parameter = nn.Parameter(Wrapper(torch.ones(2, 3, device=device)))
    other = Wrapper(torch.zeros(2, 3, device=device))
    Wrapper.seen.clear()
    parameter.data = other
    assert Wrapper.seen == []
    nn.Parameter(torch.ones(2, 3)).data = torch.zeros(2, 3, device=device)
