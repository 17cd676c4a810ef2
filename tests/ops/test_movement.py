"""Operators that move elements, against the CPU: concatenation, flips and rotations, triangles, padding, windows, ranges."""

import itertools
from typing import Any

import pytest
import torch
from comparison import assert_same, compare, compare_errors, compare_gradients, copied, make_tensor
from torch.nn import functional

aten = torch.ops.aten
DTYPES = [torch.bool, torch.int16, torch.bfloat16, torch.float32, torch.int64, torch.complex128]


def make(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return small whole numbers, and NaN, infinities and negative zeros among them."""
    return make_tensor(shape, dtype, seed=len(shape), whole=9, special=True)


#: Calls of small whole numbers of a size, in several dtypes.
MOVES: dict[str, tuple[tuple[int, ...], Any]] = {
    "cat": ((3, 4, 5), lambda a: torch.cat([a, a[:, :2], a], 1)),
    "cat of transposed": ((3, 4, 5), lambda a: torch.cat([a.transpose(0, 2), a[:, :2].transpose(0, 2)], -2)),
    "cat of nothing": ((3, 4), lambda a: torch.cat([a.new_empty(0), a])),
    "stack": ((3, 4, 5), lambda a: torch.stack([a, a, a], 2)),
    "flip": ((3, 40, 5), lambda a: a.flip(0, -1)),
    "flip of transposed": ((3, 40, 5), lambda a: a.transpose(0, 1).flip(1)),
    "rot90": ((3, 40, 5), lambda a: torch.rot90(a, 1, (0, 2))),
    "roll": ((3, 40, 5), lambda a: a.roll(7)),
    "roll along dimensions": ((3, 40, 5), lambda a: a.roll((-1, 13, 8), (0, 1, 1))),
    "roll of transposed": ((3, 40, 5), lambda a: a.transpose(0, 2).roll(2, 1)),
}
for name, diagonal in itertools.product(("tril", "triu"), (-2, 0, 3)):
    MOVES |= {
        f"{name} {diagonal}": ((2, 7, 5), lambda a, name=name, at=diagonal: getattr(a, name)(at)),
        f"{name} {diagonal} of transposed": ((2, 7, 5), lambda a, name=name, at=diagonal: getattr(a.mT, name)(at)),
        f"{name}_ {diagonal}": ((2, 7, 5), lambda a, name=name, at=diagonal: getattr(a, f"{name}_")(at)),
        f"{name}_indices {diagonal}": (
            (0,),
            lambda a, name=name, at=diagonal: getattr(torch, f"{name}_indices")(7, 5, at, device=a.device),
        ),
    }


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str, dtype: torch.dtype) -> None:
    size, call = MOVES[name]
    compare(call, make(*size, dtype=dtype))


def test_cat_writes_to_out() -> None:
    compare(lambda a, b, out: torch.cat([a, b], 1, out=out), make(2, 2), make(2, 4), torch.zeros(6, 2).t())


def test_cat_of_more_tensors_than_one_launch_takes() -> None:
    parts = [torch.full((1, 2), float(number), device="rustdev") for number in range(16_000)]
    joined = torch.cat(parts)
    assert torch.equal(joined.cpu()[:, 1], torch.arange(16_000.0))


def test_cat_refuses_what_the_cpu_refuses() -> None:
    compare_errors(lambda a, b: torch.cat([a, b]), make(2, 3), make(3, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16])
def test_ranges(dtype: torch.dtype) -> None:
    # The CPU device of torch 2.13 rounds each step to bfloat16; ours, as later ones, the results.
    expected = torch.linspace(-7, 20, 50, dtype=torch.float32 if dtype.is_floating_point else dtype).to(dtype)
    assert_same(torch.linspace(-7, 20, 50, dtype=dtype, device="rustdev"), expected, rtol=1e-6)


#: Calls of small whole numbers of a size.
CALLS: dict[str, tuple[tuple[int, ...], Any]] = {
    "roll along many dimensions": ((2, 3, 2, 3, 2, 3), lambda a: a.roll((1, 1, 1, 1, 1, 1), (0, 1, 2, 3, 4, 5))),
    "trace": ((5, 4), lambda a: a.nan_to_num(1, 2, 3).trace()),
    "trace of integers": ((5, 4), lambda a: a.nan_to_num(1, 2, 3).int().trace()),
    "diag": ((4,), lambda a: torch.diag(a, 1)),
    "narrow_copy": ((2, 5), lambda a: torch.narrow_copy(a, 1, 1, 3)),
    "channel_shuffle": ((2, 8, 3, 3), lambda a: functional.channel_shuffle(a, 2)),
    "pad": ((3, 4, 5), lambda a: functional.pad(a, (1, -2, 0, 3), value=2.5)),
    "cat of channels last": ((2, 3, 4, 5), lambda a: torch.cat([a.contiguous(memory_format=torch.channels_last)] * 2, 1)),
    "cat of two dtypes": ((3,), lambda a: torch.cat([a, torch.arange(4, device=a.device)])),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    size, call = CALLS[name]
    compare(call, make(*size))


def test_repeats_and_diagonals() -> None:
    compare(torch.repeat_interleave, torch.tensor([1, 0, 3], dtype=torch.int32))
    compare_errors(torch.repeat_interleave, torch.tensor([1, -1]))
    compare_gradients(lambda a: a.diagonal(1), make(4, 6))


PADS = {3: (2, 1), 4: (2, 1, 0, 3), 5: (1, 2, 3, 1, 0, 2)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("step", [1, 2], ids=["dense", "with gaps"])
def test_long_ranges(dtype: torch.dtype, step: int) -> None:
    host = torch.zeros(50_001 * step, dtype=dtype)[::step]
    compare(lambda out: torch.arange(-7, 3 * 50_001 - 7, 3, out=out), host)
    if dtype.is_floating_point:
        found = torch.linspace(-1000, 2000, 50_001, out=copied(host))
        # Between its ends, the CPU rounds every step to the dtype.
        expected = torch.linspace(-1000, 2000, 50_001, dtype=torch.float64).to(dtype)
        torch.testing.assert_close(found.cpu(), expected)
        assert_same(found[[0, -1]], expected[[0, -1]])


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("ndim", [3, 4, 5])
def test_padding_and_its_gradient(mode: str, ndim: int) -> None:
    host = make(*(2, 3, 4, 5, 6)[:ndim])
    pad = PADS[ndim]
    compare(lambda a: functional.pad(a, pad, mode=mode), host)
    compare(lambda a: functional.pad(a[0], pad, mode=mode), host)
    compare_gradients(lambda a: functional.pad(a, pad, mode=mode), host)
    if ndim > 3:
        last = host.to(memory_format=torch.channels_last if ndim == 4 else torch.channels_last_3d)
        compare(lambda a: functional.pad(a, pad, mode=mode), last)
        compare_gradients(lambda a: functional.pad(a, pad, mode=mode), last)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padding_of_large_planes_and_of_rows_with_gaps(mode: str) -> None:
    host = make(2, 150, 151)
    for image in (host, host[:, ::2, 1:], host[:, :9, ::3], host.transpose(1, 2)):
        compare(lambda a: functional.pad(a, (3, 2, 1, 4), mode=mode), image)


def test_padding_beyond_the_mirror_is_refused() -> None:
    for shape, pad in (((2, 3), (3, 0)), ((1, 3, 3), (0, 0, 3, 0))):
        with pytest.raises(RuntimeError, match="less than the corresponding input dimension"):
            functional.pad(make(*shape).to("rustdev"), pad, mode="reflect")
    with pytest.raises(RuntimeError, match="grad_output"):
        aten.reflection_pad2d_backward(make(1, 3, 3).to("rustdev"), make(1, 3, 3).to("rustdev"), (1, 1, 1, 1))


@pytest.mark.parametrize("shape", [(2, 3, 7, 8), (3, 7, 8)])
def test_windows_and_their_gradients(shape: tuple[int, ...]) -> None:
    host = make(*shape)
    compare(lambda a: functional.unfold(a, (3, 2), dilation=(1, 2), padding=(1, 0), stride=(2, 1)), host)
    compare_gradients(lambda a: functional.unfold(a, (3, 2), padding=(1, 0)), host)
    columns = functional.unfold(host, 3, padding=1, stride=2)
    compare(lambda a: functional.fold(a, (7, 8), 3, padding=1, stride=2), columns)
    compare_gradients(lambda a: functional.fold(a, (7, 8), 3, padding=1, stride=2), columns)


@pytest.mark.parametrize(("size", "step"), [(3, 1), (2, 3), (1, 1)])
def test_the_gradient_of_unfold(size: int, step: int) -> None:
    for dim in range(3):
        compare_gradients(lambda a, dim=dim: a.unfold(dim, size, step), make(5, 6, 7))
