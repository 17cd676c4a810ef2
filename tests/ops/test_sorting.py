"""Sorting, selection, search and unique elements, against the CPU: values, indices, ties, NaN, out=, strides, errors."""

from typing import Any

import pytest
import torch
from comparison import assert_same, compare, compare_errors, compare_outcomes, make_tensor

DTYPES = [torch.bool, torch.uint8, torch.int16, torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.float64]
# Around one line, lines that one thread sorts, and those that all do.
SHAPES: list[tuple[int, ...]] = [(), (1,), (5, 0), (100,), (7, 2000), (3, 20_000)]


def make(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return values with ties, NaN, infinities and both zeros, or with the limits of integers."""
    numbers = make_tensor(shape, dtype, seed=7, whole=50, special=True)
    if not dtype.is_floating_point and dtype is not torch.bool:
        limits = torch.iinfo(dtype)
        numbers[numbers == 3] = limits.min
        numbers[numbers == 4] = limits.max
    return numbers


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("descending", [False, True])
def test_stable_sort(dtype: torch.dtype, shape: tuple[int, ...], *, descending: bool) -> None:
    compare(lambda a: torch.sort(a, stable=True, dim=-1, descending=descending), make(shape, dtype))
    if shape:
        compare(lambda a: torch.sort(a, stable=True, dim=0, descending=descending), make(shape[::-1], dtype))


def test_sort_into_out_and_of_strided_lines() -> None:
    compare(torch.msort, make((100, 3), torch.int64))
    for length in (50, 30_000):
        host = make((length, 3), torch.float32)
        compare(lambda a: torch.sort(a.t(), stable=True), host)
        values, indices = torch.empty(6, length)[::2].t(), torch.empty(0, dtype=torch.int64)
        compare(lambda a, *out: torch.sort(a, stable=True, dim=0, out=out), host, values, indices)
        compare(lambda a, i: torch.sort(a, stable=True, dim=0, out=(a, i)), host, indices)


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("shape", [(), (1,), (100,), (7, 2000), (2, 40_000)])
def test_topk(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    host = make(shape, dtype)
    length = shape[-1] if shape else 1
    for k in {1, min(5, length), length // 2, length}:
        for largest in (False, True):
            mine = host.to("rustdev").topk(k, largest=largest)
            expected = torch.sort(host, stable=True, descending=largest)
            assert_same(mine, [it[..., :k].contiguous() if shape else it for it in expected])
    if len(shape) == 2:
        compare(lambda a: torch.topk(a, 3, dim=0).values, host.t())


def test_topk_refuses_what_the_cpu_refuses() -> None:
    for function in (torch.topk, torch.kthvalue):
        compare_errors(lambda a, function=function: function(a, 4), make((3,), torch.float32))


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("shape", [(), (1,), (101,), (7, 2000), (2, 40_000)])
def test_kthvalue_and_medians(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    host = make(shape, dtype)
    length = shape[-1] if shape else 1
    order = torch.sort(host, stable=True)
    for k in {1, (length + 1) // 2, length}:
        mine = torch.kthvalue(host.to("rustdev"), k, keepdim=True)
        assert_same(mine, [it[..., k - 1 : k].contiguous() if shape else it for it in order])
    for function in (torch.median, torch.nanmedian):
        compare(function, host)
        compare(lambda a, function=function: function(a, -1).values, host)
        if shape:
            mine = function(host.to("rustdev"), 0, keepdim=True)
            assert torch.equal(torch.gather(host, 0, mine.indices.cpu()).nan_to_num(9e3), mine.values.cpu().nan_to_num(9e3))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (100,), (7, 200), (2, 20_000)])
def test_mode(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    host = make(shape, dtype).nan_to_num(1)
    compare(lambda a: torch.mode(a, -1).values, host)
    mine = torch.mode(host.to("rustdev"), -1, keepdim=True)
    if shape:
        assert torch.equal(torch.gather(host, -1, mine.indices.cpu()), mine.values.cpu())


@pytest.mark.parametrize("dtype", [torch.int32, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("right", [False, True])
def test_search(dtype: torch.dtype, *, right: bool) -> None:
    boundaries = make((50,), dtype).nan_to_num(1).sort().values
    values = make((3, 400), dtype)
    compare(lambda a, b: torch.searchsorted(a, b, right=right), boundaries, values)
    compare(lambda a, b: torch.bucketize(b, a, right=right, out_int32=True), boundaries, values)
    compare(lambda a: torch.searchsorted(a, 3.5, right=right), boundaries)
    lines, sorter = make((3, 60), dtype).nan_to_num(1).sort(stable=True)
    compare(lambda a, b: torch.searchsorted(a, b, side="right" if right else "left"), lines, values)
    shuffled = make((3, 60), dtype).nan_to_num(1)
    compare(lambda a, b, c: torch.searchsorted(a, b, sorter=c, right=right), shuffled, values, sorter)
    with pytest.raises(RuntimeError, match="1 dimension"):
        torch.bucketize(values.to("rustdev"), lines.to("rustdev"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (30, 20), (40_000,)])
def test_unique(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    # Which of the two zeros stands for both is nobody's promise.
    values = make(shape, dtype).nan_to_num(1)
    host = torch.where(values == 0, torch.zeros_like(values), values)
    compare(lambda a: torch.unique(a, return_inverse=True, return_counts=True), host)
    compare(lambda a: torch.unique(a), host)
    compare(lambda a: torch.unique_consecutive(a, return_inverse=True, return_counts=True), host)


@pytest.mark.parametrize("size", [1, 4096, 4097])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8])
def test_unique_elements_alone(dtype: torch.dtype, size: int) -> None:
    host = (torch.arange(size) * 7919 % 97).to(dtype)
    compare(torch.unique, host)
    if dtype.is_floating_point:
        host[::100] = torch.nan
        compare(torch.unique, host - 40)


def test_every_nan_is_unique() -> None:
    compare(lambda a: torch.unique(a, return_counts=True), torch.tensor([torch.nan, 1.0, torch.nan, 1.0]))


@pytest.mark.parametrize("function", [torch.median, torch.nanmedian])
def test_medians_into_one_element(function: Any) -> None:
    host, one = make((5, 4), torch.float32), torch.zeros(())
    call = lambda x, *out: function(x, 0, out=out)  # noqa: E731
    compare_outcomes(call, host, one.expand(4), torch.zeros(4).long())
    compare_outcomes(call, host, torch.zeros(4), one.long().expand(4))
