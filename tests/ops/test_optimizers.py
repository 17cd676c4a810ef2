"""Optimizers on the device against the CPU over several steps: fused and foreach, every option, dtypes, scaled gradients."""

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from comparison import FLOATS, assert_same, compare, copied

TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3.2e-2, torch.float32: 2e-6, torch.float64: 1e-12}
SHAPES: list[tuple[int, ...]] = [(), (1,), (3, 5), (64,), (0, 4), (40, 30), (200, 200)]
ADAM: list[dict[str, Any]] = [
    {},
    {"weight_decay": 0.1},
    {"amsgrad": True},
    {"maximize": True, "betas": (0.3, 0.9)},
    {"amsgrad": True, "maximize": True, "weight_decay": 0.1, "eps": 1e-4},
]
SGD: list[dict[str, Any]] = [
    {"lr": 0.1},
    {"lr": 0.1, "weight_decay": 0.1, "maximize": True},
    {"lr": 0.1, "momentum": 0.9, "dampening": 0.5},
    {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    {"lr": 0.1, "momentum": 0.9, "maximize": True},
]
ADAGRAD: list[dict[str, Any]] = [{}, {"lr_decay": 0.1, "weight_decay": 0.1}, {"maximize": True, "eps": 1e-3}]
CASES = [
    *itertools.product([torch.optim.Adam, torch.optim.AdamW], ADAM),
    *itertools.product([torch.optim.SGD], SGD),
    *itertools.product([torch.optim.Adagrad], ADAGRAD),
]
ROWS = {
    torch.optim.Adam: "_fused_adam_",
    torch.optim.AdamW: "_fused_adamw_",
    torch.optim.SGD: "_fused_sgd_",
    torch.optim.Adagrad: "_fused_adagrad_",
}


def make_parameters(device: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """Return parameters of several shapes, the same for every device."""
    generator = torch.Generator().manual_seed(1)
    values = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in SHAPES]
    values.append(torch.randn(6, 8, generator=generator, dtype=torch.float64).t())
    return [value.to(dtype).to(device).requires_grad_() for value in values]


def set_gradients(parameters: list[torch.Tensor], step: int) -> None:
    """Give every parameter the gradient of that step. None is so small that its square is nothing in 16 bits."""
    generator = torch.Generator().manual_seed(100 + step)
    for parameter in parameters:
        value = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        value += 0.1 * value.sign()
        parameter.grad = torch.empty_like(parameter).copy_(value.to(parameter.dtype))


def train(
    optimizer: Callable[..., torch.optim.Optimizer], device: str, dtype: torch.dtype, steps: int = 4, **options: Any
) -> tuple[list[torch.Tensor], torch.optim.Optimizer]:
    """Take some steps; return the parameters and the optimizer."""
    parameters = make_parameters(device, dtype)
    instance = optimizer(parameters, **options)
    for step in range(steps):
        set_gradients(parameters, step)
        instance.step()
    return parameters, instance


def states(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return every state but the step counts, which are not where the parameters are in all implementations."""
    return [value for state in optimizer.state.values() for key, value in state.items() if key != "step" and torch.is_tensor(value)]


@pytest.mark.parametrize(("optimizer", "options"), CASES)
def test_fused(optimizer: type[torch.optim.Optimizer], options: dict[str, Any]) -> None:
    for dtype in FLOATS:
        before = torch.rustdev.op_calls()[ROWS[optimizer]]
        mine, my_optimizer = train(optimizer, "rustdev", dtype, fused=True, **options)
        assert torch.rustdev.op_calls()[ROWS[optimizer]] == before + 4
        # In double precision, and rounded at the end: the CPU's fused kernels round settings to 16 bits.
        exact = torch.float64 if dtype.itemsize == 2 else dtype
        theirs, their_optimizer = train(optimizer, "cpu", exact, foreach=False, **options)
        assert_same(mine, [value.to(dtype) for value in theirs], rtol=TOLERANCE)
        assert_same(states(my_optimizer), [value.to(dtype) for value in states(their_optimizer)], rtol=4 * TOLERANCE[dtype])
        for state in my_optimizer.state.values():
            if "step" in state:
                assert state["step"].device.type == "rustdev"
                assert state["step"].item() == 4


@pytest.mark.parametrize("optimizer", ROWS)
def test_the_learning_rate_may_be_a_tensor(optimizer: type[torch.optim.Optimizer]) -> None:
    theirs, _ = train(optimizer, "cpu", torch.float32, foreach=False, lr=0.25)
    for device in ("cpu", "rustdev"):
        mine, _ = train(optimizer, "rustdev", torch.float32, fused=True, lr=torch.tensor(0.25, device=device))
        assert_same(mine, theirs, rtol=TOLERANCE)


@pytest.mark.parametrize("optimizer", ROWS)
def test_scaled_gradients_are_unscaled_and_written_back(optimizer: type[torch.optim.Optimizer]) -> None:
    theirs, _ = train(optimizer, "cpu", torch.float32, foreach=False, lr=0.25)
    mine = make_parameters("rustdev", torch.float32)
    instance = optimizer(mine, fused=True, lr=0.25)
    for step in range(4):
        set_gradients(mine, step)
        expected = [parameter.grad.cpu() for parameter in mine]
        for parameter in mine:
            parameter.grad *= 128
        instance.grad_scale = torch.tensor(128.0, device="rustdev")
        instance.found_inf = torch.tensor(0.0, device="rustdev")
        instance.step()
        assert_same([parameter.grad for parameter in mine], expected)
    assert_same(mine, theirs, rtol=TOLERANCE)


@pytest.mark.parametrize("optimizer", ROWS)
def test_an_overflow_skips_the_step(optimizer: type[torch.optim.Optimizer]) -> None:
    options = {"momentum": 0.9} if optimizer is torch.optim.SGD else {}
    parameters, instance = train(optimizer, "rustdev", torch.float32, fused=True, lr=0.25, **options)
    before, state = [value.detach().cpu() for value in parameters], copy.deepcopy(states(instance))
    set_gradients(parameters, 9)
    instance.found_inf = torch.tensor(1.0, device="rustdev")
    instance.grad_scale = torch.tensor(2.0, device="rustdev")
    instance.step()
    assert_same(parameters, before)
    assert_same(states(instance), [value.cpu() for value in state])
    assert all(entry["step"].item() == 4 for entry in instance.state.values() if "step" in entry)


def test_long_lists_take_several_launches() -> None:
    def step(whole: torch.Tensor, grads: torch.Tensor) -> torch.Tensor:
        parameters = [it.requires_grad_() for it in whole.unbind()]
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad
        torch.optim.AdamW(parameters, fused=True, weight_decay=0.5).step()
        return torch.stack(parameters).detach()

    numbers = torch.arange(5000.0)[:, None].repeat(1, 2)
    compare(step, numbers, numbers % 7, rtol=TOLERANCE)


SETTINGS = {"weight_decay": 0.0, "momentum": 0.0, "lr": 0.1, "dampening": 0.0, "nesterov": False, "maximize": False}
ONES = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("parameter", "grad", "text"),
    [
        (ONES, ONES.t().contiguous(), "same dtype, device, sizes and strides"),
        (ONES, ONES.t().contiguous().t(), "same dtype, device, sizes and strides"),
        (ONES, ONES.double(), "same dtype, device, sizes and strides"),
        (ONES, ONES[:1, :1].clone().expand(2, 3), "same dtype, device, sizes and strides"),
        (ONES.long(), ONES.long(), "not implemented for"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(parameter: torch.Tensor, grad: torch.Tensor, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        torch._fused_sgd_(copied([parameter]), copied([grad]), [], **SETTINGS, is_first_step=False)
    with pytest.raises(RuntimeError, match="same dtype, device, sizes and strides"):
        torch._fused_sgd_(copied([ONES]), [ONES], [], **SETTINGS, is_first_step=False)


def test_a_step_over_tensors_that_overlap_in_part_is_refused() -> None:
    values = torch.arange(101.0, device="rustdev")
    with pytest.raises(RuntimeError, match="other elements of another"):
        torch._fused_sgd_([values[:-1]], [values[1:]], [], **SETTINGS, is_first_step=True)
    assert torch.equal(values.cpu(), torch.arange(101.0))
