"""``torch.nn.attention.varlen`` against attention of each sequence in float64 on the CPU; PyTorch's CPU device has none."""

import itertools
import math

import pytest
import torch
from comparison import make_tensor
from torch.nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out

D = "rustdev"
#: Lengths of the queries and keys of each sequence: equal ones, more keys, more queries, none.
LENGTHS = [([5, 16, 1], [5, 16, 1]), ([3, 4], [9, 4]), ([7, 2], [4, 2]), ([0, 6, 3], [2, 6, 0])]
WINDOWS = [(-1, -1), (-1, 0), (2, 0), (1, 1), (-1, 2)]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}


def ends(lengths: list[int], device: str = D) -> torch.Tensor:
    return torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32, device=device)


def expected(
    operands: list[torch.Tensor], lengths: tuple[list[int], list[int]], window: tuple[int, int], scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return outputs (T, H, D) and logarithms (H, T) of sums of exponentials; 0 and infinity for queries that see no key."""
    outputs, sums = [], []
    query, key, value = (operand.split(count) for operand, count in zip(operands, (*lengths, lengths[1]), strict=True))
    for own, keys, values in zip(query, key, value, strict=True):
        group = own.size(1) // keys.size(1)
        keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
        scores = torch.einsum("qhd,khd->hqk", own, keys) * (scale or 1 / math.sqrt(own.size(2)))
        distance = torch.arange(keys.size(0)) - torch.arange(own.size(0)).unsqueeze(1) - (keys.size(0) - own.size(0))
        for size, is_outside in zip(window, (distance < -window[0], distance > window[1]), strict=True):
            scores = scores.masked_fill(is_outside, -math.inf) if size >= 0 else scores
        sees = (scores > -math.inf).any(-1, keepdim=True)
        weights = torch.where(sees, scores.masked_fill(~sees, 0).softmax(-1), 0) if keys.size(0) else scores
        outputs.append(torch.einsum("hqk,khd->qhd", weights, values))
        sums.append(torch.where(sees[..., 0], scores.logsumexp(-1) if keys.size(0) else 0, math.inf))
    return torch.cat(outputs), torch.cat(sums, 1)


def operands(lengths: tuple[list[int], list[int]], heads: tuple[int, int], dtype: torch.dtype) -> list[torch.Tensor]:
    counts = (sum(lengths[0]), sum(lengths[1]), sum(lengths[1]))
    return [
        make_tensor((count, number, 8), dtype, seed=seed)
        for seed, (count, number) in enumerate(zip(counts, (heads[0], heads[1], heads[1]), strict=True))
    ]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("heads", [(2, 2), (4, 2)], ids=str)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_outputs_and_gradients(
    lengths: tuple[list[int], list[int]], window: tuple[int, int], heads: tuple[int, int], dtype: torch.dtype
) -> None:
    hosts = operands(lengths, heads, dtype)
    wide = [host.double().requires_grad_() for host in hosts]
    wanted, sums = expected(wide, lengths, window)
    grad = make_tensor(wanted.shape, dtype, seed=7)
    wanted.backward(grad.double())
    given = [host.to(D).requires_grad_() for host in hosts]
    out, logarithms = varlen_attn(
        *given, ends(lengths[0]), ends(lengths[1]), max(lengths[0]), max(lengths[1]),
        window_size=window, enable_gqa=heads[0] != heads[1], return_aux=AuxRequest(lse=True),
    )  # fmt: skip
    out.backward(grad.to(D))
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(out.detach().cpu().double(), wanted.detach(), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(logarithms.cpu().double(), sums.detach(), rtol=tolerance, atol=tolerance)
    for tensor, reference in zip(given, wide, strict=True):
        assert tensor.grad is not None
        assert reference.grad is not None
        torch.testing.assert_close(tensor.grad.cpu().double(), reference.grad, rtol=tolerance, atol=4 * tolerance)


def test_caches_of_keys() -> None:
    lengths = ([1, 3], [4, 8])
    hosts = operands(lengths, (2, 2), torch.float32)
    used, window = [3, 5], (-1, 0)
    valid = [hosts[0]] + [
        torch.cat([part[:count] for part, count in zip(host.split(lengths[1]), used, strict=True)]) for host in hosts[1:]
    ]
    wanted, _ = expected([it.double() for it in valid], (lengths[0], used), window, 0.3)
    given = [host.to(D) for host in hosts]
    counts = torch.tensor(used, dtype=torch.int32, device=D)
    with torch.no_grad():
        out = varlen_attn(*given, ends(lengths[0]), ends(lengths[1]), 3, 8, scale=0.3, window_size=window, seqused_k=counts)
        torch.testing.assert_close(out.cpu().double(), wanted, rtol=1e-5, atol=1e-5)
        # Pages of four hold the same keys in another order.
        table = torch.tensor([[2, 0], [0, 1]], dtype=torch.int32, device=D)
        pages = [torch.cat([it[4:8], it[8:12], it[:4]]).unflatten(0, (3, 4)) for it in given[1:]]
        result = torch.empty_like(out)
        arguments = (ends(lengths[0]), None, 3, 8)
        varlen_attn_out(result, given[0], *pages, *arguments, scale=0.3, window_size=window, seqused_k=counts, block_table=table)
        torch.testing.assert_close(result, out)


def test_dense_operands_and_linear_biases() -> None:
    query, key, value = (make_tensor((2, length, 3, 8), torch.float64, seed=seed) for seed, length in enumerate((4, 6, 6)))
    slopes = torch.tensor([0.5, 0.25, 0.125], dtype=torch.float64)
    distance = (torch.arange(6) - torch.arange(4).unsqueeze(1) - 2).abs()
    scores = torch.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(8) - slopes.view(1, 3, 1, 1) * distance
    wanted = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), value)
    given = (it.float().to(D) for it in (query, key, value))
    out, sums, *_ = torch.ops.aten._flash_attention_forward(
        *given, None, None, 4, 6, 0.0, False, False, alibi_slopes=slopes.float().to(D)
    )
    torch.testing.assert_close(out.cpu().double(), wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(sums.cpu().double(), scores.logsumexp(-1), rtol=1e-5, atol=1e-5)


def test_errors_leave_the_device_usable() -> None:
    query, end = torch.randn(4, 2, 8, device=D), ends([4])
    with pytest.raises(NotImplementedError, match="dropout"):
        torch.ops.aten._flash_attention_forward(query, query, query, end, end, 4, 4, 0.5, False, False)
    with pytest.raises(ValueError, match="same number of heads"):
        varlen_attn(query, query[:, :1], query[:, :1], end, end, 4, 4)
    pages = torch.zeros(1, 1, dtype=torch.int32, device=D)
    with pytest.raises(RuntimeError, match="requires seqused_k"):
        varlen_attn(query, query[None], query[None], end, None, 4, 4, block_table=pages)
    torch.testing.assert_close(varlen_attn(query, query, query, end, end, 4, 4).shape, query.shape)
