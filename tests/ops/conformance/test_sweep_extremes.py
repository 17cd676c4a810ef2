"""Every operator of PyTorch's database on extreme values, and on empty tensors, against the CPU."""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from against_cpu import AgainstCpu, call, gradient, is_random, outcome, seeded
from extremes import ALIKE, OVERFLOWING, Case, cases, change, is_pointwise
from rustdev_conformance.compare import LUCK, STEPS, UNSTABLE_INDICES, faults
from rustdev_conformance.database import op_db
from torch.testing._internal.common_device_type import OpDTypes, instantiate_device_type_tests, ops
from torch.testing._internal.opinfo.core import SampleInput
from torch.utils import _pytree as pytree

Run = Callable[[Any, Any, str], Any]
#: Operators that return one of +0 and -0; which one the CPU returns depends on the place in the tensor, or on the rounding of pi.
TIES = {"clamp", "clamp_max", "clamp_min", "fmax", "fmin", "max", "maximum", "min", "minimum", "nn.functional.softshrink", "sinc"}
#: Operators that leave what they add to a tensor without values.
RESIZING = {"resize_", "resize_as_"}
#: Operators that work element by element in several steps, whose errors a sum that cancels makes large.
COMPOSED = {"addcdiv", "addcmul", "lerp", "nn.functional.kl_div"}
#: Operators whose gradients, for ones as those of the results, are sums that cancel: the ones' roundings are what is left of many.
CENTRED = {f"nn.functional.{name}" for name in ("batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm", "softmin")}
CENTRED |= {"_batch_norm_with_update", "_native_batch_norm_legit", "native_batch_norm", "_softmax_backward_data", "softmax"}
CENTRED |= {"log_softmax", "masked.log_softmax", "masked.softmax", "masked.softmin", "torch.ops.aten._safe_softmax.default"}
#: More elements than the CPU's loops take at a time, so that those for whole vectors see a value that is repeated so often.
LANES = 64
#: Operators that solve or decompose, beside those of linalg.
SOLVING = {"cholesky", "cholesky_inverse", "cholesky_solve", "geqrf", "logdet", "lu", "lu_solve", "norm_nuc", "matrix_exp", "ormqr"}
SOLVING |= {"pca_lowrank", "pinverse", "svd", "svd_lowrank", "triangular_solve"}
#: Dtypes that few operators are listed with, and more take.
UNLISTED = [torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz, torch.float8_e8m0fnu]
UNLISTED += [torch.uint16, torch.uint32, torch.uint64, torch.complex32, torch.float16, torch.bfloat16, torch.bool]


def forward(op: Any, given: Any, device: str) -> Any:
    """Return an operator's results."""
    return seeded(lambda: call(op, given, device))


def backward(op: Any, given: Any, device: str) -> Any:
    """Return the gradients of an operator's results."""
    return seeded(lambda: gradient(op, given))


def is_within_rounding_of_ones(one: torch.Tensor, reference: Any) -> torch.Tensor | bool:
    """Return where a result is as near to the exact one as sums of numbers up to 1 in its dtype can be expected to be."""
    real = one.dtype.to_real() if one.is_complex() else one.dtype
    if real not in STEPS or not isinstance(reference, torch.Tensor) or reference.shape != one.shape:
        return False
    return (one.to(reference.dtype) - reference.detach()).abs() <= LUCK * STEPS[real] * torch.finfo(real).eps


def is_unstable(op: Any) -> bool:
    """Return whether an operator solves or decomposes: of such matrices its results have few digits, or none."""
    return op.name.startswith("linalg.") or op.formatted_name in SOLVING


