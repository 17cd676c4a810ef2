"""Numbers out of the range of a dtype: a call rejects or accepts them exactly as on the CPU."""

from collections.abc import Callable

import pytest
import torch
from comparison import compare_outcomes
from torch.nn import functional

Call = Callable[[torch.Tensor, torch.Tensor, complex], torch.Tensor]

VALUES = [300, -300, 2**40, -(2**40), 2**63, 1e10, 1e39, -1e300, float("inf"), float("nan"), 1 + 2j, True]
DTYPES = [torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]


def assigned(tensor: torch.Tensor, number: complex) -> torch.Tensor:
    """Return a tensor with its first element set to a number."""
    tensor[0] = number
    return tensor


CALLS: dict[str, Call] = {
    "add": lambda a, b, number: torch.add(a, b, alpha=number),
    "add_": lambda a, b, number: a.clone().add_(b, alpha=number),
    "sub": lambda a, b, number: torch.sub(a, b, alpha=number),
    "sub a number": lambda a, _, number: a - number,
    "addcmul": lambda a, b, number: torch.addcmul(a, b, b, value=number),
    "addcdiv": lambda a, b, number: torch.addcdiv(a, b, b, value=number),
    "lerp": lambda a, b, number: torch.lerp(a, b, number),
    "clamp": lambda a, _, number: a.clamp(number, number),
    "clamp min": lambda a, _, number: a.clamp(min=number),
    "clamp_": lambda a, _, number: a.clone().clamp_(max=number),
    "clamp_min": lambda a, _, number: torch.clamp_min(a, number),
    "clamp_max": lambda a, _, number: torch.clamp_max(a, number),
    "hardtanh": lambda a, _, number: functional.hardtanh(a, -1, number),
    "leaky_relu": lambda a, _, number: functional.leaky_relu(a, number),
    "elu": lambda a, _, number: functional.elu(a, number),
    "threshold": lambda a, _, number: functional.threshold(a, number, 1),
    "softplus": lambda a, _, number: functional.softplus(a, 1.0, number),
    "pow": lambda a, _, number: a**number,
    "fill_": lambda a, _, number: a.clone().fill_(number),
    "fill_ one element": lambda a, _, number: a[:1].clone().fill_(number),
    "fill_diagonal_": lambda a, _, number: a.view(1, 3).clone().fill_diagonal_(number),
    "scalar_tensor": lambda a, _, number: torch.scalar_tensor(number, dtype=a.dtype, device=a.device),
    "setitem": lambda a, _, number: assigned(a.clone(), number),
    "where": lambda a, _, number: torch.where(a > 1, a, number),
    "masked_fill": lambda a, _, number: a.masked_fill(a > 1, number),
    "index_add": lambda a, b, number: a.index_add(0, torch.tensor([0, 0, 2], device=a.device), b, alpha=number),
    "addmm": lambda a, b, number: torch.addmm(a, b.expand(3, 3).clone(), a.expand(3, 3).clone(), beta=number),
    "_foreach_add": lambda a, b, number: torch._foreach_add([a], [b], alpha=number)[0],
    "_foreach_clamp_min": lambda a, _, number: torch._foreach_clamp_min([a], number)[0],
    "_foreach_addcmul": lambda a, b, number: torch._foreach_addcmul([a], [b], [b], number)[0],
}


def older_limits() -> bool:
    """Return whether this PyTorch refuses limits beyond an integer dtype on the side where they limit nothing, too."""
    try:
        torch.ones(1, dtype=torch.uint8).clamp(min=-300)
    except RuntimeError:
        return True
    return False


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_refused_where_the_cpu_refuses(name: str, dtype: torch.dtype) -> None:
    if older_limits() and not dtype.is_floating_point and ("clamp" in name or name == "hardtanh"):
        pytest.skip("the device has the limits of PyTorch 2.15; to be removed with the last version that has others")
    for number in VALUES:
        if (name, dtype, number) == ("sub", torch.int64, 2**63):
            continue  # the CPU negates alpha before it looks at it, and that wraps to a number that fits
        if (name, dtype, number) == ("where", torch.bfloat16, 1 + 2j):
            continue  # bcomplex32, which `where` leaves to the fallback
        given = torch.tensor([1, 2, 3]).to(dtype), torch.tensor([2, 1, 1]).to(dtype)
        compare_outcomes(CALLS[name], *given, number, rtol=1e-2, atol=0, signs=False)
