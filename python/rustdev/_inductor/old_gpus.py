"""Graphs with bfloat16 on an imitated GPU before capability 8.0, which torch.compile leaves alone.

Inductor warns of a graph that takes or returns bfloat16, as it does on such a GPU, and the function runs without being compiled.
"""

import functools
import itertools
import warnings
from types import ModuleType
from typing import Any

import torch

from .._name import NAME
from .._profiles import _presented
from ..device import _name_of

__all__ = ["has_bfloat16", "skip_bfloat16"]


def has_bfloat16() -> bool:
    """Return whether graphs with bfloat16 are compiled: unless the device imitates a GPU without it."""
    profile = _presented()
    return profile is None or profile.has_bfloat16


def skip_bfloat16(compile_fx: ModuleType) -> None:
    """Extend the check that Inductor makes before it generates a graph's code to the device.

    Args:
        compile_fx: ``torch._inductor.compile_fx``.
    """
    from torch._dynamo.exc import SkipFrame

    check_others = compile_fx._check_triton_bf16_support

    @functools.wraps(check_others)
    def check(graph: Any) -> None:
        check_others(graph)
        if has_bfloat16():
            return
        for node in itertools.chain(graph.graph_inputs.values(), graph.graph_outputs):
            get_device = getattr(node, "get_device", None)
            device = get_device() if get_device else None
            if device is not None and device.type == NAME and node.get_dtype() is torch.bfloat16:
                warnings.warn(f"{_name_of(_presented())} does not support bfloat16 compilation natively, skipping", stacklevel=2)
                raise SkipFrame("BF16 is not supported")

    compile_fx._check_triton_bf16_support = check  # type: ignore[attr-defined]
