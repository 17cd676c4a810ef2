"""Matrix products against the CPU: dtypes, strides, expanded and empty operands, out=, in-place, scalars, conjugates, errors."""

from collections.abc import Callable

import pytest
import torch

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
EVERY = INTEGERS + FLOATS + COMPLEX

strict = pytest.mark.usefixtures("strict")
dtypes = pytest.mark.parametrize("dtype", EVERY, ids=str)


def make(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Return small numbers."""
    generator = torch.Generator().manual_seed(seed)
    if dtype in INTEGERS:
        return torch.randint(0, 7, shape, generator=generator).to(dtype)
    if dtype.is_complex:
        return torch.complex(torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)).to(dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def check(function: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> None:
    """Compare the result on the device with the CPU's."""
    expected = function(*tensors)
    found = function(*(tensor.to("rustdev") for tensor in tensors))
    assert found.device.type == "rustdev"
    assert found.dtype == expected.dtype
    assert found.stride() == expected.stride()
    tolerance = {torch.float16: 1e-2, torch.bfloat16: 4e-2, torch.float64: 1e-10, torch.complex128: 1e-10}.get(expected.dtype, 2e-4)
    torch.testing.assert_close(found.cpu(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)


@strict
@dtypes
@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 4, 0), (1, 1, 1), (1, 70, 33), (5, 17, 9), (40, 1, 64), (65, 130, 31)], ids=str)
def test_mm(dtype: torch.dtype, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    check(torch.mm, make((m, k), dtype), make((k, n), dtype, 1))
    check(lambda a, b: torch.mm(a.t(), b.t()), make((k, m), dtype), make((n, k), dtype, 1))
    check(lambda a, b: torch.mm(a[::2], b[:, ::2]), make((2 * m, k), dtype), make((k, 2 * n), dtype, 1))


@strict
@dtypes
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (2, 3), (0, 1), (1, 0), (0, 0)])
def test_addmm(dtype: torch.dtype, beta: int, alpha: int) -> None:
    def addmm(own: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.addmm(own, a, b, beta=beta, alpha=alpha)

    def inplace(own: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return own.clone().addmm_(a, b, beta=beta, alpha=alpha)

    a, b = make((20, 6), dtype, 1), make((6, 30), dtype, 2)
    for shape in ((20, 30), (30,), (20, 1), ()):
        check(addmm, make(shape, dtype), a, b)
    check(inplace, make((20, 30), dtype), a, b)
    check(addmm, make((30,), dtype), a[:, :0], b[:0])


@strict
def test_beta_zero_ignores_self() -> None:
    nan = torch.full((4, 5), float("nan"))
    check(lambda own, a, b: torch.addmm(own, a, b, beta=0), nan, make((4, 3), torch.float32), make((3, 5), torch.float32))
    check(
        lambda own, a, b: torch.baddbmm(own, a, b, beta=0),
        nan[None],
        make((1, 4, 3), torch.float32),
        make((1, 3, 5), torch.float32),
    )


@strict
@dtypes
def test_batches(dtype: torch.dtype) -> None:
    a, b = make((3, 12, 20), dtype), make((3, 20, 15), dtype, 1)
    check(torch.bmm, a, b)
    check(lambda a, b: torch.bmm(a.transpose(1, 2), b), make((3, 20, 12), dtype), b)
    check(lambda a, b: torch.bmm(a.expand(3, 12, 20), b), a[:1], b)
    check(torch.bmm, a[:, :, :0], b[:, :0])
    check(torch.bmm, a[:0], b[:0])
    check(torch.baddbmm, make((15,), dtype, 2), a, b)
    check(lambda own, a, b: own.clone().baddbmm_(a, b, beta=2, alpha=3), make((3, 12, 15), dtype, 2), a, b)


@strict
@dtypes
def test_vectors(dtype: torch.dtype) -> None:
    a, b = make((40, 33), dtype), make((33,), dtype, 1)
    check(torch.mv, a, b)
    check(lambda a, b: torch.mv(a.t(), b), make((33, 40), dtype), b)
    check(lambda own, a, b: torch.addmv(own, a, b, beta=2, alpha=3), make((40,), dtype, 2), a, b)
    check(lambda own, a, b: torch.addmv(own, a, b), make((1,), dtype, 2), a, b)


@strict
def test_out() -> None:
    a, b = make((4, 6), torch.float32), make((6, 5), torch.float32, 1)

    def into(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result = a.new_empty(5, 4).t()
        assert torch.mm(a, b, out=result) is result
        return result

    def sliced(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result = a.new_zeros(8, 10)
        torch.mm(a, b, out=result[::2, ::2])
        return result

    check(into, a, b)
    check(sliced, a, b)


@strict
@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_conjugates(dtype: torch.dtype) -> None:
    for sizes in ((3, 4, 5), (20, 30, 12)):
        m, n, k = sizes
        check(lambda a, b: torch.mm(a.conj(), b), make((m, k), dtype), make((k, n), dtype, 1))
        check(lambda a, b: torch.mm(a.mH, b.conj()), make((k, m), dtype), make((k, n), dtype, 1))
        check(
            lambda own, a, b: torch.addmm(own.conj(), a, b.conj()), make((m, n), dtype), make((m, k), dtype), make((k, n), dtype, 1)
        )


@strict
def test_large_products_use_every_tile() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int32):
        check(torch.mm, make((300, 310), dtype), make((310, 620), dtype, 1))
        check(lambda a, b: torch.mm(a, b.t()), make((8, 700), dtype), make((900, 700), dtype, 1))


@strict
def test_linear_backward() -> None:
    def gradient(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        weight = weight.detach().requires_grad_()
        torch.nn.functional.linear(x, weight, bias).sum().backward()
        assert weight.grad is not None
        return weight.grad

    check(gradient, make((9, 7), torch.float32), make((11, 7), torch.float32, 1), make((11,), torch.float32, 2))


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
    host = make((3, 4), torch.float32)
    with pytest.raises((RuntimeError, IndexError)) as expected:
        call(host)
    with pytest.raises(type(expected.value)) as found:
        call(host.to("rustdev"))
    assert str(found.value) == str(expected.value)


def test_devices_do_not_mix() -> None:
    with pytest.raises(RuntimeError, match="device"):
        torch.mm(make((3, 4), torch.float32).to("rustdev"), make((4, 3), torch.float32))
