"""Attention over sequences of different lengths: what ``torch.nn.attention.varlen`` calls, which PyTorch implements for CUDA alone.

Each sequence is a call of the attention kernel on views of the packed operands, so that memory is linear in the lengths unless
there is a window. The lengths are read from the device, which waits.
"""

import itertools
import math
from typing import NamedTuple

import torch
from torch import Tensor

from .._name import NAME
from .registration import kernel

_attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_attention_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


class _Masking(NamedTuple):
    """Which keys a query sees, and what is added to its scores.

    Attributes:
        left, right: Distance of the furthest keys before and behind the query, where the ends of both sequences meet; None: any.
        slopes: Slopes (H) of the linear biases of one sequence, or None.
    """

    left: int | None
    right: int | None
    slopes: Tensor | None

    def rows(self, queries: int, keys: int) -> slice:
        """Return the queries that see a key."""
        ahead = keys - queries
        first = 0 if self.right is None else max(0, -ahead - self.right)
        last = queries if self.left is None else min(queries, keys - ahead + self.left)
        return slice(min(first, queries), max(last, min(first, queries)) if keys else min(first, queries))

    def of(self, rows: slice, queries: int, keys: int, like: Tensor) -> tuple[bool, Tensor | None]:
        """Return whether the kernel masks by itself, and else the mask of some queries: a matrix, or one for each head."""
        if self.slopes is None and self.left is None:
            if self.right is None:
                return False, None
            if self.right == 0 and queries == keys:
                return True, None
        query = torch.arange(rows.start, rows.stop, device=like.device).unsqueeze(1) + (keys - queries)
        distance = torch.arange(keys, device=like.device) - query
        mask = torch.zeros(distance.shape, dtype=torch.float32, device=like.device)
        if self.left is not None:
            mask.masked_fill_(distance < -self.left, -math.inf)
        if self.right is not None:
            mask.masked_fill_(distance > self.right, -math.inf)
        if self.slopes is not None:
            mask = mask - self.slopes.view(1, -1, 1, 1) * distance.abs()
        return False, mask.to(like.dtype)


def _heads_first(rows: Tensor) -> Tensor:
    """View (L, H, D) as (1, H, L, D)."""
    return rows.transpose(0, 1).unsqueeze(0)


def _rows_first(heads: Tensor) -> Tensor:
    """View (1, H, L, D) as (L, H, D)."""
    return heads.squeeze(0).transpose(0, 1)


def _bounds(operand: Tensor, ends: Tensor | None) -> list[slice]:
    """Return where each sequence of an operand begins and ends: (T, H, D) with cumulative lengths (B + 1), or (B, L, H, D)."""
    if ends is None:
        return [slice(index * operand.size(1), (index + 1) * operand.size(1)) for index in range(operand.size(0))]
    numbers = ends.tolist()
    return [slice(begin, end) for begin, end in itertools.pairwise(numbers)]


def _packed(operand: Tensor) -> Tensor:
    """View (B, L, H, D) as (T, H, D)."""
    return operand.flatten(0, 1) if operand.dim() == 4 else operand


def _masking(window: tuple[int | None, int | None], *, is_causal: bool, slopes: Tensor | None = None, index: int = 0) -> _Masking:
    """Return what a sequence masks. ``slopes``: (H) or (B, H)."""
    left, right = (None if size is None or size < 0 else size for size in window)
    return _Masking(left, 0 if is_causal else right, slopes if slopes is None or slopes.dim() == 1 else slopes[index])


def _check(query: Tensor, dropout_p: float) -> None:
    if dropout_p:
        raise NotImplementedError(f"_flash_attention_forward has no dropout on {NAME}")
    if not query.is_floating_point():
        raise RuntimeError(f"_flash_attention_forward takes floating point operands, not {query.dtype}")


