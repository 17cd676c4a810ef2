"""Matrix products whose result has a wider dtype than their operands (mm, bmm, addmm, baddbmm with out_dtype).

The operands are widened first, and the product is computed in the wider dtype, so that nothing is rounded before the sum. PyTorch
has these overloads for CUDA only; the same arguments are accepted here.
"""

from typing import Any

import torch
from torch import Tensor

from .registration import kernel, scalar_type


def _register(name: str) -> None:
    """Register the kernels of a product with out_dtype. Their positional arguments are the operands, then the dtype."""
    multiply = getattr(torch, name)

    def product(*operands_and_dtype: Any, out: Tensor | None = None, **numbers: Any) -> Tensor:
        *operands, dtype = operands_and_dtype
        a, b = operands[-2:]
        if a.dtype is not b.dtype:
            raise RuntimeError(f"{name}: expected operands of one dtype, got {scalar_type(a.dtype)} and {scalar_type(b.dtype)}")
        if dtype is not a.dtype and not (dtype is torch.float32 and a.dtype in (torch.float16, torch.bfloat16)):
            accepted = "out_dtype must be the dtype of the operands, or float32 for float16 and bfloat16 operands"
            raise RuntimeError(f"{name}: {accepted}, not {scalar_type(dtype)}")
        if out is not None and out.dtype is not dtype:
            raise RuntimeError(f"{name}: out has dtype {scalar_type(out.dtype)}, but out_dtype is {scalar_type(dtype)}")
        result: Tensor = multiply(*(operand.to(dtype) for operand in operands), **numbers, out=out)
        return result

    kernel(f"{name}.dtype")(product)
    kernel(f"{name}.dtype_out")(product)


for _name in ("mm", "bmm", "addmm", "baddbmm"):
    _register(_name)
