"""Matrix products by each engine (the library's, narrow, skinny, widened, direct), against float64."""

import pytest
import torch

pytestmark = pytest.mark.usefixtures("strict")

D = "rustdev"
#: m, n, k: squares, tall, wide, one row or column, few terms, and sizes at the ends of blocks.
SIZES = [
    (1, 1, 1), (3, 5, 7), (64, 64, 64), (130, 70, 90), (257, 513, 129), (700, 30, 200), (30, 700, 200),
    (1, 300, 500), (300, 1, 500), (8, 300, 500), (63, 3, 3), (64, 3, 3), (1000, 3, 3), (1025, 8, 8), (2049, 16, 16),
    (1500, 16, 1), (1500, 1, 16), (3, 1500, 3), (1500, 17, 3), (1500, 3, 17), (3, 3, 5000), (2, 2, 0),
]  # fmt: skip
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32]


def operand(rows: int, cols: int, dtype: torch.dtype, layout: str) -> torch.Tensor:
    """Return a matrix of the device: row-major, column-major, or with gaps between its elements."""
    make = torch.randn if dtype.is_floating_point else lambda *sizes: torch.randint(-5, 6, sizes)
    if layout == "rows":
        return make(rows, cols).to(D, dtype)
    if layout == "columns":
        return make(cols, rows).to(D, dtype).t()
    return make(2 * rows, 2 * cols).to(D, dtype)[::2, ::2]


def compare(found: torch.Tensor, expected: torch.Tensor, terms: int) -> None:
    """Compare with a result in float64 that is rounded once."""
    if not found.dtype.is_floating_point:
        assert torch.equal(found.cpu().double(), expected)
        return
    # Sums of n terms are off by some roundings of float32, or of the dtype where it is wider.
    sums = torch.finfo(torch.float64 if found.dtype is torch.float64 else torch.float32).eps * (terms + 8)
    rtol = torch.finfo(found.dtype).eps
    torch.testing.assert_close(found.cpu().double(), expected, rtol=rtol, atol=sums * max(terms, 1) ** 0.5 * 4)


@pytest.mark.parametrize("layouts", [("rows", "rows"), ("rows", "columns"), ("columns", "rows"), ("gaps", "gaps")], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_products_of_two_matrices(dtype: torch.dtype, layouts: tuple[str, str]) -> None:
    for m, n, k in SIZES:
        a, b = operand(m, k, dtype, layouts[0]), operand(k, n, dtype, layouts[1])
        expected = a.cpu().double() @ b.cpu().double()
        compare(torch.mm(a, b), expected, k)
        out = torch.full((n, m), 9, dtype=dtype, device=D).t()
        compare(torch.mm(a, b, out=out), expected, k)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_products_with_an_addend(dtype: torch.dtype) -> None:
    for m, n, k in (*SIZES, (350, 340, 360)):
        a, b = operand(m, k, dtype, "rows"), operand(k, n, dtype, "columns")
        product = a.cpu().double() @ b.cpu().double()
        for shape in ((n,), (m, n), (m, 1), (1, 1)):
            own = operand(1, int(torch.Size(shape).numel()), dtype, "rows").view(shape)
            wide = own.cpu().double().expand(m, n)
            compare(torch.addmm(own, a, b), wide + product, k + 1)
            compare(torch.addmm(own, a, b, beta=2, alpha=-1), 2 * wide - product, k + 2)
        own = operand(m, n, dtype, "rows")
        expected = own.cpu().double() + product
        compare(own.addmm_(a, b), expected, k + 1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_batches_of_products(dtype: torch.dtype) -> None:
    for m, n, k in ((5, 6, 7), (40, 50, 60), (300, 3, 3), (1, 64, 200), (130, 140, 150)):
        a = torch.stack([operand(m, k, dtype, "rows") for _ in range(3)])
        b = torch.stack([operand(n, k, dtype, "rows") for _ in range(3)]).transpose(1, 2)
        expected = torch.bmm(a.cpu().double(), b.cpu().double())
        compare(torch.bmm(a, b), expected, k)
        own = torch.stack([operand(m, n, dtype, "rows") for _ in range(3)])
        compare(torch.baddbmm(own, a, b), own.cpu().double() + expected, k + 1)


def test_products_have_the_same_bits_for_any_number_of_threads() -> None:
    before = torch.rustdev.get_num_threads()
    for dtype in (torch.float32, torch.bfloat16):
        a, b = operand(700, 300, dtype, "rows"), operand(300, 500, dtype, "columns")
        results = []
        for threads in (1, 2, 3):
            torch.rustdev.set_num_threads(threads)
            results.append(torch.mm(a, b).cpu())
        torch.rustdev.set_num_threads(before)
        assert torch.equal(results[0], results[1])
        assert torch.equal(results[0], results[2])
