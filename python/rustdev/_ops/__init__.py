"""Operators with kernels in Python, which call other operators or launch kernels of the operator table.

Such a kernel costs a few microseconds more than one of the shim, so operators that models call often are in the shim. Each module
is a family of operators and registers them on import, before the CPU fallback is registered for the remaining operators.
"""

# ruff: noqa: F401 - imported for their registrations

import torch

from .._profiles import _imitated
from . import (
    accelerator_only,
    bincount,
    composed,
    custom,
    embedding_bag,
    flash_attention,
    float8_products,
    product_dtype,
    sparse_coo,
    sync_batch_norm,
    transformer,
    windows,
)

torch.ops.rustdev._register_fallback()
if (_profile := _imitated()) and not _profile.has_float8:
    float8_products.refuse_without_float8()