def elsewhere(op: Any, case: Case, run: Run, place: int, wrong: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield what else the CPU makes of an element-by-element call's inputs in some positions.

    Its loops over whole vectors and those over single elements give different results for some numbers, NaN above all. Either is
    right. The first stand for tensors that are repeated, the second for those with gaps between their elements.
    """
    every = [leaf for leaf in pytree.tree_leaves(case.given) if isinstance(leaf, torch.Tensor)]
    if any(leaf.shape != wrong.shape or leaf.layout is not torch.strided for leaf in every):
        return
    at = wrong.flatten().nonzero().flatten()
    layouts: list[tuple[Callable[[torch.Tensor], torch.Tensor], int]] = [
        (lambda values: values.repeat_interleave(LANES), LANES),
        (lambda values: torch.stack((values, values), -1)[:, 0], 1),
    ]
    for laid, step in layouts:
        given = change(case.given, {id(leaf) for leaf in every}, lambda value, number, laid=laid: laid(value.flatten()[at]))
        leaves = pytree.tree_leaves(outcome(lambda given=given: run(op, given, "cpu"))[0])
        if place < len(leaves) and isinstance(leaves[place], torch.Tensor) and leaves[place].numel() == len(at) * step:
            yield leaves[place].detach()[::step]


def compare_values(
    op: Any, case: Case, run: Run, place: int, one: torch.Tensor, other: torch.Tensor, exact: Callable[[float, int], Any]
) -> None:
    """Raise an error if the values of two results differ."""
    if other.layout is not torch.strided or other.is_quantized or (run is backward and op.name in UNSTABLE_INDICES):
        # Gradients go to the elements that indices name.
        return
    assert one.shape == other.shape, f"shape: {one.shape} beside the CPU's {other.shape}"
    # Elsewhere shapes may differ, and gradients are sums.
    pointwise = case.family in ALIKE and op.name not in COMPOSED
    signs, overflowing = pointwise and op.name not in TIES, case.family in OVERFLOWING
    wrong = faults(one, other, exact, pointwise=pointwise, signs=signs, overflowing=overflowing)
    if is_pointwise(op) and bool(wrong.any()):
        at = wrong.clone()

        def those(eps: float, seed: int) -> Any:
            values = exact(eps, seed)
            return values[at] if isinstance(values, torch.Tensor) and values.shape == at.shape else None

        for found in elsewhere(op, case, run, place, at):
            if found.shape == one[at].shape and found.dtype is one.dtype:
                wrong[at] &= faults(one[at], found, those, pointwise=True, signs=signs)
    if op.name in CENTRED and run is backward and bool(wrong.any()):
        wrong &= ~torch.as_tensor(is_within_rounding_of_ones(one, exact(0.0, 0)))
    if is_unstable(op) and (one.is_floating_point() or one.is_complex()):
        wrong &= one.isfinite() != other.isfinite()
    if not bool(wrong.any()):
        return
    positions = wrong.nonzero()
    told = []
    reference = exact(0.0, 0)
    for place in (positions[0], positions[len(positions) // 2], positions[-1]) if len(positions) > 2 else positions:
        at = tuple(place.tolist())
        inputs = [it[at].item() for it in pytree.tree_leaves(case.given) if isinstance(it, torch.Tensor) and it.shape == one.shape]
        near = reference[at].item() if isinstance(reference, torch.Tensor) and reference.shape == one.shape else None
        told.append(f"at {list(at)} of {inputs}: {one[at].item()}, CPU {other[at].item()}, exact {near}")
    raise AssertionError(f"{len(positions)} of {one.numel()} {one.dtype}; " + "; ".join(dict.fromkeys(told)))


def is_by_chance(op: Any, case: Case, run: Run) -> bool:
    """Return whether a case's results depend on the generator, or on nothing at all."""
    given = case.given
    return op.name in RESIZING or is_random(op, SampleInput(given[0], args=given[1], kwargs=given[2]), gradients=run is backward)


def taken(op: Any, dtype: torch.dtype) -> Iterator[Case]:
    """Yield the cases of a dtype that the database does not list, where it can make them and the CPU takes the first."""
    # There may be no samples of the dtype.
    with contextlib.suppress(Exception):
        calls = cases(op, dtype)
        first = next(calls, None)
        if first is not None and outcome(lambda: forward(op, first.given, "cpu"))[1] is None:
            yield first
            yield from calls


class TestExtremes(AgainstCpu):
    """Names of tests are those of the kinds in expected.py."""

    @ops(op_db, dtypes=OpDTypes.supported)
    def test_extremes(self, device: str, dtype: torch.dtype, op: Any) -> None:
        self.sweep("extremes", op, dtype, cases(op, dtype), forward)

    @ops([op for op in op_db if op.supports_autograd], dtypes=OpDTypes.supported_backward)
    def test_extremes_backward(self, device: str, dtype: torch.dtype, op: Any) -> None:
        self.sweep("extremes_backward", op, dtype, cases(op, dtype, requires_grad=True), backward)

    @ops(op_db, dtypes=OpDTypes.none)
    def test_extremes_unlisted(self, device: str, op: Any) -> None:
        calls = itertools.chain.from_iterable(taken(op, it) for it in UNLISTED if it not in op.supported_dtypes("cpu"))
        self.sweep("extremes_unlisted", op, None, calls, forward)

    def sweep(self, kind: str, op: Any, dtype: torch.dtype | None, calls: Iterable[Case], run: Run) -> None:
        """Compare calls; parts of a test are families of values."""
        with self.telling(kind, op, dtype):
            for case in calls:
                self.check(
                    case.family,
                    functools.partial(run, op),
                    case.given,
                    what=f"({case.form})",
                    by_chance=lambda _, case=case: is_by_chance(op, case, run),
                    strides=run is forward,
                    values=functools.partial(compare_values, op, case, run),
                )

    def is_same_refusal(self, refusal: Exception | None, mistake: Exception | None) -> bool:
        """Return whether the device refuses what the CPU does, or takes more, or a later task fails for a wrong place."""
        is_later = isinstance(mistake, torch.AcceleratorError) and isinstance(refusal, IndexError)
        takes_more = isinstance(refusal, NotImplementedError) and mistake is None
        return is_later or takes_more or super().is_same_refusal(refusal, mistake)


instantiate_device_type_tests(TestExtremes, globals())
