"""Differences from compilation for the CPU: operators that remain calls of the device's kernels, random numbers, variances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch._inductor import inductor_prims
from torch._inductor.utils import run_and_get_code, run_fw_bw_and_get_code
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE = "rustdev"


def numbers(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(0))


KEPT: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]] = {
    "native_group_norm": (lambda x: functional.group_norm(x + 1, 2), numbers(4, 6, 5, 5)),
    "_native_batch_norm_legit.no_stats": (lambda x: functional.instance_norm(x + 1), numbers(4, 6, 5, 5)),
    "max_pool2d_with_indices": (lambda x: functional.max_pool2d(x.relu(), 3, 2, 1), numbers(2, 3, 9, 9)),
}
BACKWARD = {"native_group_norm": "native_group_norm_backward", "max_pool2d_with_indices": "max_pool2d_with_indices_backward"}


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
def test_operators_that_stay_calls(name: str) -> None:
    function, given = KEPT[name]
    x, expected_in = given.to(DEVICE).requires_grad_(), given.clone().requires_grad_()
    result, codes = run_fw_bw_and_get_code(lambda: torch.compile(function)(x))
    expected = function(expected_in)
    expected.sum().backward()
    torch.testing.assert_close(result.cpu(), expected)
    torch.testing.assert_close(x.grad.cpu(), expected_in.grad, rtol=1e-4, atol=1e-5)
    assert f"torch.ops.aten.{name}" in codes[0]
    if name in BACKWARD:
        assert f"torch.ops.aten.{BACKWARD[name]}" in codes[1]


INDICES = torch.tensor([3, 0, 3, 1, 3, 2])
CALLED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "index.Tensor(": lambda x, indices: x.relu()[indices].relu(),
    "gather.default(": lambda x, indices: x.relu().gather(0, indices[:, None].expand(-1, 7)).relu(),
    "embedding.default(": lambda x, indices: functional.embedding(indices, x.relu()).relu(),
    "index_put_(": lambda x, indices: x.index_add(0, indices, x.relu()[: len(indices)]).relu(),
    "scatter_reduce_.two(": lambda x, indices: x.scatter_add(0, indices[:, None].expand(-1, 7), x.relu()[:6]).relu(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLED)
def test_given_indices_are_read_and_added_to_by_calls(name: str) -> None:
    x, expected_in = numbers(9, 7).to(DEVICE).requires_grad_(), numbers(9, 7).requires_grad_()
    result, codes = run_fw_bw_and_get_code(lambda: torch.compile(CALLED[name])(x, INDICES.to(DEVICE)))
    expected = CALLED[name](expected_in, INDICES)
    expected.sum().backward()
    torch.testing.assert_close(result.cpu(), expected)
    torch.testing.assert_close(x.grad.cpu(), expected_in.grad)
    assert f"aten.{name}" in codes[0]
    assert all("atomic_add" not in code for code in codes)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_bags_have_the_sizes_that_inductor_expects(dtype: torch.dtype, mode: str, last: bool) -> None:
    def bag(table: torch.Tensor, indices: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        return functional.embedding_bag(indices, table, starts, mode=mode, include_last_offset=last)

    starts = torch.tensor([0, 2, 6] if last else [0, 2], dtype=dtype)
    table, expected_in = numbers(9, 7).to(DEVICE).requires_grad_(), numbers(9, 7).requires_grad_()
    result = torch.compile(bag)(table, INDICES.to(DEVICE, dtype), starts.to(DEVICE))
    expected = bag(expected_in, INDICES.to(dtype), starts)
    result.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(result.cpu(), expected)
    torch.testing.assert_close(table.grad.cpu(), expected_in.grad)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8])
def test_masks_are_read_and_written(dtype: torch.dtype) -> None:
    def select(x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x == y, (x <= 1) ^ mask, torch.where(mask, x, y), torch.where(mask, x.double(), 0.5)

    draw = torch.Generator().manual_seed(0)
    x, y = (torch.randint(0, 3, (1003,), generator=draw).to(dtype) for _ in range(2))
    mask = torch.randint(0, 2, (1003,), generator=draw).bool()
    result, (code,) = run_and_get_code(torch.compile(select), x.to(DEVICE), y.to(DEVICE), mask.to(DEVICE))
    for found, expected in zip(result, select(x, y, mask), strict=True):
        torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=0)
    assert "rustdev::read_mask<" in code
    assert "rustdev::store(" in code


def test_a_pooling_that_keeps_no_indices_is_compiled() -> None:
    x = numbers(2, 3, 8, 8).to(DEVICE)
    with torch.no_grad():
        result, (code,) = run_and_get_code(torch.compile(lambda x: functional.max_pool2d(x.relu(), 2)), x)
    torch.testing.assert_close(result.cpu(), functional.max_pool2d(x.cpu().relu(), 2))
    assert "torch.ops.aten.max_pool2d_with_indices" not in code


def test_dropout_draws_as_eager_code_does() -> None:
    x = torch.ones(64, 64, device=DEVICE)
    torch.manual_seed(1)
    expected = functional.dropout(x, 0.3)
    torch.manual_seed(1)
    torch.testing.assert_close(torch.compile(lambda x: functional.dropout(x, 0.3))(x), expected, rtol=0, atol=0)


@pytest.mark.slow
def test_random_numbers_of_a_seed_are_the_cpus_in_vectors() -> None:
    def draw(seed: torch.Tensor) -> torch.Tensor:
        return inductor_prims.random([1003], seed, "rand")

    on_the_cpu, on_the_device = torch.compile(draw), torch.compile(draw)
    _, (code,) = run_and_get_code(on_the_device, torch.tensor(0, device=DEVICE))
    for seed in (0, 12345, 2**31 + 7):
        given = torch.tensor(seed)
        torch.testing.assert_close(on_the_device(given.to(DEVICE)).cpu(), on_the_cpu(given), rtol=0, atol=0)
    assert "rustdev::uniform(" in code


@pytest.mark.parametrize("size", [48, 9000])
def test_variances_are_taken_in_two_passes(size: int) -> None:
    x = 100 + numbers(7, size)
    result, (code,) = run_and_get_code(torch.compile(lambda x: functional.layer_norm(x, x.shape[1:])), x.to(DEVICE))
    torch.testing.assert_close(result.cpu(), functional.layer_norm(x.double(), (size,)).float(), rtol=1e-4, atol=1e-4)
    assert "Welford" not in code


def test_convolutions_keep_their_layouts() -> None:
    model = nn.Sequential(nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3))
    x = numbers(2, 64, 12, 12)
    result, (code,) = run_and_get_code(torch.compile(nn.Sequential(*model).to(DEVICE)), x.to(DEVICE))
    assert result.is_contiguous()
    assert "copy_" not in code
    torch.testing.assert_close(result.cpu(), model.cpu()(x), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("is_frozen", [False, True])
def test_frozen_convolutions_are_channels_last(is_frozen: bool) -> None:
    model = nn.Sequential(nn.Conv2d(4, 6, 1), nn.ReLU(), nn.Conv2d(6, 6, 3, groups=6), nn.Hardswish()).eval()
    x = numbers(2, 4, 7, 5)
    with torch.no_grad(), torch._inductor.config.patch(freezing=is_frozen):
        expected = model(x)
        result, codes = run_and_get_code(torch.compile(model.to(DEVICE)), x.to(DEVICE))
    torch.testing.assert_close(result.cpu(), expected)
    assert result.stride() == expected.stride()
    assert ("(2, 6, 7, 5), (210, 1, 30, 6)" in codes[0]) == is_frozen
