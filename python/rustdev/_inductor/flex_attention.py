"""FlexAttention on the device (arXiv 2412.05496), eager and compiled: by tiles, in memory that is linear in the lengths.

PyTorch refuses devices that it does not know, and its computation for all devices has scores (B, H, Lq, Lk) in memory. Here a tile
has the scores of some queries for all keys of the blocks that the mask leaves to them, so that its softmax is exact, and the keys
of other blocks cost nothing. The backward computes the scores again from the saved log-sum-exp, as FlashAttention-2 does
(arXiv 2307.08691); the graph of ``score_mod`` that autograd has traced gives the gradients.

Blocks are those of GPUs: a key whose block is in no table is not seen, and ``mask_mod`` does not apply to full blocks. The tables
are read from the device once, which waits, and only for several tiles. Captures and dry runs do not read them, so that they skip no
block.

In compiled code the operator is one call, which has the graphs of ``score_mod`` and ``mask_mod`` as text for Inductor's caches.
"""

import functools
import importlib
import itertools
import math
import types
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet, _ExcludeDispatchKeyGuard
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakTensorKeyDictionary

from .. import _rustdev
from .._name import NAME

__all__ = ["allow", "function", "lower"]

_AUTOCAST: DispatchKey = DispatchKey.AutocastPrivateUse1  # type: ignore[attr-defined]
#: Number of scores of a tile, unless those of the fewest queries are more. A processor's caches hold some tiles.
_SCORES = 2**20
#: Fewest queries of a tile, where there are several.
_QUERIES = 128
#: States of a block of scores. ``mask_mod`` applies to partial blocks.
_ABSENT, _PARTIAL, _FULL = 0, 1, 2
#: States of the blocks of masks on the host, with the other tensors and the versions that they are from, by the first tensor.
_read: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


class _Tile(NamedTuple):
    """The scores of some queries.

    Attributes:
        batches, heads, queries: Of the queries.
        groups: The heads of the keys.
        keys: Keys that some query may see: a range, or positions on the host.
        masked: The range of ``keys`` outside which every query sees every key.
    """

    batches: slice
    heads: slice
    queries: slice
    groups: slice
    keys: slice | Tensor
    masked: slice


