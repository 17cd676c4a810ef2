"""The kernels of FlexAttention (arXiv 2412.05496): by tiles, in memory that is linear in the lengths.

PyTorch's computation for all devices has scores (B, H, Lq, Lk) in memory. Here a tile has the scores of some queries for all keys
of the blocks that the mask leaves to them, so that its softmax is exact, and the keys of other blocks cost nothing. The backward
computes the scores again from the saved log-sum-exp, as FlashAttention-2 does (arXiv 2307.08691); the graph of ``score_mod`` that
autograd has traced gives the gradients.

Blocks are those of GPUs: a key whose block is in no table is not seen, and ``mask_mod`` does not apply to full blocks. The tables
are read from the device once, which waits, and only for several tiles. Captures and dry runs do not read them, and skip no block.
"""

import importlib
import itertools
import math
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from .. import _rustdev

__all__ = ["backward", "forward", "is_noop", "operators"]

#: Number of scores of a tile, unless those of the fewest queries are more. A processor's caches hold some tiles.
_SCORES = 2**20
#: Fewest queries of a tile, where there are several.
_QUERIES = 128
#: The work that a tile takes for itself, as a number of scores.
_TILE = 2**17
#: Size of the one block that PyTorch makes where no mask is given.
_NO_BLOCKS = 1 << 30
#: States of a block of scores. ``mask_mod`` applies to partial blocks.
_ABSENT, _PARTIAL, _FULL = 0, 1, 2
#: States of the blocks of masks on the host, with the other tensors and the versions that they are from, by the first tensor.
_read: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def operators() -> ModuleType:
    """Return PyTorch's module of the operators, whose package has an operator by its name."""
    return importlib.import_module("torch._higher_order_ops.flex_attention")


def is_noop(mask_mod: Any) -> bool:
    """Return whether a traced function of a mask is PyTorch's ``noop_mask``, which a call without a mask has."""
    if not isinstance(mask_mod, torch.fx.GraphModule):
        return getattr(mask_mod, "is_noop", False)
    result = mask_mod.graph.find_nodes(op="output")[0].args[0]
    target = getattr(result, "target", None)
    return target == "new_ones" or (target is torch.ops.aten.full.default and result.args[1] is True)


class _Tile(NamedTuple):
    """The scores of some queries for the keys that some of them may see: a range, or positions on the device.

    ``groups`` are the heads of the keys, and ``masked`` is the range of ``keys`` outside which every query sees every key.
    """

    batches: slice
    heads: slice
    queries: slice
    groups: slice
    keys: slice | Tensor
    masked: slice


