"""PyTorch's own samples (OpInfo) against the CPU, with the fallback forbidden.

They are those of the operators that have a Rust kernel, and of those that run PyTorch's CPU kernels as tasks of the stream, whose
gradients are compared as well.
"""

from __future__ import annotations

import warnings
from typing import Any

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

POOLS = {f"avg_pool{n}d" for n in (2, 3)} | {f"adaptive_{kind}_pool{n}d" for kind in ("avg", "max") for n in (1, 2, 3)}
POOLS |= {f"max_unpool{n}d" for n in (1, 2, 3)} | {"max_pool3d"}
IMAGES = {f"nn.functional.{name}" for name in POOLS | {"interpolate", "upsample_nearest", "upsample_bilinear", "grid_sample"}}
MATRICES = {f"linalg.{name}" for name in ("inv", "inv_ex", "cholesky", "cholesky_ex", "det", "slogdet", "solve", "solve_ex", "qr")}
MATRICES |= {f"linalg.{name}" for name in ("lu", "lu_factor", "lu_factor_ex", "lu_solve", "ldl_factor", "ldl_factor_ex")}
MATRICES |= {f"linalg.{name}" for name in ("ldl_solve", "solve_triangular", "householder_product", "matrix_exp", "cross")}
MATRICES |= {"inverse", "cholesky", "logdet", "lu_solve", "qr", "triangular_solve", "lu_unpack", "ormqr", "geqrf", "cross"}
MATRICES |= {"addbmm", "cholesky_solve", "matrix_exp", "renorm", "cdist", "nn.functional.pdist"}
LOSSES = {f"nn.functional.{name}" for name in ("ctc_loss", "multi_margin_loss", "multilabel_margin_loss")} | {"_segment_reduce"}
SIGNALS = {f"fft.{inverse}fft{dims}" for inverse in ("", "i", "r", "ir") for dims in ("", "2", "n")}
SIGNALS |= {f"fft.{name}" for name in ("hfft", "hfftn", "ihfft", "ihfft2", "ihfftn")} | {"stft", "istft"}
AS_TASKS = [
    (op, dtype)
    for op in op_db
    for dtype in (torch.float32, torch.bfloat16, torch.complex128, torch.int64)
    if op.name in (IMAGES | MATRICES | LOSSES | SIGNALS) - NAMES and dtype in op.supported_dtypes("cpu")
]
# What is computed in float32 and rounded once in 16 bits, where the CPU device rounds on its way.
ROUNDED_ONCE = {"addbmm", "cross", "linalg_cross", "matrix_exp", "_segment_reduce_lengths", "_segment_reduce_offsets"}
ROUNDED_ONCE |= {f"nn_functional_adaptive_avg_pool{n}d" for n in (1, 2, 3)} | {"nn_functional_grid_sample"}
ROUNDED_ONCE |= {f"nn_functional_interpolate_{mode}" for mode in ("linear", "area")}
# The gradient of cdist is divided by distances that come from products.
FURTHER = {"cdist": 1e-4}

# What decomposes into operators that have no kernel of ours, or reads values; gradients too.
MAY_FALL_BACK = ["conj_physical", "linalg_lu_solve", "geqrf", "segment_reduce"]
by_name = {"ids": lambda value: getattr(value, "formatted_name", str(value))}


def arguments(sample: Any) -> tuple[Any, ...]:
    """Return a sample as one tree."""
    return sample.input, sample.args, sample.kwargs


def call(op: Any, given: tuple[Any, ...]) -> list[torch.Tensor]:
    """Return an operator's results."""
    first, args, kwargs = given
    return pytree.tree_leaves(op(first, *args, **kwargs))


def to_device(value: object) -> object:
    """Move a tensor to the device with its strides; leave anything else."""
    if not isinstance(value, torch.Tensor):
        return "rustdev" if value in ("cpu", torch.device("cpu")) else value
    return copied(value)


@pytest.mark.filterwarnings("ignore:Casting complex values to real")  # the CPU's own warning, once in a process
@pytest.mark.every_operator
@pytest.mark.parametrize(("op", "dtype"), CASES, **by_name)
def test_samples(op: Any, dtype: torch.dtype) -> None:
    torch.rustdev.set_fallback_allowlist(MAY_FALL_BACK[:1])
    tolerance = TOLERANCE.get(dtype, 1e-5)
    relative = RELATIVE.get((op.name, dtype), tolerance)
    # Variances of too few values warn on both sides.
    warnings.filterwarnings("ignore", message=".*degrees of freedom")
    # The CPU's, once in a process.
    warnings.filterwarnings("ignore", message=".*is in beta|The reduce argument of torch.scatter|.*tensor is non-contiguous")
    for sample in op.sample_inputs("cpu", dtype):
        expected = call(op, arguments(sample))
        given = pytree.tree_map(to_device, arguments(sample))
        with torch.device("rustdev"):
            results = call(op, given)
        assert {result.device.type for result in results} == {"rustdev"}
        compared = len(results) - (op.name in UNSTABLE_INDICES)
        found = [result.cpu() for result in results[:compared]]
        torch.testing.assert_close(found, expected[:compared], rtol=relative, atol=tolerance, equal_nan=True)


def outcome(op: Any, given: tuple[Any, ...]) -> list[torch.Tensor]:
    """Return results, and the gradients of the sum of what can be differentiated."""
    inputs = [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    results = [leaf for leaf in call(op, given) if isinstance(leaf, torch.Tensor)]
    sums = [result.abs().sum() for result in results if result.requires_grad]
    gradients = torch.autograd.grad(sums, inputs, allow_unused=True) if sums and inputs else ()
    return [*results, *(gradient for gradient in gradients if gradient is not None)]


@pytest.mark.parametrize(("op", "dtype"), AS_TASKS, **by_name)
def test_samples_and_gradients(op: Any, dtype: torch.dtype) -> None:
    torch.rustdev.set_fallback_allowlist(MAY_FALL_BACK[1:])
    warnings.filterwarnings("ignore")  # of what is deprecated
    differentiates = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    rounds_once = dtype == torch.bfloat16 and op.formatted_name in ROUNDED_ONCE

    def moved(value: torch.Tensor, device: str) -> torch.Tensor:
        wide = torch.float32 if rounds_once and device == "cpu" and value.dtype == dtype else value.dtype
        return value.detach().to(device, wide).requires_grad_(value.requires_grad)

    for sample in op.sample_inputs("cpu", dtype, requires_grad=differentiates):
        given = arguments(sample)
        has_elements = all(leaf.numel() for leaf in pytree.tree_leaves(given) if isinstance(leaf, torch.Tensor))
        torch.rustdev.set_fallback_mode("error" if has_elements else "allow")
        expected, found = (
            outcome(op, pytree.tree_map_only(torch.Tensor, lambda it, device=device: moved(it, device), given))
            for device in ("cpu", "rustdev")
        )
        assert {result.device.type for result in found} == {"rustdev"}
        assert [result.stride() for result in found] == [result.stride() for result in expected]
        if rounds_once:
            expected = [result.to(dtype) if result.dtype == torch.float32 else result for result in expected]
        rtol = torch.finfo(dtype).eps if rounds_once else FURTHER.get(op.name, 1e-5)
        torch.testing.assert_close([result.cpu() for result in found], expected, rtol=rtol, atol=1e-5, equal_nan=True)