class _Scores(NamedTuple):
    """What is computed for a tile, in the computing dtype: operands, scores before and after ``score_mod`` and the mask.

    Attributes:
        query: Scaled queries (B, G, H/G * queries, D) for G heads of keys.
        key, value: Keys (B or 1, G, keys, D) and values (B or 1, G, keys, E).
        indices: Batches, heads, queries and keys of the tile, each of one dimension, on the device.
        scores, modified: Scores (B, H, queries, keys).
        hidden: Which of the masked keys are not seen: bool (B or 1, H or 1, queries, masked keys), or None without such keys.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    indices: tuple[Tensor, ...]
    scores: Tensor
    modified: Tensor
    hidden: Tensor | None


class _Attention:
    """What both passes share.

    Args:
        query: Queries (B, H, Lq, D).
        key, value: Keys (B or 1, G, Lk, D) and values (B or 1, G, Lk, E), where G divides H.
        score_mod: Function of a score, its batch, head, query and key, and ``others``.
        block_mask: Lengths, tables, block sizes and ``mask_mod``, as PyTorch's operator has them.
        scale: Factor of the scores.
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
        others: tuple[Any, ...],
        mask_others: tuple[Any, ...],
    ) -> None:
        self.dtype = torch.float64 if query.dtype is torch.float64 else torch.float32
        self.query, self._scale, self.others, self._mask_others = query, scale, others, mask_others
        self.key, self.value = (operand.to(self.dtype).contiguous() for operand in (key, value))
        self._score_mod, self._mask_mod = _mapped(score_mod, 1, 0, len(others)), _mapped(block_mask[-1], 0, 0, len(mask_others))
        self._at = torch.arange(max(*query.shape[:3], key.size(2)), device=query.device)
        # PyTorch makes a block of this size where no mask is given.
        self._is_noop = block_mask[-2] == 1 << 30 and _is_noop(block_mask[-1])
        self._tables = block_mask[2:6]
        self._sizes = (min(block_mask[-3], query.size(2)), min(block_mask[-2], key.size(2)))
        if not self._is_noop:
            number, indices, full_number, full_indices = self._tables
            self._states = self._marked(number, indices).to(torch.int8)
            if full_number is not None:
                self._states.masked_fill_(self._marked(full_number, full_indices), _FULL)

    def _marked(self, number: Tensor, indices: Tensor) -> Tensor:
        """Return which blocks a table has: bool (B or 1, H or 1, blocks of queries, blocks of keys)."""
        blocks = -(-self.key.size(2) // self._sizes[1])
        is_given = torch.arange(indices.size(-1), device=indices.device) < number.unsqueeze(-1)
        marked = torch.zeros((*number.shape, blocks + 1), dtype=torch.bool, device=indices.device)
        return marked.scatter_(-1, indices.clamp(max=blocks).masked_fill(~is_given, blocks).long(), True)[..., :-1]

    def _blocks(self) -> tuple[Tensor, int, int]:
        """Return the states of blocks on the host, and the size of a block: one block where they are not needed or not read."""
        if self._is_noop or self.query[..., 0].numel() * self.key.size(2) <= _SCORES or _rustdev.is_dry_run() or _is_capturing():
            state = torch.full((1, 1, 1, 1), _FULL if self._is_noop else _PARTIAL, dtype=torch.int8, device="cpu")
            return state, self.query.size(2), self.key.size(2)
        version = [None if table is None or table.is_inference() else table._version for table in self._tables]
        found = _read.get(self._tables[0])
        if found is None or found[1] != version or any(a is not b for a, b in zip(found[0], self._tables[1:], strict=True)):
            found = _read[self._tables[0]] = (self._tables[1:], version, self._states.cpu())
        return found[2], *self._sizes

    def _tiles(self) -> Iterator[_Tile]:
        """Yield the tiles, at least one."""
        batches, heads, queries, _ = self.query.shape
        states, rows, columns = self._blocks()
        of_batch, of_head = states.size(0) > 1, states.size(1) > 1
        keys = max(1, int((states != _ABSENT).double().mean().item() * self.key.size(2)))
        scores, group = min(queries, _QUERIES) * keys, heads // self.key.size(1)
        shared = [n for n in range(1, heads + 1) if heads % n == 0 and (n % group == 0 or group % n == 0) and n * scores <= _SCORES]
        per_head = 1 if of_head or not shared else shared[-1]
        per_batch = 1 if of_batch or per_head < heads else max(1, min(batches, _SCORES // (heads * scores)))
        step = max(1, _SCORES // (per_batch * per_head * keys) // _QUERIES) * _QUERIES
        is_empty = True
        starts = itertools.product(range(0, batches, per_batch), range(0, heads, per_head), range(0, queries, step))
        for batch, head, query in starts:
            end = min(query + step, queries)
            of_tile = states[batch * of_batch, head * of_head, query // rows : (end - 1) // rows + 1]
            of_keys = of_tile.repeat_interleave(columns, 1)[:, : self.key.size(2)]
            seen = of_keys.any(0).nonzero().flatten()
            if not seen.numel():
                continue
            is_empty = False
            masked = (of_keys[:, seen].amin(0) < _FULL).nonzero().flatten()
            first, last = int(seen[0]), int(seen[-1])
            yield _Tile(
                slice(batch, min(batch + per_batch, batches)),
                slice(head, head + per_head),
                slice(query, end),
                slice(head // group, (head + per_head - 1) // group + 1),
                slice(first, last + 1) if last - first == seen.numel() - 1 else seen,
                slice(int(masked[0]), int(masked[-1]) + 1) if masked.numel() else slice(0, 0),
            )
        if is_empty:  # The gradients of buffers have their sizes from a tile.
            yield _Tile(*[slice(0, 1)] * 6)

    def tiles(self) -> Iterator[tuple[_Tile, _Scores]]:
        """Yield the tiles with their scores."""
        for tile in self._tiles():
            yield (tile if isinstance(tile.keys, slice) else tile._replace(keys=tile.keys.to(self.query.device)), self._scores(tile))

    def _scores(self, tile: _Tile) -> _Scores:
        batch, head, query = (self._at[part] for part in tile[:3])
        key = self._at[tile.keys]
        of_keys = (tile.batches if self.key.size(0) > 1 else slice(None), tile.groups)
        keys, values = (operand[of_keys][:, :, tile.keys] for operand in (self.key, self.value))
        queries = self.grouped(self.query[tile[:3]].to(self.dtype) * self._scale, keys)
        scores = (queries @ keys.mT).view(batch.numel(), head.numel(), query.numel(), key.numel())
        modified = self._score_mod(scores, batch, head, query, key, *self.others).to(self.dtype)
        hidden = None
        if tile.masked.stop:
            hidden = self._hidden(tile, batch, head, query, key[tile.masked])
            modified = _filled(modified, tile.masked, hidden, -math.inf)
        return _Scores(queries, keys, values, (batch, head, query, key), scores, modified, hidden)

    def _hidden(self, tile: _Tile, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        seen = self._mask_mod(batch, head, query, key, *self._mask_others)
        for dimension in (0, 1):  # A mask that does not depend on a dimension is expanded.
            seen = seen.narrow(dimension, 0, 1) if seen.stride(dimension) == 0 else seen
        states = self._states[tile.batches if self._states.size(0) > 1 else slice(None)]
        states = states[:, tile.heads if self._states.size(1) > 1 else slice(None)]
        states = states[:, :, (query // self._sizes[0]).unsqueeze(1), key // self._sizes[1]]
        return (seen & (states == _PARTIAL)).logical_or_(states == _FULL).logical_not_()

    @staticmethod
    def grouped(rows: Tensor, keys: Tensor) -> Tensor:
        """View or copy rows (B, H, queries, n) as (B, G, H/G * queries, n) for the heads of keys (B, G, keys, D)."""
        return rows.reshape(rows.size(0), keys.size(1), -1, rows.size(-1))


def _is_capturing() -> bool:
    return torch.accelerator.current_stream().is_capturing()


def _filled(scores: Tensor, part: slice, hidden: Tensor, value: float) -> Tensor:
    """Fill hidden scores (B, H, queries, keys) of a part of the keys, in place where that is a part of memory of their own."""
    if part.stop - part.start == scores.size(3):
        return scores.masked_fill(hidden, value)
    scores = scores.contiguous()
    scores[..., part].masked_fill_(hidden, value)
    return scores


def _mapped(function: Callable[..., Any], before: int, after: int, others: int, out: Any = 0) -> Callable[..., Any]:
    """Return a function that maps another over batches, heads, queries and keys.

    Args:
        function: Function of ``before`` scores, a batch, a head, a query, a key, ``after`` scores and ``others`` buffers.
        before, after, others: See above. Scores are (B, H, queries, keys).
        out: Dimensions of results, as those of ``torch.vmap``.
    """
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    from torch.nn.attention.flex_attention import _vmap_for_bhqkv

    mapped = _vmap_for_bhqkv(function, (0,) * before, (0,) * after + (None,) * others, out)

    def run(*args: Any) -> Any:
        with TransformGetItemToIndex():
            return mapped(*args)

    return run


def _is_noop(mask_mod: Any) -> bool:
    """Return whether a traced function of a mask is PyTorch's ``noop_mask``, which a call without a mask has."""
    if not isinstance(mask_mod, torch.fx.GraphModule):
        return getattr(mask_mod, "is_noop", False)
    (output,) = mask_mod.graph.find_nodes(op="output")
    result = output.args[0][0] if isinstance(output.args[0], (tuple, list)) else output.args[0]
    return result.target == "new_ones" or (result.target is torch.ops.aten.full.default and result.args[1] is True)


def _forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Any],
    block_mask: tuple[Any, ...],
    scale: float,
    kernel_options: dict[str, Any],
    others: tuple[Any, ...] = (),
    mask_others: tuple[Any, ...] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute ``flex_attention``.

    Args:
        query, key, value, score_mod, block_mask, scale, others, mask_others: See :class:`_Attention`.
        kernel_options: Choices of kernels for GPUs, which are ignored.

    Returns:
        Output (B, H, Lq, E) in the dtype and the layout of the queries, log-sum-exp and maximum of the scores of each query
        (B, H, Lq), to the base 2, in float32, or in float64 for float64. Zeros and -inf for queries that see no key.
    """
    attention = _Attention(query, key, value, score_mod, block_mask, scale, others, mask_others)
    out = _empty_as(query, (*query.shape[:3], value.size(3)), query.dtype).zero_()
    logsumexp, maximum = (torch.full(query.shape[:3], -math.inf, dtype=attention.dtype, device=query.device) for _ in range(2))
    for tile, at in attention.tiles():
        part = tile[:3]
        highest = at.modified.amax(3, keepdim=True)
        finite = highest.masked_fill(highest == -math.inf, 0)
        weights = (at.modified - finite).exp_()
        total = weights.sum(3, keepdim=True)
        logsumexp[part] = (total.log() + finite).squeeze(3) / math.log(2)
        maximum[part] = highest.squeeze(3) / math.log(2)
        outcome = attention.grouped(weights, at.key) @ at.value
        out[part] = outcome.view(*total.shape[:3], -1) / total.masked_fill(total == 0, 1)
    return out, logsumexp, maximum


def _backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    grad_out: Tensor | None,
    grad_logsumexp: Tensor | None,
    score_mod: Callable[..., Any],
    joint: Callable[..., Any] | None,
    block_mask: tuple[Any, ...],
    scale: float,
    kernel_options: dict[str, Any],
    others: tuple[Any, ...] = (),
    mask_others: tuple[Any, ...] = (),
) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor | None, ...]]:
    """Compute ``flex_attention_backward``.

    Args:
        query, key, value, score_mod, block_mask, scale, others, mask_others: See :class:`_Attention`.
        out, logsumexp: Results of the forward.
        grad_out, grad_logsumexp: Their gradients, or None for zeros.
        joint: Function of the arguments of ``score_mod``, with the gradient of its result before the buffers, that returns the
            gradients of its arguments.
        kernel_options: Choices of kernels for GPUs, which are ignored.

    Returns:
        Gradients of query, key and value in their dtypes and layouts, and those of ``others``, or None where there is none.

    Raises:
        ValueError: If the dtypes of query, key and value differ.
    """
    operators = _operators()
    if joint is None or not query.dtype == key.dtype == value.dtype:  # traces the joint graph, or raises
        return operators.sdpa_dense_backward(
            query, key, value, out, logsumexp, grad_out, grad_logsumexp,
            score_mod, joint, block_mask, scale, kernel_options, others, mask_others,
        )
    attention = _Attention(query, key, value, score_mod, block_mask, scale, others, mask_others)
    dtype = attention.dtype
    differentiate = _mapped(joint, 1, 1, len(others), [0, None, None, None, None] + [None] * len(others))
    is_shared = key.size(0) < query.size(0)
    grad_query = _empty_as(query, query.shape, query.dtype).zero_()
    grad_key, grad_value = (_empty_as(of, (query.size(0), *of.shape[1:]), dtype, is_shared).zero_() for of in (key, value))
    grad_others: list[Tensor | None] = [None] * len(others)
    for tile, at in attention.tiles():
        part, of_keys = tile[:3], (slice(None) if is_shared else tile.batches, tile.groups)
        arriving = torch.zeros_like(out[part], dtype=dtype) if grad_out is None else grad_out[part].to(dtype)
        normalizer = logsumexp[part].unsqueeze(3) * math.log(2)
        weights = (at.modified - normalizer.masked_fill(normalizer == -math.inf, math.inf)).exp_()
        shift = (out[part].to(dtype) * arriving).sum(3, keepdim=True)
        if grad_logsumexp is not None:
            shift -= grad_logsumexp[part].unsqueeze(3) / math.log(2)
        arriving = attention.grouped(arriving, at.key)
        _add(grad_value[of_keys], tile.keys, attention.grouped(weights, at.key).mT @ arriving)
        grad = (arriving @ at.value.mT).view(weights.shape).sub_(shift).mul_(weights)
        grad, *found = differentiate(at.scores, *at.indices, grad, *others)
        for index, of_other in enumerate(found[4:]):
            if isinstance(of_other, Tensor):
                total = grad_others[index]
                grad_others[index] = of_other.contiguous() if total is None else total.add_(of_other)
        if at.hidden is not None:
            grad = _filled(grad, tile.masked, at.hidden, 0)
        grad = attention.grouped(grad.to(dtype), at.key)
        grad_query[part] = (grad @ at.key).view(*normalizer.shape[:3], -1).mul_(scale)
        _add(grad_key[of_keys], tile.keys, grad.mT @ at.query)
    return grad_query, grad_key.to(key.dtype), grad_value.to(value.dtype), tuple(grad_others)


def _add(total: Tensor, keys: slice | Tensor, rows: Tensor) -> None:
    """Add rows (B, G, keys, n) to the rows of these keys of totals (B or 1, G, Lk, n)."""
    if total.size(0) < rows.size(0):
        rows = rows.sum(0, keepdim=True)
    if isinstance(keys, slice):
        total[:, :, keys].add_(rows)
    else:
        total.index_add_(2, keys, rows)


def _empty_as(of: Tensor, size: tuple[int, ...], dtype: torch.dtype, is_shared: bool = False) -> Tensor:
    """Return an empty tensor with the strides that PyTorch's operator has for results of a size, or for their sum over batches."""
    like = _operators()._permute_strides(torch.empty(size, device="meta"), of.stride())
    like = like.sum(0, keepdim=True) if is_shared else like
    return torch.empty_strided(like.shape, like.stride(), dtype=dtype, device=of.device)


def _operators() -> ModuleType:
    # The package has the operator by the name of its module.
    return importlib.import_module("torch._higher_order_ops.flex_attention")


@functools.cache
def function(code: str, is_noop: bool = False) -> Callable[..., Any]:
    """Return the function of a graph, for compiled code.

    Args:
        code: Definitions of ``constants``, a dictionary, and of ``forward``, whose first argument has them as attributes.
        is_noop: Whether the graph is that of ``noop_mask``.
    """
    scope: dict[str, Any] = {name: builtin.obj for name, builtin in torch.fx.graph._custom_builtins.items()}
    exec(code, scope)
    found = functools.partial(scope["forward"], types.SimpleNamespace(**scope["constants"]))
    found.is_noop = is_noop  # type: ignore[attr-defined]
    return found


class _Printed(torch.fx.GraphModule):
    """A graph that compiled code has as text."""

    def __repr__(self) -> str:
        """Return an expression of the graph's function."""
        constants = {
            node.target: f"torch.tensor({value.tolist()}, dtype={value.dtype}, device={str(value.device)!r})"
            for node in self.graph.find_nodes(op="get_attr")
            for value in (getattr(self, node.target),)
        }
        defined = ", ".join(f"{name!r}: {value}" for name, value in constants.items())
        code = f"constants = {{{defined}}}\n{self.graph.python_code('self').src}"
        return f"flex_attention_function({code!r}, {_is_noop(self)})"


def lower() -> None:
    """Lower the operators to calls on the device. Called once, when the device is registered with Inductor."""
    from torch._inductor import ir, lowering

    def called(operator: Any, lowered: Callable[..., Any]) -> Callable[..., Any]:
        def lower(query: Any, *args: Any) -> Any:
            if query.get_device().type != NAME:
                return lowered(query, *args)
            args = pytree.tree_map_only(ir.Subgraph, lambda graph: _Printed(graph.graph_module, graph.graph_module.graph), args)
            return pytree.tree_map_only(ir.IRNode, ir.TensorBox.create, ir.FallbackKernel.create(operator, query, *args))

        return lower

    for operator in (_operators().flex_attention, _operators().flex_attention_backward):
        lowering.lowerings[operator] = called(operator, lowering.lowerings[operator])


def allow(module: ModuleType) -> None:
    """Let FlexAttention take tensors of the device.

    Args:
        module: ``torch.nn.attention.flex_attention``.
    """
    # The traced function has the globals of PyTorch's module.
    validate, name = module._validate_device, NAME

    def _validate_device(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != name:
            validate(query, key, value)

    # Dynamo does not trace functions of this package's files.
    code = _validate_device.__code__.replace(co_filename=validate.__code__.co_filename)
    traced = types.FunctionType(code, validate.__globals__, closure=_validate_device.__closure__)
    module._validate_device = traced  # type: ignore[attr-defined]
    forward, backward = _operators().flex_attention, _operators().flex_attention_backward
    forward.py_impl(_AUTOCAST)(functools.partial(_in_autocast_dtype, forward))
    backward.py_impl(_AUTOCAST)(functools.partial(_below_autocast, backward))
    forward.py_impl(DispatchKey.PrivateUse1)(_forward)
    backward.py_impl(DispatchKey.PrivateUse1)(_backward)


def _below_autocast(operator: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with _ExcludeDispatchKeyGuard(DispatchKeySet(_AUTOCAST)):
        return operator(*args, **kwargs)


def _in_autocast_dtype(
    operator: Callable[..., Any], query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any
) -> Any:
    """Cast query, key and value as autocast casts the operands of attention, then call the operator."""
    dtype = torch.get_autocast_dtype(NAME)
    cast = [
        operand.to(dtype) if operand.is_floating_point() and operand.dtype != torch.float64 else operand
        for operand in (query, key, value)
    ]
    return _below_autocast(operator, *cast, *args, **kwargs)
