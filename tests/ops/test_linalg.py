"""Matrix products against the CPU: dtypes, strides, expanded and empty operands, out=, in-place, scalars, conjugates, errors."""

import functools
from collections.abc import Callable

import pytest
import torch
from comparison import compare, compare_errors, compare_gradients, make_tensor

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
EVERY = INTEGERS + FLOATS + COMPLEX

TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 4e-2, torch.float32: 2e-4, torch.float64: 1e-10}
TOLERANCE |= {torch.complex64: 2e-4, torch.complex128: 1e-10}
close = functools.partial(compare, rtol=TOLERANCE)

strict = pytest.mark.usefixtures("strict")
dtypes = pytest.mark.parametrize("dtype", EVERY, ids=str)


@strict
@dtypes
@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 4, 0), (1, 1, 1), (1, 70, 33), (5, 17, 9), (40, 1, 64), (65, 130, 31)], ids=str)
def test_mm(dtype: torch.dtype, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    close(torch.mm, make_tensor((m, k), dtype), make_tensor((k, n), dtype, seed=1))
    close(lambda a, b: torch.mm(a.t(), b.t()), make_tensor((k, m), dtype), make_tensor((n, k), dtype, seed=1))
    close(lambda a, b: torch.mm(a[::2], b[:, ::2]), make_tensor((2 * m, k), dtype), make_tensor((k, 2 * n), dtype, seed=1))


@strict
@dtypes
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (2, 3), (0, 1), (1, 0), (0, 0)])
def test_addmm(dtype: torch.dtype, beta: int, alpha: int) -> None:
    def addmm(own: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.addmm(own, a, b, beta=beta, alpha=alpha)

    def inplace(own: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return own.addmm_(a, b, beta=beta, alpha=alpha)

    # Times 0, a product leaves its sign alone, which sums in another order need not share.
    signs = bool(beta or alpha)
    a, b = make_tensor((20, 6), dtype, seed=1), make_tensor((6, 30), dtype, seed=2)
    for shape in ((20, 30), (30,), (20, 1), ()):
        close(addmm, make_tensor(shape, dtype), a, b, signs=signs)
    close(inplace, make_tensor((20, 30), dtype), a, b, signs=signs)
    close(addmm, make_tensor((30,), dtype), a[:, :0], b[:0], signs=signs)


@strict
def test_beta_zero_ignores_self() -> None:
    nan = torch.full((4, 5), float("nan"))
    close(
        lambda own, a, b: torch.addmm(own, a, b, beta=0),
        nan,
        make_tensor((4, 3), torch.float32),
        make_tensor((3, 5), torch.float32),
    )
    close(
        lambda own, a, b: torch.baddbmm(own, a, b, beta=0),
        nan[None],
        make_tensor((1, 4, 3), torch.float32),
        make_tensor((1, 3, 5), torch.float32),
    )


@strict
@dtypes
def test_batches(dtype: torch.dtype) -> None:
    a, b = make_tensor((3, 12, 20), dtype), make_tensor((3, 20, 15), dtype, seed=1)
    close(torch.bmm, a, b)
    close(lambda a, b: torch.bmm(a.transpose(1, 2), b), make_tensor((3, 20, 12), dtype), b)
    close(lambda a, b: torch.bmm(a.expand(3, 12, 20), b), a[:1], b)
    close(torch.bmm, a[:, :, :0], b[:, :0])
    close(torch.bmm, a[:0], b[:0])
    close(torch.baddbmm, make_tensor((15,), dtype, seed=2), a, b)
    close(lambda own, a, b: own.baddbmm_(a, b, beta=2, alpha=3), make_tensor((3, 12, 15), dtype, seed=2), a, b)


@strict
@dtypes
def test_vectors(dtype: torch.dtype) -> None:
    a, b = make_tensor((40, 33), dtype), make_tensor((33,), dtype, seed=1)
    close(torch.mv, a, b)
    close(lambda a, b: torch.mv(a.t(), b), make_tensor((33, 40), dtype), b)
    close(lambda own, a, b: torch.addmv(own, a, b, beta=2, alpha=3), make_tensor((40,), dtype, seed=2), a, b)
    close(lambda own, a, b: torch.addmv(own, a, b), make_tensor((1,), dtype, seed=2), a, b)


@strict
def test_out() -> None:
    a, b = make_tensor((4, 6), torch.float32), make_tensor((6, 5), torch.float32, seed=1)

    close(lambda a, b, out: torch.mm(a, b, out=out), a, b, torch.empty(5, 4).t())
    close(lambda a, b, whole: torch.mm(a, b, out=whole[::2, ::2]), a, b, torch.zeros(8, 10))


@strict
@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_conjugates(dtype: torch.dtype) -> None:
    for sizes in ((3, 4, 5), (20, 30, 12)):
        m, n, k = sizes
        close(lambda a, b: torch.mm(a.conj(), b), make_tensor((m, k), dtype), make_tensor((k, n), dtype, seed=1))
        close(lambda a, b: torch.mm(a.mH, b.conj()), make_tensor((k, m), dtype), make_tensor((k, n), dtype, seed=1))
        close(
            lambda own, a, b: torch.addmm(own.conj(), a, b.conj()),
            make_tensor((m, n), dtype),
            make_tensor((m, k), dtype),
            make_tensor((k, n), dtype, seed=1),
        )


@strict
def test_large_products_use_every_tile() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int32):
        close(torch.mm, make_tensor((300, 310), dtype), make_tensor((310, 620), dtype, seed=1))
        close(lambda a, b: torch.mm(a, b.t()), make_tensor((8, 700), dtype), make_tensor((900, 700), dtype, seed=1))


@strict
def test_linear_backward() -> None:
    x, weight, bias = (make_tensor(shape, torch.float32, seed=seed) for seed, shape in enumerate([(9, 7), (11, 7), (11,)]))
    compare_gradients(torch.nn.functional.linear, x, weight, bias, rtol=1e-5)


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
@strict
def test_errors_are_those_of_the_cpu(call: Callable[[torch.Tensor], torch.Tensor]) -> None:
    compare_errors(call, make_tensor((3, 4), torch.float32))


def test_devices_do_not_mix() -> None:
    with pytest.raises(RuntimeError, match="device"):
        torch.mm(make_tensor((3, 4), torch.float32).to("rustdev"), make_tensor((4, 3), torch.float32))
