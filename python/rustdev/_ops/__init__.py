"""Operators whose kernels are Python: made of other operators, or launches of the operator table's kernels around a little Python.

Such a kernel costs some microseconds more than one of the shim, so what models call often is there. Each module is a family of
operators, registered when it is imported; all are registered before the CPU fallback takes the operators that are left.
"""

# ruff: noqa: F401 - imported for what they register

from .. import _rustdev
from . import accelerator_only, bincount, composed, custom, embedding_bag, product_dtype, sparse_coo, sync_batch_norm, windows

_rustdev.register_fallback()
