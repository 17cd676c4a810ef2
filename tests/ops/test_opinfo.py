"""PyTorch's own samples (OpInfo) against the CPU, with the fallback forbidden: results, strides, views and gradients.

They are those of the operators that have a Rust kernel, and of those that run PyTorch's CPU kernels as tasks of the stream, up to
`SAMPLES` of each operator and dtype (`make conformance` compares all): as they are, and enlarged, in several layouts, so that loops
have blocks, ends behind whole vectors, and several threads.
"""

import contextlib
import itertools
import math
import random
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from comparison import COMPLEX, CPU, FLOATS, compare, make_tensor
from rustdev_conformance.compare import UNSTABLE_INDICES
from rustdev_conformance.database import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils import _pytree as pytree

# The table's rows under the names of OpInfo; "clamp_max_tensor" and the like are overloads of others.
ROWS = set(torch.rustdev.op_calls())
# Operators that run rows of another name.
OTHERS = {"linalg.vector_norm", "max", "min", "std_mean", "var_mean"}
OTHERS |= {"cummax", "cummin", "log_softmax", "logcumsumexp", "native_layer_norm", "nn.functional.layer_norm", "softmax"}
OTHERS |= {"__getitem__", "argwhere", "bincount", "masked_fill", "nn.functional.embedding", "nn.functional.embedding_bag"}
OTHERS |= {"nonzero_static", "take_along_dim"}
OTHERS |= {"floor_divide", "isfinite", "isinf", "isnan", "nn.functional.logsigmoid"}
OTHERS |= {"rsub", "histc", "histogram", "mv", "rot90", "stack", "trace", "unfold", "unique", "unique_consecutive"}
OTHERS |= {f"nn.functional.{name}" for name in ("fold", "max_pool2d", "nll_loss", "pad", "prelu", "unfold")}
OTHERS |= {f"special.{name}" for name in ("entr", "erfcx", "i0e", "i1", "i1e", "log_ndtr", "ndtri", "xlog1py")}
OTHERS |= {f"special.{name}" for name in ("hermite_polynomial_h", "hermite_polynomial_he", "spherical_bessel_j0")}
# Random numbers are other ones than the CPU's.
RANDOM = {"multinomial"}
NAMES = ({op.name for op in op_db if op.name.removeprefix("nn.functional.") in ROWS} | OTHERS) - RANDOM
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
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
CASES = [(op, dtype) for op in op_db for dtype in DTYPES if op.name in NAMES and dtype in op.supported_dtypes("cpu")]
AS_TASKS = [
    (op, dtype)
    for op in op_db
    for dtype in (torch.float32, torch.bfloat16, torch.complex128, torch.int64)
    if op.name in (IMAGES | MATRICES | LOSSES | SIGNALS) - NAMES and dtype in op.supported_dtypes("cpu")
]
TOLERANCE = {torch.bfloat16: 2e-2}

# What decomposes into operators that have no kernel of ours, or reads values; gradients too.
MAY_FALL_BACK = ["conj_physical", "polygamma", "linalg_lu_solve", "geqrf", "segment_reduce"]
by_name = {"ids": lambda value: value.formatted_name if isinstance(value, OpInfo) else str(value)}

#: How often the elements of each dimension are repeated in larger samples, and the elements that results may have.
FACTORS, MOST = (4001, 67, 31, 13, 7, 3), 100_000
#: Operators of which a sample's integers are no others: offsets that go up.
FIXED = {"nn.functional.embedding_bag"}
#: Number of samples of each operator and dtype that are compared, and that `make check` compares. A few operators have hundreds.
SAMPLES, FEWER = 16, 3
#: Operators without larger samples: sizes are arguments, or operands that are not broadcast.
NOT_ENLARGED = {
    "arange",
    "baddbmm",
    "bmm",
    "eye",
    "linspace",
    "linspace_tensor_overload",
    "logspace",
    "logspace_tensor_overload",
    "mm",
}
NOT_ENLARGED |= {"native_group_norm", "native_layer_norm", "nn_functional_layer_norm", "scatter", "scatter_add", "tril_indices"}
NOT_ENLARGED |= {f"index_reduce_{kind}" for kind in ("amax", "amin", "mean", "prod")} | {"triu_indices"}
NOT_ENLARGED |= {f"scatter_reduce_{kind}" for kind in ("amax", "amin", "mean", "prod", "sum")}
#: Number of larger samples of each operator and dtype.
LARGE = 3


def arguments(sample: Any) -> tuple[Any, ...]:
    """Return a sample as one tree."""
    return sample.input, sample.args, sample.kwargs


