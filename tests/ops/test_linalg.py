"""Matrix products: dtypes, strides, out=, in-place, scalars and conjugates against the CPU; each engine's against float64.

The engines are the library's, and those for narrow, skinny, widened and direct products.
"""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from comparison import COMPLEX, assert_any_threads, compare, compare_errors, make_tensor

TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 4e-2, torch.float32: 2e-4, torch.float64: 1e-10}
TOLERANCE |= {torch.complex64: 2e-4, torch.complex128: 1e-10}
close = functools.partial(compare, rtol=TOLERANCE)


Call = Callable[..., Any]
#: Calls, and sizes of their operands.
CONJUGATES: dict[str, tuple[Call, list[tuple[int, ...]]]] = {
    "mm of conj": (lambda a, b: torch.mm(a.conj(), b), [(20, 12), (12, 30)]),
    "mm of mH and conj": (lambda a, b: torch.mm(a.mH, b.conj()), [(12, 20), (12, 30)]),
    "mm of its mH": (lambda a: a.mH @ a, [(4, 4)]),
    "addmm of conj": (lambda own, a, b: torch.addmm(own.conj(), a, b.conj()), [(3, 4), (3, 5), (5, 4)]),
    "large addmm of conj": (lambda own, a, b: torch.addmm(own.conj(), a, b.conj()), [(20, 30), (20, 12), (12, 30)]),
}


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("name", CONJUGATES)
def test_conjugates(name: str, dtype: torch.dtype) -> None:
    function, sizes = CONJUGATES[name]
    close(function, *(make_tensor(size, dtype, seed=seed) for seed, size in enumerate(sizes)))


def test_beta_zero_ignores_self() -> None:
    a, b, nan = make_tensor((4, 3), torch.float32), make_tensor((3, 5), torch.float32), torch.full((4, 5), float("nan"))
    close(lambda own, a, b: torch.addmm(own, a, b, beta=0), nan, a, b)
    close(lambda own, a, b: torch.baddbmm(own, a, b, beta=0), nan[None], a[None], b[None])


@pytest.mark.parametrize(
    "call",
    [
        lambda a: torch.mm(a, a),
        lambda a: torch.mm(a, a.t().double()),
        lambda a: torch.mm(a, a[0]),
        lambda a: torch.bmm(a, a),
        lambda a: torch.bmm(a[None], a.t()[None].double()),
        lambda a: torch.addmm(a[:, :3].double(), a, a.t()),
        lambda a: torch.addmm(a, a, a.t()),
        lambda a: torch.mv(a, a[0, :2]),
    ],
)
def test_errors_are_those_of_the_cpu(call: Call) -> None:
    compare_errors(call, make_tensor((3, 4), torch.float32))


D = "rustdev"
#: m, n, k: squares, tall, wide, one row or column, few terms, and sizes at the ends of blocks.
SIZES = [
    (1, 1, 1), (3, 5, 7), (64, 64, 64), (130, 70, 90), (257, 513, 129), (700, 30, 200), (30, 700, 200),
    (1, 300, 500), (300, 1, 500), (8, 300, 500), (63, 3, 3), (64, 3, 3), (1000, 3, 3), (1025, 8, 8), (2049, 16, 16),
    (1500, 16, 1), (1500, 1, 16), (3, 1500, 3), (1500, 17, 3), (1500, 3, 17), (3, 3, 5000), (2, 2, 0),
]  # fmt: skip
#: Each of them has engines of its own.
engines = pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32], ids=str)


def operand(rows: int, cols: int, dtype: torch.dtype, layout: str = "rows") -> torch.Tensor:
    """Return a matrix of the device: row-major, column-major, or with gaps between its elements."""
    if layout == "rows":
        return (torch.randn(rows, cols) if dtype.is_floating_point else torch.randint(-5, 6, (rows, cols))).to(D, dtype)
    return operand(cols, rows, dtype).t() if layout == "columns" else operand(2 * rows, 2 * cols, dtype)[::2, ::2]


def assert_rounded(found: torch.Tensor, expected: torch.Tensor, terms: int) -> None:
    """Compare with a result in float64 that is rounded once."""
    # Sums of n terms are off by some roundings of float32, or of the dtype where it is wider.
    sums = torch.finfo(torch.float64 if found.dtype is torch.float64 else torch.float32).eps * (terms + 8)
    rtol, atol = (torch.finfo(found.dtype).eps, sums * max(terms, 1) ** 0.5 * 4) if found.is_floating_point() else (0, 0)
    torch.testing.assert_close(found.cpu().double(), expected, rtol=rtol, atol=atol)


@engines
@pytest.mark.parametrize("layouts", [("rows", "rows"), ("rows", "columns"), ("columns", "rows"), ("gaps", "gaps")], ids=str)
def test_products_of_two_matrices(dtype: torch.dtype, layouts: tuple[str, str]) -> None:
    for m, n, k in SIZES:
        a, b = operand(m, k, dtype, layouts[0]), operand(k, n, dtype, layouts[1])
        for options in ({}, {"out": torch.full((n, m), 9, dtype=dtype, device=D).t()}):
            assert_rounded(torch.mm(a, b, **options), a.cpu().double() @ b.cpu().double(), k)


@engines
def test_products_with_an_addend(dtype: torch.dtype) -> None:
    for m, n, k in (*SIZES, (350, 340, 360)):
        a, b = operand(m, k, dtype), operand(k, n, dtype, "columns")
        product = a.cpu().double() @ b.cpu().double()
        for shape in ((n,), (m, n), (m, 1), (1, 1)):
            own = operand(1, torch.Size(shape).numel(), dtype).view(shape)
            wide = own.cpu().double().expand(m, n)
            assert_rounded(torch.addmm(own, a, b), wide + product, k + 1)
        own = operand(m, n, dtype)
        wide = own.cpu().double()
        assert_rounded(torch.addmm(own, a, b, beta=2, alpha=-1), 2 * wide - product, k + 2)
        assert_rounded(own.addmm_(a, b), wide + product, k + 1)


@engines
def test_batches_of_products(dtype: torch.dtype) -> None:
    for m, n, k in ((5, 6, 7), (40, 50, 60), (300, 3, 3), (1, 64, 200), (130, 140, 150)):
        a, own = operand(3 * m, k, dtype).view(3, m, k), operand(3 * m, n, dtype).view(3, m, n)
        b = operand(3 * n, k, dtype).view(3, n, k).transpose(1, 2)
        expected = torch.bmm(a.cpu().double(), b.cpu().double())
        assert_rounded(torch.bmm(a, b), expected, k)
        assert_rounded(torch.baddbmm(own, a, b), own.cpu().double() + expected, k + 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_products_have_the_same_bits_for_any_number_of_threads(dtype: torch.dtype) -> None:
    a, b = operand(700, 300, dtype), operand(300, 500, dtype, "columns")
    assert_any_threads(lambda: torch.mm(a, b))


@pytest.mark.parametrize("shift", [0, 1, 9])
@pytest.mark.parametrize("sizes", [(3, 3), (2, 3, 3)])
def test_a_product_into_the_memory_of_a_factor_is_right(sizes: tuple[int, ...], shift: int) -> None:
    factor, memory = torch.rand(sizes).to(D), torch.zeros(64, device=D)
    given = memory[: factor.numel()].view(sizes).copy_(factor)
    out = memory[shift : shift + factor.numel()].view(sizes)
    torch.testing.assert_close(torch.matmul(given, factor, out=out).cpu(), factor.cpu() @ factor.cpu())
