"""Compiled functions against the CPU's eager ones: values, strides and gradients."""

from collections.abc import Callable

import pytest
import torch
from generated import check
from torch.nn import functional as F  # noqa: N812 - as everyone calls it


def randn(*shape: int, grad: bool = False, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape).to(dtype).requires_grad_(grad)


def test_pointwise_is_one_kernel() -> None:
    check(lambda x, y: (x.tanh() * y + x.sigmoid()).exp(), randn(37, 41), randn(41), kernels_made=1)


@pytest.mark.slow
def test_pointwise_backward() -> None:
    check(lambda x, y: F.gelu(x) * y.sin(), randn(37, 41, grad=True), randn(41, grad=True), kernels_made=2)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.int64, torch.uint8, torch.bool])
def test_dtypes(dtype: torch.dtype) -> None:
    x = randn(2, 67).mul(3).abs().to(dtype)
    check(lambda x: torch.where(x > 1, x, x * x), x)


def test_reductions_over_each_side() -> None:
    check(lambda x: (x.sum(0), x.amax(1), x.mean(), x.var(1), x.prod(0), x.argmin(0)), randn(23, 130))


def test_argmax_of_a_permuted_tensor_names_the_place_in_the_tensor() -> None:
    check(lambda x: x.permute(2, 0, 1).argmax(), randn(9, 10, 11))


@pytest.mark.slow
@pytest.mark.parametrize("function", [torch.max, torch.nanmedian])
def test_selection_of_a_whole_tensor(function: Callable[..., torch.Tensor]) -> None:
    check(lambda x: function(x * 2), randn(5, 7, grad=True, dtype=torch.bfloat16))


@pytest.mark.slow
def test_softmax() -> None:
    check(lambda x: (F.softmax(x.tanh(), -1), F.log_softmax(x, -1)), randn(150, 70, grad=True))


@pytest.mark.slow
def test_products_are_kernels_of_the_device() -> None:
    before = dict(torch.rustdev.op_calls())
    check(lambda x, w, b: F.linear(x.relu(), w, b).relu(), randn(5, 8, grad=True), randn(6, 8, grad=True), randn(6, grad=True))
    called = {name for name, calls in torch.rustdev.op_calls().items() if calls != before[name]}
    assert called & {"mm", "addmm"}


def test_mutation_of_inputs() -> None:
    x = randn(3, 40).to("rustdev")
    expected = x.cpu() * 2 + 1
    alias = x[1]
    torch.compile(lambda x: x.mul_(2).add_(1), fullgraph=True)(x)
    torch.testing.assert_close(x.cpu(), expected)
    torch.testing.assert_close(alias.cpu(), expected[1])


@pytest.mark.slow
def test_branch_inside_the_graph() -> None:
    def branch(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() - 1, (x,))

    compiled = torch.compile(branch, fullgraph=True)
    for x in (torch.ones(1, 9), -torch.ones(1, 9)):
        torch.testing.assert_close(compiled(x.to("rustdev:1")).cpu(), branch(x))


def test_empty_tensors() -> None:
    check(lambda x, y: (x.exp() + 1, y.sum(1), y.T * 2), torch.empty(0, 3), torch.empty(4, 0))
