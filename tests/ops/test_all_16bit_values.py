"""Unary functions and their derivatives over all 65,536 values of the 16 bit floats, against double precision on the CPU.

A result is the value nearest to the exact one or adjacent to it; two steps away only if the CPU's kernel of the same dtype is as
far off. Functions that PyTorch composes of several rounded operators may be as far off as the CPU's. The functions are the unary
ones of PyTorch's database and its activation modules, so that new ones are included; derivatives are those of the modules, which
have kernels.
"""

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import activation
from torch.testing._internal.common_methods_invocations import unary_ufuncs

Function = Callable[[torch.Tensor], torch.Tensor]
DTYPES = [torch.float16, torch.bfloat16]

#: Unary operators that are no functions of real numbers, that need more arguments, or that have no kernel of ours.
OTHERS = {
    *("bfloat16", "half"),
    *("bitwise_not", "bool", "byte", "cdouble", "cfloat", "chalf", "char", "double", "fill", "float", "frexp", "imag", "int"),
    *("isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "jiterator_unary", "logical_not", "long", "mvlgamma"),
    *("polygamma", "short", "signbit"),
    *(f"special.{name}" for name in ("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "ndtr", "polygamma")),
    *(f"special.modified_bessel_{name}" for name in ("i0", "i1", "k0", "k1")),
    *("special.scaled_modified_bessel_k0", "special.scaled_modified_bessel_k1", "special.spherical_bessel_j0"),
}
#: Modules that look at several numbers, or at random ones.
NOT_POINTWISE = {"GLU", "LogSoftmax", "MultiheadAttention", "PReLU", "RReLU", "Softmax", "Softmax2d", "Softmin"}
#: x - tanh(x) of two operators, whose difference leaves of the first one's rounding what there is.
NOT_POINTWISE |= {"Tanhshrink"}
#: Modules whose slope is taken from the rounded result, or made of several operators.
WITHOUT_SLOPE = {"Sigmoid", "Softsign", "Tanh"}
#: Arguments of modules; none for those not named.
ARGUMENTS: dict[str, list[dict[str, Any]]] = {
    "CELU": [{}, {"alpha": 0.25}],
    "ELU": [{}, {"alpha": 1.5}],
    "GELU": [{}, {"approximate": "tanh"}],
    "LeakyReLU": [{"negative_slope": 0.25}],
    "Softplus": [{}, {"beta": 2.0, "threshold": 5.0}, {"beta": 0.25, "threshold": 8.0}],
    "Threshold": [{"threshold": 0.5, "value": -2.0}],
}


def sinc(x: torch.Tensor) -> torch.Tensor:
    """Return sin(pi x) / (pi x), of which PyTorch rounds pi x first."""
    whole = torch.round(x)
    sine = torch.sin(math.pi * (x - whole)) * (1 - 2 * whole.remainder(2))
    return torch.where(x == 0, torch.ones_like(x), sine / (math.pi * x))


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    """Return the approximation of gelu, in which PyTorch's 1 + tanh loses digits in double precision too."""
    return x * torch.sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x * x * x))


def gelu(x: torch.Tensor) -> torch.Tensor:
    """Return gelu, in which PyTorch's 1 + erf loses digits in double precision too."""
    return x * 0.5 * torch.special.erfc(x * -math.sqrt(0.5))


def at_infinity(function: Function) -> Function:
    """Return a Bessel function that grows to infinity, where the CPU's is NaN."""
    return lambda x: torch.where(x.isinf(), x.abs() if function is torch.i0 else x, function(x))


#: What the CPU's results in double precision are taken from, where they are not exact enough.
EXACT: dict[str, Function] = {"sinc": sinc, "GELU": gelu, "GELU-tanh": gelu_tanh}
EXACT |= {"i0": at_infinity(torch.i0), "special_i1": at_infinity(torch.special.i1)}


def functions() -> dict[str, Function]:
    """Return the functions by name."""
    # Functions of modules are added below, named by their module.
    looked_at = [op for op in unary_ufuncs if op.name not in OTHERS and not op.name.startswith(("_refs.", "nn.functional."))]
    found: dict[str, Function] = {op.formatted_name: op.op for op in looked_at}
    for exponent in (2.0, 3.0, 0.5, -0.5, -1.0, 2.5, -3.0, 0.25):
        found[f"pow-{exponent}"] = lambda x, exponent=exponent: torch.pow(x, exponent)
    found["logit-0.125"] = lambda x: torch.logit(x, 0.125)
    for name in set(activation.__all__) - NOT_POINTWISE:
        for arguments in ARGUMENTS.get(name, [{}]):
            found["-".join([name, *map(str, arguments.values())])] = getattr(nn, name)(**arguments)
    return dict(sorted(found.items()))


FUNCTIONS = functions()
SLOPES = [name for name in FUNCTIONS if name.split("-")[0] in set(activation.__all__) - WITHOUT_SLOPE]


def all_values(dtype: torch.dtype) -> torch.Tensor:
    """Return every number of a type, in the order of their bits."""
    return torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)


