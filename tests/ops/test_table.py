"""The operator table: every row is bound to an operator, and a call of that operator reaches the kernel."""

from collections.abc import Callable

import pytest
import torch

pytestmark = pytest.mark.usefixtures("strict")


def tensor(*shape: int) -> torch.Tensor:
    """Return a device tensor of ones."""
    return torch.ones(*shape, device="rustdev")


# One call per row; the usual call for those not named.
CALLS: dict[str, Callable[[], object]] = {
    "copy_": lambda: tensor(2).copy_(tensor(2)),
    "fill_": lambda: tensor(2).fill_(3),
    "zero_": lambda: tensor(2).zero_(),
    "mm": lambda: torch.mm(tensor(2, 2), tensor(2, 2)),
    "addmm": lambda: torch.addmm(tensor(2), tensor(2, 2), tensor(2, 2)),
    "bmm": lambda: torch.bmm(tensor(1, 2, 2), tensor(1, 2, 2)),
    "baddbmm": lambda: torch.baddbmm(tensor(1, 2, 2), tensor(1, 2, 2), tensor(1, 2, 2)),
    "addmv": lambda: torch.addmv(tensor(2), tensor(2, 2), tensor(2)),
    "sum": lambda: torch.sum(tensor(2, 2), 0),
    "mean": lambda: torch.mean(tensor(2, 2), 0),
    "all": lambda: torch.all(tensor(2, 2), 0),
    "any": lambda: torch.any(tensor(2, 2), 0),
    "prod": lambda: torch.prod(tensor(2, 2), 0),
    "threshold_backward": lambda: torch.ops.aten.threshold_backward(tensor(2), tensor(2), 0),
}
BINARY = {"add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"}


def call(name: str) -> None:
    """Call the operator of a row."""
    if name in CALLS:
        CALLS[name]()
    elif name in BINARY:
        getattr(torch, name)(tensor(2, 3), tensor(3))
    else:
        getattr(torch, name)(tensor(2))


@pytest.mark.parametrize("name", torch.rustdev.op_calls())
def test_every_row_is_bound_and_called(name: str) -> None:
    before = torch.rustdev.op_calls()[name]
    call(name)
    assert torch.rustdev.op_calls()[name] > before


def test_rows_of_the_table() -> None:
    rows = torch.rustdev.op_calls()
    expected = [
        "fill_",
        "zero_",
        "copy_",
        "add",
        "sub",
        "mul",
        "div",
        "neg",
        "relu",
        "threshold_backward",
        "exp",
        "maximum",
        "eq",
        "lt",
        "gt",
        "sum",
        "mean",
        "mm",
        "addmm",
    ]
    assert not set(expected) - set(rows)
