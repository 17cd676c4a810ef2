"""scaled_dot_product_attention and its gradients, without the fallback, against float64 on the CPU."""

import functools
import itertools

import pytest
import torch
from comparison import assert_near, compare_gradients, exact_gradients
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.rustdev import profiler

D = "rustdev"
#: Query [batch, heads, length, size], then heads and length of key and value.
SHAPES = [
    ((2, 3, 5, 16), (3, 5)), ((1, 4, 70, 64), (4, 70)), ((5, 2, 33, 24), (2, 17)), ((2, 8, 1, 64), (8, 90)),
    ((2, 8, 40, 32), (2, 40)), ((16, 8, 64, 64), (8, 64)), ((1, 16, 200, 256), (16, 130)),
]  # fmt: skip


def inputs(query: tuple[int, ...], keys: tuple[int, int], dtype: torch.dtype, length_first: bool) -> list[torch.Tensor]:
    """Return query, key and value of the device, with heads first in memory, or the length, as a projection gives them."""

    def make(batch: int, heads: int, length: int, size: int) -> torch.Tensor:
        if length_first:
            return torch.randn(batch, length, heads, size).to(D, dtype).transpose(1, 2).requires_grad_()
        return torch.randn(batch, heads, length, size).to(D, dtype).requires_grad_()

    return [make(*query), make(query[0], *keys, query[3]), make(query[0], *keys, query[3])]


def check(given: list[torch.Tensor], mask: torch.Tensor | None = None, **options: object) -> None:
    """Hold results and gradients against those of the same numbers in float64."""
    wide = mask if mask is None or mask.dtype is torch.bool else mask.double()
    mine = mask if mask is None or mask.dtype is torch.bool else mask.to(given[0].dtype)
    attend = functools.partial(functional.scaled_dot_product_attention, **options)

    def exact(*numbers: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            return attend(*numbers, attn_mask=wide)

    found, expected = exact_gradients(lambda *it: attend(*it, attn_mask=None if mine is None else mine.to(D)), given, exact)
    dtype = found[0].dtype
    tolerance = {torch.float32: 2e-5, torch.float64: 1e-10}.get(dtype, 8 * torch.finfo(dtype).eps)
    assert_near(found, expected, tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("length_first", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients(shape: tuple, length_first: bool, dtype: torch.dtype) -> None:
    query, keys = shape
    check(inputs(query, keys, dtype, length_first), enable_gqa=query[1] != keys[0])


@pytest.mark.skipif(bool(torch.cpu.get_capabilities().get("amx_fp16")), reason="PyTorch's kernel is faster there")
def test_the_kernel_for_float16_is_ours() -> None:
    query, key, value = inputs((2, 4, 64, 32), (4, 64), torch.float16, length_first=True)
    with profiler.profile() as tasks:
        result = functional.scaled_dot_product_attention(query, key, value)
        torch.autograd.grad(result, (query, key, value), torch.ones_like(result))
    assert {task.tier for task in tasks if "attention" in task.name} == {"rust"}


@pytest.mark.parametrize(("batch", "size"), [(0, 8), (2, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_empty_operands_have_empty_results(dtype: torch.dtype, batch: int, size: int) -> None:
    torch.rustdev.set_fallback_mode("allow")
    query = torch.empty(batch, 4, 3, size, dtype=dtype, device=D, requires_grad=True)
    keys = torch.empty(batch, 4, 6, size, dtype=dtype, device=D, requires_grad=True)
    result, _ = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, keys, keys)
    result.sum().backward()
    for empty, like in ((result, query), (query.grad, query), (keys.grad, keys)):
        assert (empty.shape, empty.device) == (like.shape, like.device)
    for sizes in ((2, 0, 3, 8), (2, 4, 0, 8)):
        with pytest.raises(RuntimeError, match="no heads or rows"):
            torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*[torch.empty(sizes, dtype=dtype, device=D)] * 3)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_results_lie_in_memory_as_the_query_does(order: tuple[int, ...]) -> None:
    sizes = (2, 3, 5, 8)
    query = torch.randn([sizes[dim] for dim in order]).permute([order.index(dim) for dim in range(4)])
    mine = torch.empty_strided(query.size(), query.stride(), device=D).copy_(query)
    found, _ = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(mine, mine, mine)
    assert found.stride() == torch.empty_like(query).stride()
    # The CPU's kernel itself reads elements in rows, whatever the strides are.
    expected = functional.scaled_dot_product_attention(query, query, query)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_causal_masked_and_scaled(dtype: torch.dtype) -> None:
    shape = (3, 4, 30, 32), (4, 30)
    check(inputs(*shape, dtype, False), is_causal=True)
    check(inputs(*shape, dtype, True), is_causal=True, scale=0.3)
    for sizes in ((30, 30), (3, 1, 30, 30), (1, 4, 30, 30), (3, 4, 30, 30)):
        kept = torch.rand(sizes) < 0.7
        kept[..., 0] = True
        check(inputs(*shape, dtype, False), kept)
        check(inputs(*shape, dtype, False), torch.randn(sizes))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("heads", "length"), [(2, 150), (4, 300)])
def test_long_causal(heads: int, length: int, dtype: torch.dtype) -> None:
    shape = (1, 4, length, 24), (heads, length)
    check(inputs(*shape, dtype, True), is_causal=True, enable_gqa=heads != 4)


def test_memory_is_linear_in_the_length() -> None:
    query, key, value = (torch.randn(1, 2, 2048, 32, device=D, requires_grad=True) for _ in range(3))
    torch.rustdev.reset_peak_memory_stats()
    before = torch.rustdev.memory_allocated()
    functional.scaled_dot_product_attention(query, key, value).sum().backward()
    torch.rustdev.synchronize()
    assert torch.rustdev.max_memory_allocated() - before < 2048 * 2048 * 4


@pytest.mark.parametrize("sizes", [(0, 2, 3, 8), (2, 0, 3, 8), (2, 2, 0, 8)])
def test_attention_over_nothing(sizes: tuple[int, ...]) -> None:
    compare_gradients(functional.scaled_dot_product_attention, *(torch.randn(sizes) for _ in range(3)))