def positions(values: torch.Tensor) -> torch.Tensor:
    """Return the numbers' ranks in the order of all numbers of their type; both zeros have the same."""
    bits = values.view(torch.int16).to(torch.int32)
    return torch.where(bits < 0, -(bits & 0x7FFF), bits)


def distances(found: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Return how many numbers apart results are; far where one alone is NaN."""
    apart = (positions(found) - positions(expected)).abs()
    apart[found.isnan() & expected.isnan()] = 0
    apart[found.isnan() != expected.isnan()] = 2**16
    return apart


def slope(function: Function) -> Function:
    """Return the function's derivative, by autograd."""

    def of(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        y = function(x)
        return torch.autograd.grad(y, x, torch.ones_like(y))[0]

    return of


def launches() -> int:
    """Return how often kernels were launched."""
    return sum(torch.rustdev.op_calls().values())


def check(function: Function, exact: Function, dtype: torch.dtype, own_launches: int) -> None:
    """Hold the function's results on the device against the exact ones."""
    values = all_values(dtype)
    expected = exact(values.double()).to(dtype)
    on_device = values.to("rustdev")
    before = launches()
    result = function(on_device)
    is_one_kernel = launches() - before <= own_launches
    found = result.cpu()
    assert found.dtype == dtype
    try:
        theirs = distances(function(values), expected)
    except NotImplementedError:
        theirs = torch.zeros(len(values), dtype=torch.int32)
    limit = theirs.clamp(1, 2) if is_one_kernel else theirs.clamp(1)
    apart = distances(found, expected)
    if own_launches > 1:
        # Which slope NaN has is each kernel's choice on the CPU, and not the same in its vectors and behind them.
        apart[values.isnan()] = 0
    wrong = (apart > limit).nonzero().flatten()
    some = wrong[:: max(len(wrong) // 8, 1)]
    rows = zip(values[some].tolist(), found[some].tolist(), expected[some].tolist(), strict=True)
    assert not len(wrong), f"{len(wrong)} values: " + ", ".join(f"f({x:g}) = {y:g}, not {z:g}" for x, y, z in rows)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str, dtype: torch.dtype) -> None:
    check(FUNCTIONS[name], EXACT.get(name, FUNCTIONS[name]), dtype, 1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", SLOPES)
def test_slopes(name: str, dtype: torch.dtype) -> None:
    # The function itself, the gradient's ones, and the slope.
    check(slope(FUNCTIONS[name]), slope(EXACT.get(name, FUNCTIONS[name])), dtype, 3)


def test_modules_are_looked_at() -> None:
    classes = inspect.getmembers(nn, inspect.isclass)
    modules = {name for name, module in classes if module.__module__ == activation.__name__}
    assert modules == set(activation.__all__)