class _Scores(NamedTuple):
    """Intermediate tensors of a tile.

    Attributes:
        query, key, value: Scaled queries (B, G, H/G * queries, D), keys (B or 1, G, keys, D), values (B or 1, G, keys, E).
        indices: Batches, heads, queries and keys, each of one dimension.
        raw, scores: Scores (B, H, queries, keys) before and after ``score_mod`` and the mask.
        hidden: Which masked keys are not seen: bool (B or 1, H or 1, queries, masked keys), or None without masked keys.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    indices: tuple[Tensor, ...]
    raw: Tensor
    scores: Tensor
    hidden: Tensor | None


class _Attention:
    """Operands and tiles, which forward and backward share. Computes in float32, or in float64 for float64.

    Args:
        query: Queries (B, H, Lq, D).
        key, value: Keys (B or 1, G, Lk, D) and values (B or 1, G, Lk, E), where G divides H.
        score_mod: Function of a score, its batch, head, query and key, and ``others``.
        block_mask: Lengths, tables, block sizes and ``mask_mod``, as PyTorch's operator has them.
        scale: Factor of the scores.
        _options: Choices of kernels for GPUs.
        others: Buffers of ``score_mod``.
        mask_others: Buffers of ``mask_mod``.
    """

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        score_mod: Callable[..., Any],
        block_mask: tuple[Any, ...],
        scale: float,
        _options: dict[str, Any],
        others: tuple[Any, ...] = (),
        mask_others: tuple[Any, ...] = (),
    ) -> None:
        self.dtype = torch.float64 if query.dtype is torch.float64 else torch.float32
        self.query, self.scale, self.others, self._mask_others = query, scale, others, mask_others
        self.key, self.value = (operand.to(self.dtype).contiguous() for operand in (key, value))
        self._at = torch.arange(max(*query.shape[:3], key.size(2)), device=query.device)
        self._score_mod, self._mask_mod = _mapped(score_mod, 1, 0, len(others)), _mapped(block_mask[-1], 0, 0, len(mask_others))
        self._is_noop = block_mask[-2] == _NO_BLOCKS and is_noop(block_mask[-1])
        self._tables = number, indices, full_number, full_indices = block_mask[2:6]
        self._rows, self._columns = min(block_mask[-3], query.size(2)), min(block_mask[-2], key.size(2))
        # int8 (B or 1, H or 1, blocks of queries, blocks of keys)
        self._states = self._marked(number, indices).to(torch.int8)
        if full_number is not None:
            self._states.masked_fill_(self._marked(full_number, full_indices), _FULL)

    def _marked(self, number: Tensor, indices: Tensor) -> Tensor:
        """Return which blocks a table has: bool (B or 1, H or 1, blocks of queries, blocks of keys)."""
        blocks = -(-self.key.size(2) // self._columns)
        is_given = torch.arange(indices.size(-1), device=indices.device) < number.unsqueeze(-1)
        marked = torch.zeros((*number.shape, blocks + 1), dtype=torch.bool, device=indices.device)
        return marked.scatter_(-1, indices.clamp(max=blocks).masked_fill(~is_given, blocks).long(), True)[..., :-1]

    def _blocks(self) -> tuple[Tensor, int, int]:
        """Return the states of blocks on the host, and the size of a block: one block where they are not needed or not read."""
        from ..graphs import is_current_stream_capturing

        is_small = self.query[..., 0].numel() * self.key.size(2) <= _SCORES
        if self._is_noop or is_small or _rustdev.is_dry_run() or is_current_stream_capturing():
            state = torch.full((1, 1, 1, 1), _FULL if self._is_noop else _PARTIAL, dtype=torch.int8, device="cpu")
            return state, self.query.size(2), self.key.size(2)
        versions = [None if table is None or table.is_inference() else table._version for table in self._tables]
        found = _read.get(self._tables[0])
        if found is None or found[1] != versions or any(a is not b for a, b in zip(found[0], self._tables[1:], strict=True)):
            found = _read[self._tables[0]] = (self._tables[1:], versions, self._states.cpu())
        return found[2], self._rows, self._columns

    def _tiles(self) -> Iterator[_Tile]:
        """Yield the tiles, at least one."""
        batches, heads, queries, _ = self.query.shape
        states, rows, columns = self._blocks()
        of_batch, of_head = states.size(0) > 1, states.size(1) > 1
        start = torch.arange(0, queries, _QUERIES, device="cpu")
        seen = (states[:, :, start // rows] | states[:, :, (start + _QUERIES - 1).clamp(max=queries - 1) // rows]) != _ABSENT
        scores = max(1, int(seen.double().mean().item() * self.key.size(2) * min(queries, _QUERIES)))
        group = heads // self.key.size(1)
        # The heads of a tile have whole groups, or are in one.
        shared = [n for n in range(1, heads + 1) if heads % n == 0 and (n % group == 0 or group % n == 0) and n * scores <= _SCORES]
        per_head = 1 if of_head or not shared else shared[-1]
        per_batch = 1 if of_batch or per_head < heads else max(1, min(batches, _SCORES // (heads * scores)))
        step = _step(seen, columns * per_batch * per_head)
        is_empty = True
        starts = itertools.product(range(0, batches, per_batch), range(0, heads, per_head), range(0, queries, step))
        for batch, head, query in starts:
            end = min(query + step, queries)
            of_tile = states[batch * of_batch, head * of_head, query // rows : (end - 1) // rows + 1]
            of_keys = of_tile.repeat_interleave(columns, 1)[:, : self.key.size(2)]
            of_some = of_keys.any(0).nonzero().flatten()
            if not of_some.numel():
                continue
            is_empty = False
            masked = (of_keys[:, of_some].amin(0) < _FULL).nonzero().flatten().tolist() or [0, -1]
            first, last = int(of_some[0]), int(of_some[-1])
            yield _Tile(
                slice(batch, min(batch + per_batch, batches)),
                slice(head, head + per_head),
                slice(query, end),
                slice(head // group, (head + per_head - 1) // group + 1),
                slice(first, last + 1) if last - first == of_some.numel() - 1 else of_some.to(self.query.device),
                slice(masked[0], masked[-1] + 1),
            )
        if is_empty:  # The gradients of buffers have their sizes from a tile.
            yield _Tile(*[slice(0, 1)] * 6)

    def tiles(self) -> Iterator[tuple[_Tile, _Scores]]:
        """Yield the tiles with their scores."""
        for tile in self._tiles():
            batch, head, query, key = (self._at[part] for part in (*tile[:3], tile.keys))
            of_keys = (tile.batches if self.key.size(0) > 1 else slice(None), tile.groups)
            keys, values = (operand[of_keys][:, :, tile.keys] for operand in (self.key, self.value))
            queries = _grouped(self.query[tile[:3]].to(self.dtype) * self.scale, keys)
            raw = (queries @ keys.mT).view(batch.numel(), head.numel(), query.numel(), key.numel())
            scores, hidden = self._score_mod(raw, batch, head, query, key, *self.others).to(self.dtype), None
            if tile.masked.stop:
                hidden = self._hidden(tile, batch, head, query, key[tile.masked])
                scores = _filled(scores, tile.masked, hidden, -math.inf)
            yield tile, _Scores(queries, keys, values, (batch, head, query, key), raw, scores, hidden)

    def _hidden(self, tile: _Tile, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        seen = self._mask_mod(batch, head, query, key, *self._mask_others)
        for dimension in (0, 1):  # A mask that does not depend on a dimension is expanded.
            seen = seen.narrow(dimension, 0, 1) if seen.stride(dimension) == 0 else seen
        of_tile = [slice(None) if size == 1 else part for size, part in zip(self._states.shape[:2], tile[:2], strict=True)]
        states = self._states[tuple(of_tile)][:, :, (query // self._rows).unsqueeze(1), key // self._columns]
        hidden: Tensor = (seen & (states == _PARTIAL)).logical_or_(states == _FULL).logical_not_()
        return hidden


def _step(seen: Tensor, width: int) -> int:
    """Return the number of queries of a tile for which the tiles' work is least: more queries have fewer tiles, with more keys.

    Args:
        seen: Which blocks each ``_QUERIES`` queries see: bool (B or 1, H or 1, parts, blocks), on the host.
        width: Number of scores that a tile has for a query and a block.
    """
    step = best = _QUERIES
    least = math.inf
    while True:
        scores = seen.sum(3) * (step * width)
        work = (scores + _TILE).sum().item()
        if step > _QUERIES and scores.max().item() > _SCORES:
            return best
        if work <= least:
            best, least = step, work
        if seen.size(2) == 1:
            return best
        pairs = torch.nn.functional.pad(seen, (0, 0, 0, seen.size(2) % 2))
        seen, step = pairs[:, :, ::2] | pairs[:, :, 1::2], 2 * step


def _grouped(rows: Tensor, keys: Tensor) -> Tensor:
    """View or copy rows (B, H, queries, n) as (B, G, H/G * queries, n) for the heads of keys (B or 1, G, keys, D)."""
    return rows.reshape(rows.size(0), keys.size(1), -1, rows.size(-1))


def _filled(scores: Tensor, part: slice, hidden: Tensor, value: float) -> Tensor:
    """Fill the hidden scores (B, H, queries, keys) of a part of the keys, in place where the part is not all."""
    if part.stop - part.start == scores.size(3):
        return scores.masked_fill(hidden, value)
    scores = scores.contiguous()  # A function may return expanded memory, which is not its own.
    scores[..., part].masked_fill_(hidden, value)
    return scores


def _mapped(function: Callable[..., Any], before: int, after: int, others: int, out: Any = 0) -> Callable[..., Any]:
    """Map a function of ``before`` scores, a batch, head, query and key, ``after`` scores and ``others`` buffers."""
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    from torch.nn.attention.flex_attention import _vmap_for_bhqkv

    mapped = _vmap_for_bhqkv(function, (0,) * before, (0,) * after + (None,) * others, out)

    def run(*args: Any) -> Any:
        with TransformGetItemToIndex():
            return mapped(*args)

    return run


def _zeros_as(of: Tensor, size: tuple[int, ...], dtype: torch.dtype, *, summed: bool = False) -> Tensor:
    """Return zeros in the layout of PyTorch's results of this size, or of their sum over batches."""
    like = operators()._permute_strides(torch.empty(size, device="meta"), of.stride())
    like = like.sum(0, keepdim=True) if summed else like
    return torch.empty_strided(like.shape, like.stride(), dtype=dtype, device=of.device).zero_()


