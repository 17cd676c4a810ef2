"""Gradients in captures: of full reductions and of trace."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

DEVICE = "rustdev"
NAN = float("nan")
VALUES = torch.tensor([[3.0, -1.0, 7.0], [7.0, -1.0, 2.0]])


def gradient(function: Callable[[torch.Tensor], Any], x: torch.Tensor) -> torch.Tensor:
    """The gradient of the sum of a function's results, each with another weight."""
    results = [result for result in pytree.tree_leaves(function(x)) if result.is_floating_point()]
    return torch.autograd.grad([(result * 3).sum() for result in results], x)[0]


REDUCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "max": torch.max,
    "min": torch.min,
    "median": torch.median,
    "nanmedian": torch.nanmedian,
    "max along a dimension": lambda x: torch.max(x, 1),
    "min along a dimension": lambda x: torch.min(x, 0),
    "amax": lambda x: torch.amax(x, (0, 1)),
    "aminmax": torch.aminmax,
    "trace": torch.trace,
    "index_fill by a tensor": lambda x: x.index_fill(1, x.new_zeros(1, dtype=torch.long), x.detach().sum()),
}


@pytest.mark.parametrize(
    "values", [[VALUES, VALUES.flip(1)], [VALUES, torch.where(VALUES == 7, NAN, VALUES)]], ids=["finite", "nan"]
)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_gradients_of_reductions_follow_the_values_of_each_replay(name: str, values: list[torch.Tensor]) -> None:
    function = REDUCTIONS[name]
    x = values[0].to(DEVICE).requires_grad_()
    gradient(function, x)
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        found = gradient(function, x)
    for given in values:
        with torch.no_grad():
            x.copy_(given)
        graph.replay()
        torch.testing.assert_close(found.cpu(), gradient(function, given.clone().requires_grad_()), equal_nan=True)


def test_a_second_derivative_of_a_maximum_is_captured() -> None:
    def second(x: torch.Tensor) -> torch.Tensor:
        (first,) = torch.autograd.grad(torch.max(x * x), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    x = VALUES.to(DEVICE).requires_grad_()
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        found = second(x)
    graph.replay()
    torch.testing.assert_close(found.cpu(), second(VALUES.clone().requires_grad_()))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:FutureWarning")  # PyTorch's own, at the first jvp
def test_forward_derivatives_of_a_maximum_are_pytorchs() -> None:
    x, direction = VALUES.to(DEVICE), torch.ones_like(VALUES).to(DEVICE)
    for function in (torch.max, torch.min):
        value, slope = torch.func.jvp(function, (x,), (direction,))
        assert (value.item(), slope.item()) == (function(VALUES).item(), 1.0)
        assert torch.equal(torch.func.grad(function)(x).cpu(), torch.func.grad(function)(VALUES))
