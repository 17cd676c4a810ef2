"""PyTorch's own samples (OpInfo) of the operators that have a Rust kernel, against the CPU, with the fallback forbidden."""

import warnings

import pytest
import torch
from comparison import copied
from expected import UNSTABLE_INDICES
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

# The table's rows under the names of OpInfo; "clamp_max_tensor" and the like are overloads of others.
ROWS = set(torch.rustdev.op_calls())
# Operators that run rows of another name.
OTHERS = {"linalg.vector_norm", "max", "min", "std_mean", "var_mean"}
OTHERS |= {"cummax", "cummin", "log_softmax", "logcumsumexp", "native_layer_norm", "nn.functional.layer_norm", "softmax"}
OTHERS |= {"__getitem__", "argwhere", "bincount", "masked_fill", "nn.functional.embedding", "nn.functional.embedding_bag"}
OTHERS |= {"nonzero_static", "take_along_dim"}
OTHERS |= {"floor_divide", "isfinite", "isinf", "isnan", "nn.functional.logsigmoid"}
OTHERS |= {"nn.functional.prelu", "rsub"}
OTHERS |= {f"special.{name}" for name in ("entr", "erfcx", "i0e", "i1", "i1e", "log_ndtr", "ndtri", "xlog1py")}
OTHERS |= {f"special.{name}" for name in ("hermite_polynomial_h", "hermite_polynomial_he", "spherical_bessel_j0")}
# Random numbers are other ones than the CPU's.
RANDOM = {"multinomial"}
NAMES = ({op.name for op in op_db if op.name.removeprefix("nn.functional.") in ROWS} | OTHERS) - RANDOM
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
# PyTorch rounds the quotient to bfloat16 before it rounds to a whole number, the products of addr, the exponents of logspace; the
# device rounds once.
APART = {("logspace", torch.bfloat16), ("logspace_tensor_overload", torch.bfloat16)}
APART |= {("addr", torch.bfloat16), ("div_trunc_rounding", torch.bfloat16), ("div_floor_rounding", torch.bfloat16)}
CASES = [
    (op, dtype)
    for op in op_db
    for dtype in DTYPES
    if op.name in NAMES and dtype in op.supported_dtypes("cpu") and (op.formatted_name, dtype) not in APART
]
TOLERANCE = {torch.bfloat16: 2e-2}
# PyTorch's own override for this operator.
RELATIVE = {("baddbmm", torch.complex64): 1.2e-3}

# What decomposes into operators that have no kernel of ours.
MAY_FALL_BACK = ["conj_physical"]


def to_device(value: object) -> object:
    """Move a tensor to the device with its strides; leave anything else."""
    if not isinstance(value, torch.Tensor):
        return "rustdev" if value in ("cpu", torch.device("cpu")) else value
    return copied(value)


@pytest.mark.filterwarnings("ignore:Casting complex values to real")  # the CPU's own warning, once in a process
@pytest.mark.usefixtures("strict")
@pytest.mark.every_operator
@pytest.mark.parametrize(("op", "dtype"), CASES, ids=lambda value: getattr(value, "formatted_name", str(value)))
def test_samples(op: object, dtype: torch.dtype) -> None:
    torch.rustdev.set_fallback_allowlist(MAY_FALL_BACK)
    tolerance = TOLERANCE.get(dtype, 1e-5)
    relative = RELATIVE.get((op.name, dtype), tolerance)
    # Variances of too few values warn on both sides.
    warnings.filterwarnings("ignore", message=".*degrees of freedom")
    # The CPU's, once in a process.
    warnings.filterwarnings("ignore", message=".*is in beta|The reduce argument of torch.scatter|.*tensor is non-contiguous")
    for sample in op.sample_inputs("cpu", dtype):
        arguments = (sample.input, sample.args, sample.kwargs)
        first, args, kwargs = arguments
        expected = op(first, *args, **kwargs)
        first, args, kwargs = pytree.tree_map(to_device, arguments)
        with torch.device("rustdev"):
            actual = op(first, *args, **kwargs)
        results = pytree.tree_leaves(actual)
        assert {result.device.type for result in results} == {"rustdev"}
        results = [result.cpu() for result in results]
        compared = len(results) - (op.name in UNSTABLE_INDICES)
        leaves = pytree.tree_leaves(expected)[:compared]
        torch.testing.assert_close(results[:compared], leaves, rtol=relative, atol=tolerance, equal_nan=True)