def _add(total: Tensor, keys: slice | Tensor, rows: Tensor) -> None:
    """Add rows (B, G, keys, n) to those of the keys in totals (B or 1, G, Lk, n)."""
    rows = rows.sum(0, keepdim=True) if total.size(0) < rows.size(0) else rows
    if isinstance(keys, slice):
        total[:, :, keys].add_(rows)
    else:
        total.index_add_(2, keys, rows)


def forward(query: Tensor, key: Tensor, value: Tensor, *args: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Compute ``flex_attention``.

    Args:
        query: Queries (B, H, Lq, D).
        key: Keys (B or 1, G, Lk, D).
        value: Values (B or 1, G, Lk, E).
        *args: See :class:`_Attention`.

    Returns:
        Output (B, H, Lq, E) in the dtype and the layout of the queries, log-sum-exp and maximum of the scores of each query
        (B, H, Lq), to the base 2, in the computing dtype. Zeros, -inf and -inf for queries that see no key.
    """
    attention = _Attention(query, key, value, *args)
    out = _zeros_as(query, (*query.shape[:3], value.size(3)), query.dtype)
    logsumexp, maximum = (torch.full(query.shape[:3], -math.inf, dtype=attention.dtype, device=query.device) for _ in range(2))
    for tile, at in attention.tiles():
        part = tile[:3]
        highest = at.scores.amax(3, keepdim=True)
        finite = highest.masked_fill(highest == -math.inf, 0)
        weights = (at.scores - finite).exp_()
        total = weights.sum(3, keepdim=True)
        logsumexp[part] = (total.log() + finite).squeeze(3) / math.log(2)
        maximum[part] = highest.squeeze(3) / math.log(2)
        weighted = (_grouped(weights, at.key) @ at.value).view(*total.shape[:3], -1)
        out[part] = weighted.div_(total.masked_fill(total == 0, 1))
    return out, logsumexp, maximum


def backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    grad_out: Tensor | None,
    grad_logsumexp: Tensor | None,
    score_mod: Callable[..., Any],
    joint: Callable[..., Any] | None,
    *args: Any,
) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor | None, ...]]:
    """Compute ``flex_attention_backward``.

    Args:
        query: Queries (B, H, Lq, D).
        key: Keys (B or 1, G, Lk, D).
        value: Values (B or 1, G, Lk, E).
        out: Output of the forward.
        logsumexp: Log-sum-exp of the forward.
        grad_out: Gradient of the output, or None for zeros.
        grad_logsumexp: Gradient of the log-sum-exp, or None for zeros.
        score_mod: See :class:`_Attention`.
        joint: Function of the arguments of ``score_mod``, with the gradient of its result before the buffers, that returns the
            gradients of these arguments.
        *args: The arguments after ``score_mod``.

    Returns:
        Gradients of query, key and value in their dtypes and layouts, and those of the buffers, None where there is none.

    Raises:
        ValueError: If the dtypes of query, key and value differ.
    """
    if joint is None or not query.dtype == key.dtype == value.dtype:  # PyTorch's traces the joint graph, or raises.
        dense: Callable[..., Any] = operators().sdpa_dense_backward
        found: tuple[Any, ...] = dense(query, key, value, out, logsumexp, grad_out, grad_logsumexp, score_mod, joint, *args)
        return found
    attention = _Attention(query, key, value, score_mod, *args)
    dtype, others = attention.dtype, attention.others
    differentiate = _mapped(joint, 1, 1, len(others), [0, *[None] * (4 + len(others))])
    summed = key.size(0) < query.size(0)
    grad_query = _zeros_as(query, query.shape, query.dtype)
    grad_key, grad_value = (_zeros_as(of, (query.size(0), *of.shape[1:]), dtype, summed=summed) for of in (key, value))
    of_others: list[Tensor | None] = [None] * len(others)
    for tile, at in attention.tiles():
        part, of_keys = tile[:3], (slice(None) if summed else tile.batches, tile.groups)
        arriving = torch.zeros_like(out[part], dtype=dtype) if grad_out is None else grad_out[part].to(dtype)
        normalizer = logsumexp[part].unsqueeze(3) * math.log(2)
        weights = (at.scores - normalizer.masked_fill(normalizer == -math.inf, math.inf)).exp_()
        shift = (out[part].to(dtype) * arriving).sum(3, keepdim=True)
        if grad_logsumexp is not None:
            shift -= grad_logsumexp[part].unsqueeze(3) / math.log(2)
        arriving = _grouped(arriving, at.key)
        _add(grad_value[of_keys], tile.keys, _grouped(weights, at.key).mT @ arriving)
        grad = (arriving @ at.value.mT).view(weights.shape).sub_(shift).mul_(weights)
        grad, _, _, _, _, *of_tile = differentiate(at.raw, *at.indices, grad, *others)
        for index, of_other in enumerate(of_tile):
            if isinstance(of_other, Tensor):
                total = of_others[index]
                of_others[index] = of_other.to(dtype).contiguous() if total is None else total.add_(of_other)
        if at.hidden is not None:
            grad = _filled(grad, tile.masked, at.hidden, 0)
        grad = _grouped(grad.to(dtype), at.key)
        grad_query[part] = (grad @ at.key).view(*normalizer.shape[:3], -1).mul_(attention.scale)
        _add(grad_key[of_keys], tile.keys, grad.mT @ at.query)
    cast = tuple(None if grad is None else grad.to(other.dtype) for grad, other in zip(of_others, others, strict=True))
    return grad_query, grad_key.to(key.dtype), grad_value.to(value.dtype), cast
