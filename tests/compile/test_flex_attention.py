"""FlexAttention on the device, eager and compiled, against float64 on the CPU: masks, scores, groups, gradients, tiles, memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from comparison import make_tensor
from rustdev._ops import flex_attention as kernels
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask, flex_attention

if TYPE_CHECKING:
    from collections.abc import Callable

D = "rustdev"

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


def causal(batch: Any, head: Any, query: Any, key: Any) -> Any:
    return query >= key


def hosts() -> list[torch.Tensor]:
    return [make_tensor((2, 2, 128, 16), torch.float32, seed=seed) for seed in range(3)]


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["eager", "compiled"])
def test_autocast(*, compiled: bool) -> None:
    given = [host.to(D).requires_grad_() for host in hosts()]
    attend: Callable[..., torch.Tensor] = torch.compile(flex_attention, fullgraph=True) if compiled else flex_attention
    with torch.autocast(D, torch.bfloat16):
        out = attend(*given)
        assert out.dtype is torch.bfloat16
        out.sum().backward()
    wanted = dense(*(host.double() for host in hosts()), None, None)[0]
    torch.testing.assert_close(out.detach().cpu().double(), wanted, rtol=3e-2, atol=3e-2)
    assert all(tensor.grad is not None and tensor.grad.dtype is torch.float32 for tensor in given)


def test_other_devices_are_checked_as_before() -> None:
    with pytest.raises(NotImplementedError, match="backward on CPU"):
        flex_attention(*(host.requires_grad_() for host in hosts()))


def window(batch: Any, head: Any, query: Any, key: Any) -> Any:
    return (query >= key) & (query - key < 70)


def sink(batch: Any, head: Any, query: Any, key: Any) -> Any:
    return window(batch, head, query, key) | ((query >= key) & (key < 10))


def documents(batch: Any, head: Any, query: Any, key: Any) -> Any:
    length = 100 + 50 * batch + 20 * head
    return query // length == key // length


def late(batch: Any, head: Any, query: Any, key: Any) -> Any:
    return (query >= key) & (query > 300)


def nothing(batch: Any, head: Any, query: Any, key: Any) -> Any:
    return query < -key


def capped(score: Any, batch: Any, head: Any, query: Any, key: Any) -> Any:
    return 2 * torch.tanh(score / 2)


def distances(bias: torch.Tensor) -> Callable[..., Any]:
    return lambda score, batch, head, query, key: score + bias[head, query - key]


def factor(bias: torch.Tensor) -> Callable[..., Any]:
    return lambda score, batch, head, query, key: score * bias


#: Arguments of :func:`check`.
CASES: dict[str, dict[str, Any]] = {
    "no mask": {},
    "causal": {"mask": causal},
    "window": {"mask": window},
    "keys with gaps": {"mask": sink, "block": 32},
    "mask of heads": {"mask": documents, "of": (None, 2)},
    "mask of batches and heads": {"mask": documents, "of": (2, 2), "batches": (2, 2)},
    "blocks that are not square": {"mask": causal, "block": (64, 192)},
    "whole groups": {"mask": causal, "heads": (6, 2), "tile": 2**18},
    "part of a group": {"mask": causal, "heads": (6, 2)},
    "mask of heads of groups": {"mask": documents, "of": (None, 4), "heads": (4, 2)},
    "queries without keys": {"mask": late},
    "nothing seen": {"mask": nothing, "score": distances, "bias": (2, 500)},
    "score": {"mask": causal, "score": capped},
    "bias": {"mask": causal, "score": distances, "bias": (2, 500)},
    "scalar bias": {"score": factor, "bias": ()},
    "one batch of keys": {"mask": documents, "of": (3, None), "batches": (3, 1), "transposed": True},
    "layout": {"mask": sink, "block": 32, "batches": (2, 2), "transposed": True},
    "other lengths": {"mask": window, "lengths": (130, 777)},
    "one query": {"lengths": (1, 300)},
    "sizes of heads": {"mask": causal, "sizes": (16, 24)},
    "one tile": {"mask": causal, "tile": 2**20},
    "float64": {"mask": causal, "score": capped, "dtype": torch.float64},
    "float16": {"mask": window, "score": capped, "dtype": torch.float16},
    "bfloat16": {"mask": window, "heads": (4, 4), "dtype": torch.bfloat16},
}
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 8e-2}


def dense(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, score_mod: Any) -> tuple[torch.Tensor, ...]:
    group = query.size(1) // key.size(1)
    key, value = (operand.expand(query.size(0), -1, -1, -1).repeat_interleave(group, 1) for operand in (key, value))
    scores = query @ key.mT / math.sqrt(query.size(-1))
    indices = [
        torch.arange(size).view([-1 if at == dimension else 1 for at in range(4)]) for dimension, size in enumerate(scores.shape)
    ]
    scores = score_mod(scores, *indices) if score_mod else scores
    scores = scores.masked_fill(~mask(*indices), -math.inf) if mask else scores
    highest = scores.amax(-1)
    dead = highest == -math.inf
    scores = scores.masked_fill(dead.unsqueeze(-1), 0)
    out = (scores.softmax(-1) @ value).masked_fill(dead.unsqueeze(-1), 0)
    return out, scores.logsumexp(-1).masked_fill(dead, -math.inf), highest


def check(
    attend: Callable[..., Any] = flex_attention,
    *,
    mask: Any = None,
    of: tuple[int | None, int | None] = (None, None),
    block: Any = 128,
    score: Any = None,
    bias: tuple[int, ...] | None = None,
    batches: tuple[int, int] = (1, 1),
    heads: tuple[int, int] = (2, 2),
    lengths: tuple[int, int] = (500, 500),
    sizes: tuple[int, int] = (16, 16),
    dtype: torch.dtype = torch.float32,
    transposed: bool = False,
    tile: int = 0,
) -> None:
    """Compare results, statistics and gradients."""
    shapes = [(batches[at], heads[at], lengths[at], size) for at, size in ((0, sizes[0]), (1, sizes[0]), (1, sizes[1]))]
    given = [make_tensor(shape, dtype, seed=seed) for seed, shape in enumerate(shapes)]
    if transposed:
        given = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in given]
    operands = [tensor.to("rustdev").requires_grad_() for tensor in given]
    wide = [tensor.double().requires_grad_() for tensor in given]
    score_mod, score_wide = score, score
    if bias is not None:
        number = make_tensor(bias, torch.float32, seed=5)
        operands.append(number.to("rustdev").requires_grad_())
        wide.append(number.double().requires_grad_())
        score_mod, score_wide = score(operands[3]), score(wide[3])
    block_mask = create_block_mask(mask, *of, *lengths, device="rustdev", BLOCK_SIZE=block) if mask else None
    request = AuxRequest(lse=True, max_scores=True)
    options = {"score_mod": score_mod, "block_mask": block_mask, "enable_gqa": heads[0] != heads[1], "return_aux": request}
    out, extra = attend(*operands[:3], **options)
    wanted = dense(*wide[:3], mask, score_wide)
    grads = [make_tensor(out.shape, dtype, seed=6), make_tensor(wanted[1].shape, torch.float32, seed=7)]
    seen = wanted[1].detach() != -math.inf
    grads[1].mul_(seen)
    torch.autograd.backward([out, extra.lse], [grads[0].to("rustdev"), grads[1].to("rustdev", extra.lse.dtype)])
    torch.autograd.backward(wanted[:2], [grad.double() for grad in grads])
    tolerance = TOLERANCES[dtype]

    def equal(found: torch.Tensor, reference: torch.Tensor) -> None:
        torch.testing.assert_close(found.detach().cpu().double(), reference.detach(), rtol=tolerance, atol=tolerance)

    assert out.dtype is dtype
    for found, reference in zip((out, extra.lse, extra.max_scores), wanted, strict=True):
        equal(found, reference)
    for operand, reference in zip(operands, wide, strict=True):
        assert operand.grad is not None
        assert reference.grad is not None
        equal(operand.grad, reference.grad)


@pytest.mark.parametrize("case", CASES)
def test_tiles(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = CASES[case]
    monkeypatch.setattr(kernels, "_SCORES", arguments.get("tile") or 2**14)
    check(**arguments)


@pytest.mark.slow
def test_compiled_calls_of_groups() -> None:
    compiled = torch.compile(lambda *args, **options: flex_attention(*args, **options), fullgraph=True)
    check(compiled, mask=causal, score=capped, heads=(4, 2), lengths=(128, 128))


def test_compiled_calls_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_SCORES", 2**14)
    compiled = torch.compile(lambda *args, **options: flex_attention(*args, **options), fullgraph=True)
    for length in (500, 520, 590):
        check(compiled, mask=causal, score=distances, bias=(2, length), lengths=(length, length))


def test_compiled_code_has_constants_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_SCORES", 2**14)

    def shifted(score: Any, batch: Any, head: Any, query: Any, key: Any) -> Any:
        return score * torch.tensor(1.5) + torch.where(query - key < 5, math.inf * -1, 0.0)

    operands = [host.to(D) for host in hosts()]
    compiled = torch.compile(flex_attention, fullgraph=True)
    torch.testing.assert_close(compiled(*operands, score_mod=shifted), flex_attention(*operands, score_mod=shifted))


def test_graphs_in_cpp_have_the_dense_computation() -> None:
    operands = [host.to(D) for host in hosts()]
    compiled = torch.compile(flex_attention, fullgraph=True, options={"cpp_wrapper": True})
    torch.testing.assert_close(compiled(*operands), flex_attention(*operands), rtol=1e-5, atol=1e-5)


def test_absent_and_full_blocks_are_those_of_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_SCORES", 2**12)
    number, indices = torch.tensor([[[1, 2]]]), torch.tensor([[[[0, 1], [0, 1]]]])
    full_number, full_indices = torch.tensor([[[1, 0]]]), torch.tensor([[[[1, 0], [0, 0]]]])
    tables = [table.to(D, torch.int32) for table in (number, indices, full_number, full_indices)]
    mask = BlockMask.from_kv_blocks(*tables, BLOCK_SIZE=64, mask_mod=causal)
    seen = torch.ones(128, 128, dtype=torch.bool).tril()
    seen[:64, 64:] = True
    query, key, value = hosts()
    operands = [host.to(D) for host in (query, key, value)]
    mask.kv_num_blocks.zero_()
    found = flex_attention(*operands, block_mask=mask)
    wanted = torch.nn.functional.scaled_dot_product_attention(query[:, :, :64], key[:, :, 64:], value[:, :, 64:])
    torch.testing.assert_close(found[:, :, :64].cpu(), wanted, rtol=1e-5, atol=1e-5)
    assert not found[:, :, 64:].any()
    mask.kv_num_blocks.copy_(number)  # as a program does that pages keys
    wanted = torch.nn.functional.scaled_dot_product_attention(query, key, value, seen)
    torch.testing.assert_close(flex_attention(*operands, block_mask=mask).cpu(), wanted, rtol=1e-5, atol=1e-5)


def test_memory_is_linear_and_masked_blocks_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = []
    add = kernels._Attention.tiles

    def tiles(self: Any) -> Any:
        for tile, at in add(self):
            scores.append(at.raw.numel())
            yield tile, at

    monkeypatch.setattr(kernels._Attention, "tiles", tiles)
    peaks, numbers = [], []
    for length in (2048, 4096):
        query = torch.randn(1, 1, length, 16, device=D, requires_grad=True)
        mask = create_block_mask(window, None, None, length, length, device=D)
        torch.rustdev.reset_peak_memory_stats()
        before = torch.rustdev.memory_allocated()
        scores.clear()
        flex_attention(query, query, query, block_mask=mask).sum().backward()
        peaks.append(torch.rustdev.max_memory_allocated() - before)
        numbers.append(sum(scores) / 2)
    assert numbers[1] < 0.3 * 4096**2
    assert numbers[1] < 2.5 * numbers[0]
    assert peaks[1] < 2.5 * peaks[0]
    assert peaks[1] < 4096**2 * 4


def test_mask_is_read_once_and_not_in_captures_and_dry_runs() -> None:
    query = torch.randn(1, 2, 1024, 16, device=D)
    mask = create_block_mask(causal, None, None, 1024, 1024, device=D)
    with torch.rustdev.dry_run():
        assert flex_attention(query, query, query, block_mask=mask).shape == query.shape
    wanted = flex_attention(query, query, query, block_mask=mask)
    torch.rustdev.set_sync_debug_mode("error")
    flex_attention(query, query, query, block_mask=mask)
    torch.rustdev.set_sync_debug_mode("default")
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        found = flex_attention(query, query, query, block_mask=mask)
    graph.replay()
    torch.testing.assert_close(found, wanted)