@kernel("_flash_attention_forward")
def flash_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    *,
    scale: float | None = None,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
    seqused_k: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the output, the logarithms of the sums of exponentials, and three tensors that only CUDA's kernel fills.

    Args:
        query: (T, H, D) with ``cum_seq_q``, else (B, L, H, D); the output has its sizes. The logarithms are (H, T) or (B, H, L).
        key: The same, possibly with fewer heads; with ``block_table`` (pages, length of a page, H, D).
        value: As ``key``.
        cum_seq_q: Cumulative lengths (B + 1) of the queries' sequences.
        cum_seq_k: Those of the keys' sequences.
        max_q: Ignored.
        max_k: Ignored.
        dropout_p: 0.
        is_causal: Whether a query sees no key behind it; the ends of queries and keys meet.
        return_debug_mask: Ignored.
        scale: Factor of the scores, by default the square root of 1 / D.
        window_size_left: Number of keys before a query that it sees; negative or None: all.
        window_size_right: Number of keys behind a query that it sees; negative or None: all.
        seqused_k: Numbers (B) of keys that are valid.
        alibi_slopes: Slopes (H) or (B, H) of biases that are linear in the distance.
        block_table: Numbers (B, pages of a sequence) of the pages that hold the keys of each sequence; needs ``seqused_k``.
        num_splits: Ignored; the computation is never split.

    Raises:
        NotImplementedError: If ``dropout_p`` is not 0.
        RuntimeError: If the operands are not of floating point, or ``seqused_k`` is missing.
    """
    out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    sums = flash_attention_forward_inplace(
        out, query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, return_debug_mask, scale=scale,
        window_size_left=window_size_left, window_size_right=window_size_right, seqused_k=seqused_k, alibi_slopes=alibi_slopes,
        block_table=block_table, num_splits=num_splits,
    )  # fmt: skip
    state = torch.zeros(2, dtype=torch.uint64, device=query.device)
    return out, sums, state, query.new_empty(0), query.new_empty(0)


@kernel("_flash_attention_forward_no_dropout_inplace")
def flash_attention_forward_inplace(
    out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    *,
    scale: float | None = None,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
    seqused_k: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Tensor:
    """Write the output of :func:`flash_attention_forward` to ``out``, and return the logarithms."""
    _check(query, dropout_p)
    if block_table is not None and seqused_k is None:
        raise RuntimeError("block_table requires seqused_k")
    bounds = _bounds(query, cum_seq_q)
    of_keys = _bounds(key, cum_seq_k) if block_table is None else [slice(0)] * len(bounds)
    used = None if seqused_k is None else seqused_k.tolist()
    queries, packed = _packed(query), torch.zeros_like(_packed(query), memory_format=torch.contiguous_format)
    sums = torch.full((queries.size(1), queries.size(0)), math.inf, dtype=torch.float32, device=query.device)
    for index, (own, others) in enumerate(zip(bounds, of_keys, strict=True)):
        count = None if used is None else used[index]
        if block_table is not None and count is not None:
            pages = block_table[index, : -(-count // key.size(1))].long()
            keys, values = (paged[pages].flatten(0, 1)[:count] for paged in (key, value))
        else:
            keys, values = (_packed(operand)[others][:count] for operand in (key, value))
        masking = _masking((window_size_left, window_size_right), is_causal=is_causal, slopes=alibi_slopes, index=index)
        rows = masking.rows(own.stop - own.start, keys.size(0))
        if rows.start == rows.stop:
            continue
        masks, mask = masking.of(rows, own.stop - own.start, keys.size(0), query)
        to = slice(own.start + rows.start, own.start + rows.stop)
        operands = (_heads_first(operand) for operand in (queries[to], keys, values))
        result, logarithms = _attention(*operands, 0.0, masks, attn_mask=mask, scale=scale)
        packed[to] = _rows_first(result)
        sums[:, to] = logarithms.view(sums.size(0), -1)
    out.copy_(packed.view(out.shape))
    return sums if query.dim() == 3 else sums.unflatten(1, query.shape[:2]).transpose(0, 1).contiguous()


@kernel("_flash_attention_backward")
def flash_attention_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    rng_state: Tensor,
    unused: Tensor,
    *,
    scale: float | None = None,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of query, key and value, with their sizes."""
    _check(query, dropout_p)
    grads = [torch.zeros_like(operand, memory_format=torch.contiguous_format) for operand in (query, key, value)]
    grad_query, *others = [_packed(grad) for grad in grads]
    grad_out, out, queries, keys, values = [_packed(operand) for operand in (grad_out, out, query, key, value)]
    sums = logsumexp if query.dim() == 3 else logsumexp.transpose(0, 1).flatten(1)
    masking = _masking((window_size_left, window_size_right), is_causal=is_causal)
    for own, of_keys in zip(_bounds(query, cum_seq_q), _bounds(key, cum_seq_k), strict=True):
        length, count = own.stop - own.start, of_keys.stop - of_keys.start
        rows = masking.rows(length, count)
        if rows.start == rows.stop:
            continue
        masks, mask = masking.of(rows, length, count, query)
        to = slice(own.start + rows.start, own.start + rows.stop)
        operands = [_heads_first(operand) for operand in (grad_out[to], queries[to], keys[of_keys], values[of_keys], out[to])]
        found = _attention_backward(*operands, sums[:, to].unsqueeze(0), 0.0, masks, attn_mask=mask, scale=scale)
        for grad, heads in zip((grad_query[to], *(other[of_keys] for other in others)), found, strict=True):
            grad.copy_(_rows_first(heads))
    return grads[0], grads[1], grads[2]
