"""PyTorch's own samples (OpInfo) of the operators that have a Rust kernel, against the CPU, with the fallback forbidden."""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

NAMES = [
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "exp",
    "maximum",
    "eq",
    "lt",
    "gt",
    "sum",
    "mean",
    "mm",
    "addmm",
    "nn.functional.relu",
]
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
# PyTorch rounds the quotient to bfloat16 before it rounds to a whole number; the device rounds once.
APART = {("div_trunc_rounding", torch.bfloat16), ("div_floor_rounding", torch.bfloat16)}
CASES = [
    (op, dtype)
    for op in op_db
    for dtype in DTYPES
    if op.name in NAMES and dtype in op.supported_dtypes("cpu") and (op.formatted_name, dtype) not in APART
]
TOLERANCE = {torch.bfloat16: 2e-2}

# What decomposes into operators that have no kernel of ours.
MAY_FALL_BACK = ["cat", "conj_physical"]


def to_device(value: object) -> object:
    """Move a tensor to the device with its strides; leave anything else."""
    if not isinstance(value, torch.Tensor):
        return value
    storage = torch.empty(value.untyped_storage().nbytes() // max(value.element_size(), 1), dtype=value.dtype)
    storage.copy_(torch.empty(0, dtype=value.dtype).set_(value.untyped_storage()))
    moved = storage.to("rustdev").as_strided(value.shape, value.stride(), value.storage_offset())
    return moved.conj() if value.is_conj() else moved


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(("op", "dtype"), CASES, ids=lambda value: getattr(value, "formatted_name", str(value)))
def test_samples(op: object, dtype: torch.dtype) -> None:
    torch.rustdev.set_fallback_allowlist(MAY_FALL_BACK)
    tolerance = TOLERANCE.get(dtype, 1e-5)
    for sample in op.sample_inputs("cpu", dtype):
        arguments = (sample.input, sample.args, sample.kwargs)
        first, args, kwargs = arguments
        expected = op(first, *args, **kwargs)
        first, args, kwargs = pytree.tree_map(to_device, arguments)
        actual = op(first, *args, **kwargs)
        assert actual.device.type == "rustdev"
        torch.testing.assert_close(actual.cpu(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)
