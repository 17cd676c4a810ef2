"""Where rustdev is expected to differ from PyTorch's CPU device on PyTorch's own samples, and why.

Keys are (kind of test, operator, dtype), where no dtype means every one; kinds are the names of the tests in ``conformance``. An
entry whose difference is gone fails, and is taken out.
"""

import torch

EXPECTED: dict[tuple[str, str, torch.dtype | None], str] = {}
for kind in ("forward", "noncontiguous", "backward", "forward_ad"):
    EXPECTED[(kind, "tensor_split", None)] = "indices given as a tensor stay on the CPU, on every accelerator"
EXPECTED[("noncontiguous", "sparse_sampled_addmm", None)] = "the database cannot make sparse tensors that are not contiguous"
EXPECTED[("errors", "narrow_copy", None)] = "a dimension out of range is an IndexError, as on every accelerator"

# Extreme values: behind the kind of test stands the family of values that the difference is one of, see conformance/extremes.py.
REAL = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
for dtype in REAL:
    for family in ("every value", "single"):
        EXPECTED[(f"extremes: {family}", "i0", dtype)] = "i0 of an infinity is one; the CPU's is NaN"
for kind in ("extremes", "extremes_backward", "extremes_unlisted"):
    EXPECTED[(kind, "tensor_split", None)] = EXPECTED[("forward", "tensor_split", None)]
for kind in ("extremes", "extremes_backward"):
    EXPECTED[(f"{kind}: no columns", "addmv", None)] = "of a matrix without columns the CPU's result has the input's shape alone"
    for family in ("no rows", "no columns"):
        EXPECTED[(f"{kind}: {family}", "nn_functional_pixel_unshuffle", None)] = "the CPU returns an empty input in its own shape"
for dtype in COMPLEX:
    for name, families in {
        "baddbmm": ("with inf and -inf",),
        "bmm": ("with inf", "with inf and -inf"),
        "einsum": ("with inf and -inf",),
        "tensordot": ("with inf and -inf",),
    }.items():
        for family in families:
            reason = "products of infinities: the CPU's are infinite or NaN by the matrices' sizes"
            EXPECTED[(f"extremes: {family}", name, dtype)] = reason
for name, reason in {
    "detach_": "what the tests move to the device is a view, which may not be detached in place",
    "_ctc_loss": "its second result is partly left as it was",
    "_embedding_bag": "its second result, for the gradient alone, has elements where the CPU's has none",
    "_embedding_bag_per_sample_weights_backward": "takes the device's own second result of _embedding_bag",
    "log_sigmoid_forward": "its buffer, which the device does not need, is left as it was",
}.items():
    EXPECTED[("overload", name, None)] = reason

#: Relative and absolute tolerance of operators that get more than their dtype's, even where the CPU is nearer to the exact values.
TOLERANCE: dict[tuple[str, torch.dtype], tuple[float, float]] = {
    # Sums that cancel, by matrix products: over hundreds of random inputs either device is the nearer in about half of them, but
    # the inputs' own roundings, by which the tests judge, move the results by less than those of the steps between.
    ("cov", torch.float32): (1.3e-6, 2e-4),  # of complex input, the gradients of two observations' weights, which are 0
    ("linalg.multi_dot", torch.float32): (1.3e-6, 5e-3),
    ("linalg.householder_product", torch.float32): (2e-4, 1e-3),  # tangents, of which both devices are off by 0.2 % in the median
    ("linalg.householder_product", torch.complex64): (5e-3, 1e-3),
    ("linalg.lstsq", torch.float32): (1.3e-6, 5e-5),
}

#: Operators whose last result says where elements were: the device names the place that a stable sort has, the CPU any of those of
#: equal elements.
PLACES = {"argsort", "kthvalue", "mode", "sort", "topk"}
