"""Differences from compilation for the CPU, where they are measurably faster on the device.

A kept operator is not compiled: it remains a call of the device's kernel, because Inductor's C++ code for it is slower.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch._ops import OpOverload

from .._name import NAME

#: Maximum number of elements of a variance that is computed in two passes (over cached data) instead of Welford's algorithm.
_TWO_PASSES = 16384


def _always() -> bool:
    return True


#: Kept operators, and whether they are kept at the moment. Inductor's group norm divides and takes a root for each vector, and its
#: pooling with indices is scalar code. Without gradients its pooling computes no indices and is fast.
_KEPT: dict[str, Callable[[], bool]] = {
    "native_group_norm.default": _always,
    "native_group_norm_backward.default": _always,
    "_native_batch_norm_legit.no_stats": _always,  # used by instance norm
    "max_pool2d_with_indices.default": torch.is_grad_enabled,
    "max_pool2d_with_indices_backward.default": _always,
    "native_dropout.default": _always,  # Inductor's loop uses one of the four numbers of each Philox call
    # Inductor's gather loops are scalar code.
    "index.Tensor": _always,
    "gather.default": _always,
    "embedding.default": _always,
    "_weight_int4pack_mm_for_cpu.default": _always,  # Inductor calls an operator of the CPU in its place
}


def _operator(name: str) -> OpOverload:
    packet, overload = name.split(".")
    found: OpOverload = getattr(getattr(torch.ops.aten, packet), overload)
    return found


def keep_undecomposed(decomposition: ModuleType) -> None:
    """Disable the decomposition of kept operators on the device.

    Args:
        decomposition: ``torch._inductor.decomposition``, whose tables apply to all devices.
    """

    def unless_kept(decomposed: Callable[..., Any], is_kept: Callable[[], bool]) -> Callable[..., Any]:
        def decompose(*args: Any, **kwargs: Any) -> Any:
            on_device = any(isinstance(given, torch.Tensor) and given.device.type == NAME for given in args)
            return NotImplemented if on_device and is_kept() else decomposed(*args, **kwargs)

        return decompose

    for table in (decomposition.decompositions, decomposition.extra_random_decomps):
        for name, is_kept in _KEPT.items():
            operator = _operator(name)
            if operator in table:
                table[operator] = unless_kept(table[operator], is_kept)


def keep_lowered() -> None:
    """Lower the kept operators to calls, both those that Inductor lowers to loops and those that it only decomposes."""
    from torch._inductor import lowering

    def unless_kept(operator: OpOverload, lowered: Callable[..., Any] | None) -> Callable[..., Any]:
        call = lowering.fallback_handler(operator, add_to_fallback_set=False)

        def lower(x: Any, *args: Any, **kwargs: Any) -> Any:
            return (call if lowered is None or x.get_device().type == NAME else lowered)(x, *args, **kwargs)

        return lower

    for operator in map(_operator, _KEPT):
        lowering.lowerings[operator] = unless_kept(operator, lowering.lowerings.get(operator))


def call_accumulations() -> None:
    """Lower accumulation at indices (``index_add``, ``scatter_add``, gradients of indexing) to calls of the device's kernels.

    Inductor's loops add atomically, one element at a time. Its two functions that choose calls instead test for other devices.
    """
    from torch._inductor import lowering, utils

    put: Callable[..., Any] = lowering.index_put_impl_
    is_called: Callable[..., bool] = utils.use_scatter_fallback

    def index_put_impl_(self: Any, indices: Any, values: Any, accumulate: bool, *args: Any, **kwargs: Any) -> Any:
        if accumulate and self.get_device().type == NAME:
            return lowering.index_put_fallback(self, indices, values, accumulate)
        return put(self, indices, values, accumulate, *args, **kwargs)

    def use_scatter_fallback(
        op_overload: OpOverload, reduction_type: str | None, self_dtype: Any, src_dtype: Any, src_device_type: str, *args: Any
    ) -> bool:
        accumulates = reduction_type is not None and src_device_type == NAME
        return accumulates or bool(is_called(op_overload, reduction_type, self_dtype, src_dtype, src_device_type, *args))

    lowering.index_put_impl_ = index_put_impl_
    lowering.use_scatter_fallback = use_scatter_fallback  # type: ignore[assignment, attr-defined]


def choose_layouts_and_variances() -> None:
    """Choose channels last for frozen convolutions, keep the layouts of others, and compute variances in two passes.

    Convolutions of channels-last images are faster, but their weights are reordered: once if they are frozen, else at each call.

    Two functions cannot be changed by a registration: one tests whether oneDNN supports the device, the other for "cpu".
    """
    from torch._inductor import config, lowering
    from torch._inductor.graph import GraphLowering

    decide: Callable[..., bool] = GraphLowering.decide_layout_opt
    is_two_step: Callable[..., bool] = lowering.use_two_step_variance

    def decide_layout_opt(gm: torch.fx.GraphModule, *, is_inference: bool) -> bool:
        values = [node.meta.get("val") for node in gm.graph.nodes]
        if any(isinstance(value, torch.Tensor) and value.device.type == NAME for value in values):
            is_convolution = torch.ops.aten.convolution.default
            return is_inference and config.freezing and any(node.target is is_convolution for node in gm.graph.nodes)
        return bool(decide(gm, is_inference=is_inference))

    def use_two_step_variance(x: Any, *args: Any, **kwargs: Any) -> bool:
        if x.get_device().type != NAME:
            return bool(is_two_step(x, *args, **kwargs))
        with config.patch(unroll_reductions_threshold=_TWO_PASSES):
            return bool(is_two_step(x, *args, **kwargs))

    GraphLowering.decide_layout_opt = staticmethod(decide_layout_opt)  # type: ignore[method-assign]
    lowering.use_two_step_variance = use_two_step_variance