def tensors(tree: Any) -> list[torch.Tensor]:
    """Return the tensors of a tree."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def samples(op: Any, dtype: torch.dtype) -> Iterator[Any]:
    """Yield the samples of an operator, which take gradients where it has some."""
    return op.sample_inputs("cpu", dtype, requires_grad=op.supports_autograd and dtype in op.supported_backward_dtypes("cpu"))


def chosen(found: Iterator[Any], count: int) -> list[Any]:
    """Return the first samples, and as many that are drawn from the others."""
    first = list(itertools.islice(found, count // 2))
    others = list(found)
    return first + random.Random(0).sample(others, min(len(others), count - count // 2))


def shapes_of(found: list[torch.Tensor]) -> list[torch.Size]:
    """Return the size that tensors are broadcast to, or of all of them where they are not: the result may have them all."""
    with contextlib.suppress(RuntimeError):
        return [torch.broadcast_shapes(*(it.shape for it in found))]
    return [it.shape for it in found]


def larger(given: Any, number: int) -> Any:
    """Return a sample with more elements in each dimension that has several, in a layout by the number."""
    found = tensors(given)
    sizes = [size for shape in shapes_of(found) for size in shape if size > 1]
    factor = next((it for it in FACTORS if sizes and math.prod(sizes) * it ** len(sizes) <= MOST), 1)
    generator = torch.Generator().manual_seed(number)

    def grown(value: torch.Tensor) -> torch.Tensor:
        sizes = [size * factor if size > 1 else size for size in value.shape]
        sizes[-1:] = [2 * sizes[-1]] if number % 3 == 1 and sizes else sizes[-1:]
        drawn = value.detach().flatten()[torch.randint(value.numel(), sizes, generator=generator)]
        drawn = drawn[..., ::2] if number % 3 == 1 and sizes else drawn
        return (drawn.mT.contiguous().mT if number % 3 == 2 and len(sizes) > 1 else drawn).requires_grad_(value.requires_grad)

    return pytree.tree_map_only(torch.Tensor, grown, given) if factor > 1 and all(it.numel() for it in found) else None


def hold(op: Any, given: Any, dtype: torch.dtype, *, sums: bool = False) -> None:
    """Compare an operator's results and gradients."""
    warnings.filterwarnings("ignore")  # the CPU's own, once in a process, and of what is deprecated

    def run(device: torch.device, *given: Any) -> list[Any]:
        first, args, kwargs = given
        with device:
            results = pytree.tree_leaves(op(first, *args, **kwargs))
        leaves = list({id(leaf): leaf for leaf in tensors(given) if leaf.requires_grad}.values())
        outputs = [it for it in results if isinstance(it, torch.Tensor) and it.requires_grad]
        if not leaves or not outputs or op.name in UNSTABLE_INDICES:
            # Gradients go to the elements that indices name.
            return results[: len(results) - (op.name in UNSTABLE_INDICES)]
        grads = [make_tensor(it.shape, torch.float32, whole=9).mul(2).add(1).div(32).to(it) for it in outputs]
        found = torch.autograd.grad(outputs, leaves, grads, allow_unused=True)
        return [*results, *(it for it in found if it is not None)]

    torch.rustdev.set_fallback_allowlist(MAY_FALL_BACK)
    torch.rustdev.set_fallback_mode("error" if all(it.numel() for it in tensors(given)) or op.name in NAMES else "allow")
    # By the result's dtype: integers and truths are exact, indices among them.
    rtol = dict.fromkeys((*FLOATS, *COMPLEX, torch.complex32), TOLERANCE.get(dtype, 1e-5))
    compare(run, CPU, *given, no_worse=True, rtol=rtol, signs=False, of_greatest=sums)


@pytest.mark.every_operator
@pytest.mark.parametrize(("op", "dtype"), CASES, **by_name)
def test_samples(op: Any, dtype: torch.dtype, request: pytest.FixtureRequest) -> None:
    count = FEWER if request.config.getoption("layer") else None
    found = op.sample_inputs("cpu", dtype)
    for sample in itertools.islice(found, count) if count else chosen(found, SAMPLES):
        hold(op, arguments(sample), dtype)


@pytest.mark.parametrize(("op", "dtype"), AS_TASKS, **by_name)
def test_samples_and_gradients(op: Any, dtype: torch.dtype) -> None:
    for sample in chosen(samples(op, dtype), SAMPLES):
        hold(op, arguments(sample), dtype, sums=True)


@pytest.mark.parametrize(("op", "dtype"), [case for case in CASES if case[0].name not in FIXED], **by_name)
def test_larger_samples(op: Any, dtype: torch.dtype) -> None:
    held, found = 0, list(samples(op, dtype))
    random.Random(0).shuffle(found)  # neighbours differ in their tensors alone
    # Samples are repeated, so that an operator with few of them is called in each layout.
    for sample in itertools.chain.from_iterable([found] * LARGE):
        given = larger(arguments(sample), held) if held < LARGE else None
        if given is not None and is_taken(op, given):
            held += 1
            hold(op, given, dtype, sums=True)
    assert held or op.formatted_name in NOT_ENLARGED


def is_taken(op: Any, given: Any) -> bool:
    """Return whether the CPU takes a sample, whose sizes may no longer fit together."""
    warnings.filterwarnings("ignore")  # as in hold
    try:
        op(given[0].clone() if isinstance(given[0], torch.Tensor) else given[0], *given[1], **given[2])
    except (RuntimeError, ValueError, IndexError, TypeError):
        return False
    return True
