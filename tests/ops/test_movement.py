"""Operators that move elements, against the CPU: concatenation, flips and rotations, triangles, padding, windows, ranges."""

from typing import Any

import pytest
import torch
from comparison import assert_same, compare, compare_errors, compare_gradients, copied, make_tensor
from torch.nn import functional

aten = torch.ops.aten


def make(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return small whole numbers, and NaN, infinities and negative zeros among them."""
    return make_tensor(shape, dtype, seed=len(shape), whole=9, special=True)


def test_cat_of_more_tensors_than_one_launch_takes() -> None:
    parts = [torch.full((1, 2), float(number), device="rustdev") for number in range(16_000)]
    joined = torch.cat(parts)
    assert torch.equal(joined.cpu()[:, 1], torch.arange(16_000.0))


#: Calls of small whole numbers of a size.
CALLS: dict[str, tuple[tuple[int, ...], Any]] = {
    "roll along many dimensions": ((2, 3, 2, 3, 2, 3), lambda a: a.roll((1, 1, 1, 1, 1, 1), (0, 1, 2, 3, 4, 5))),
    "cat of channels last": ((2, 3, 4, 5), lambda a: torch.cat([a.contiguous(memory_format=torch.channels_last)] * 2, 1)),
    "cat of two dtypes": ((3,), lambda a: torch.cat([a, torch.arange(4, device=a.device)])),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    size, call = CALLS[name]
    compare(call, make(*size))


def test_repeats() -> None:
    compare(torch.repeat_interleave, torch.tensor([1, 0, 3], dtype=torch.int32))
    compare_errors(torch.repeat_interleave, torch.tensor([1, -1]))


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
