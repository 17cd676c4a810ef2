"""Pointwise operators over values of all magnitudes, bitwise equal to the CPU where its results are exact."""

import math
from typing import Any

import pytest
import torch
from comparison import CPU, FLOATS, TOLERANCE, assert_same, compare, compare_errors, compare_gradients
from torch.nn import functional

BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
HALVES = FLOATS[:2]
COUNT = 5000


def any_bits(dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Return numbers of any bits: of all magnitudes, infinities and NaN."""
    bits = BITS[dtype.itemsize]
    limits = torch.iinfo(bits)
    return torch.randint(limits.min, limits.max, (COUNT,), dtype=bits, generator=torch.Generator().manual_seed(seed)).view(dtype)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_signs_of_16_bit_floats_are_bits(dtype: torch.dtype) -> None:
    lhs, rhs = any_bits(dtype, 1), any_bits(dtype, 2)
    for function in (torch.abs, torch.neg):
        assert torch.equal(function(lhs.to("rustdev")).cpu().view(torch.int16), function(lhs).view(torch.int16))
    for first, second in ((lhs, rhs), (lhs[::3], rhs[::3]), (lhs, rhs.float())):
        compare(torch.copysign, first, second)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["fmod", "remainder"])
def test_remainders_are_exact(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    generator = torch.Generator().manual_seed(3)
    lhs, rhs = (torch.randn(COUNT, generator=generator).to(dtype) for _ in range(2))
    whole, few = (torch.randint(-50, 50, (COUNT,), generator=generator).to(dtype) for _ in range(2))
    limits = torch.tensor([0.0, -0.0, 1.0, -2.5, math.inf, -math.inf, math.nan], dtype=dtype)
    for first, second in ((lhs * 100, rhs), (whole, few), (rhs, lhs * 100), (limits[:, None], limits)):
        compare(function, first, second)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_remainders_of_all_magnitudes(dtype: torch.dtype) -> None:
    lhs, rhs = any_bits(dtype, 4).tolist(), any_bits(dtype, 5).tolist()
    found = torch.fmod(torch.tensor(lhs, dtype=dtype, device="rustdev"), torch.tensor(rhs, dtype=dtype, device="rustdev"))

    def exact(dividend: float, divisor: float) -> float:
        defined = math.isfinite(dividend) and divisor != 0 and not math.isnan(divisor)
        return math.fmod(dividend, divisor) if defined else math.nan

    assert_same(found, torch.tensor([exact(*pair) for pair in zip(lhs, rhs, strict=True)], dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_limits_that_are_nan_make_everything_nan(dtype: torch.dtype) -> None:
    host = torch.cat([any_bits(dtype, 6), torch.tensor([math.nan, 0.0, -0.0], dtype=dtype)])
    for low, high in ((math.nan, 1.0), (1.0, math.nan), (None, math.nan), (-0.5, 0.5), (2.0, -2.0), (None, 0.0)):
        compare(torch.clamp, host, low, high)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["amax", "amin"])
def test_nan_anywhere_is_the_extreme(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    # A row for each place of NaN, beside rows with infinities alone.
    host = torch.randn(300, 300, generator=torch.Generator().manual_seed(7)).to(dtype)
    host[::7, 3], host[::5, 290] = math.inf, -math.inf
    spoilt = host.clone().fill_diagonal_(math.nan)
    for source in (host, spoilt):
        for dim in (0, 1, None):
            compare(function, source, *(() if dim is None else (dim,)))
    assert bool(function(spoilt.to("rustdev"), 0).isnan().all())


KINKED = {
    **{name: getattr(functional, name) for name in ("relu", "relu6", "elu", "selu", "celu", "leaky_relu", "hardswish", "hardtanh")},
    **{name: getattr(functional, name) for name in ("hardsigmoid", "softshrink", "hardshrink", "softplus")},
    "threshold": lambda x: functional.threshold(x, 1, 7),
    "clamp": lambda x: x.clamp(-1, 1),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", KINKED)
def test_where_pieces_of_a_function_meet(name: str, dtype: torch.dtype) -> None:
    positions = torch.tensor([-6.0, -3, -1, -0.5, -0.0, 0, 0.5, 1, 3, 6, 20], dtype=dtype)
    # The CPU's hardsigmoid in float64 takes a sixth of float32, and softshrink either zero between its pieces.
    compare_gradients(
        KINKED[name], positions, rtol=TOLERANCE | {torch.float16: 1e-3, torch.float64: 1e-7}, atol=1e-7, signs=name != "softshrink"
    )


@pytest.mark.skipif(
    torch._C._dispatch_has_kernel_for_dispatch_key("aten::ldexp.Tensor", "CompositeImplicitAutograd"),
    reason="this PyTorch multiplies by a power, whose range is the dtype's",
)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_products_with_powers_of_two_are_exact(dtype: torch.dtype) -> None:
    numbers = torch.cat([any_bits(dtype, 8)[:500], torch.tensor([1e-30, 0.0, -0.0, 3.0, math.inf, math.nan], dtype=dtype)])
    exponents = torch.tensor([0, 1, -1, 130, -140, 300, -300, 1200, -1200, 5000, -5000])
    for integers in (torch.int16, torch.int64):
        # The CPU warns of operands that it broadcasts.
        host, powers = (it.contiguous() for it in torch.broadcast_tensors(numbers[:, None], exponents.to(integers)))
        compare(torch.ldexp, host, powers)
    for power in (torch.tensor(3), torch.tensor(2.5)):
        compare(torch.ldexp, numbers, power)
    place = numbers.to("rustdev")
    assert_same(place.ldexp_(torch.tensor(5, device="rustdev")), torch.ldexp(numbers, torch.tensor(5)))
    wide = torch.empty(3, dtype=torch.float64, device="rustdev")
    torch.ldexp(numbers[-6:-3].to("rustdev"), torch.tensor(130, device="rustdev"), out=wide)
    # The CPU goes by a power and a product there, which overflows.
    assert_same(wide, torch.ldexp(numbers[-6:-3], torch.tensor(130)).double())
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Int"):
        torch.ldexp(place, torch.tensor(2, device="rustdev"), out=torch.empty(506, dtype=torch.int32, device="rustdev"))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("length", [0, 1, 2, 9, 1000])
def test_kaiser_window(length: int, dtype: torch.dtype) -> None:
    for periodic, beta in ((True, 12.0), (False, 0.5), (False, 0.0)):
        expected = torch.kaiser_window(length, periodic, beta, dtype=torch.float64)
        found = torch.kaiser_window(length, periodic, beta, dtype=dtype, device="rustdev").cpu()
        assert found.dtype == dtype
        tolerance = 4 * torch.finfo(dtype).eps
        torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "options",
    [
        {"window_length": -1},
        {"window_length": 4, "dtype": torch.int64},
        {"window_length": 4, "dtype": torch.complex64},
        {"window_length": 4, "layout": torch.sparse_coo},
    ],
    ids=str,
)
def test_kaiser_window_refuses_what_the_cpu_refuses(options: dict[str, Any]) -> None:
    # Two of the texts name the device.
    has_device = options.get("dtype") is torch.int64 or "layout" in options
    compare_errors(lambda device: torch.kaiser_window(**options, device=device), CPU, text=not has_device)
