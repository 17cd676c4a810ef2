"""Every operator of PyTorch's database on extreme values, and on empty tensors, against the CPU."""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from against_cpu import Comparison, call, gradient, is_random, on_device, precise, seeded
from expected import UNSTABLE_INDICES
from extremes import ALIKE, OVERFLOWING, Case, cases, change, is_pointwise
from nearness import faults, is_within_rounding_of_ones
from sweep import Sweep
from sweep import outcome as result_or_refusal
from torch.testing._internal.common_device_type import OpDTypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
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


#: A way in which the device is wrong: what is wrong, and where.
Difference = tuple[str, str]


def forward(op: Any, given: Any, device: str) -> Any:
    """Return an operator's results."""
    return seeded(lambda: call(op, given, device))


def backward(op: Any, given: Any, device: str) -> Any:
    """Return the gradients of an operator's results."""
    return seeded(lambda: gradient(op, given))


def outcome(run: Run, op: Any, given: Any, device: str) -> Any:
    """Return what a call results in: trees of tensors, or its exception."""
    results, refusal = result_or_refusal(lambda: run(op, given, device))
    if refusal is not None:
        # A call that is refused at last may have left tasks that fail.
        with contextlib.suppress(torch.AcceleratorError):
            torch.accelerator.synchronize()
        return refusal
    return results


def wide(run: Run, op: Any, given: Any) -> Callable[[float, int], list[Any]]:
    """Return the call in the widest dtype, whole numbers that become fractions too."""

    @functools.cache
    def exact(eps: float, seed: int) -> list[Any]:
        usual = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        with contextlib.suppress(Exception), contextlib.ExitStack() as stack:
            stack.callback(torch.set_default_dtype, usual)
            return pytree.tree_leaves(run(op, precise(given, eps, seed), "cpu"))
        return []

    return exact


def differences(comparison: Comparison, op: Any, case: Case, run: Run) -> Iterator[Difference]:
    """Yield how the device differs from the CPU in a case."""
    mine = on_device(case.given, str(comparison.device))
    expected, actual = outcome(run, op, case.given, "cpu"), outcome(run, op, mine, str(comparison.device))
    if isinstance(expected, Exception) or isinstance(actual, Exception):
        takes_more = isinstance(expected, NotImplementedError) and not isinstance(actual, Exception)
        if not takes_more and not is_same_refusal(actual, expected):
            yield "error", f"{described(actual)} beside the CPU's {described(expected)}"
        return
    exact = wide(run, op, case.given)
    one, other = pytree.tree_leaves(actual), pytree.tree_leaves(expected)
    if len(one) != len(other):
        yield "number of results", f"{len(one)} beside the CPU's {len(other)}"
        return
    for place, (result, host) in enumerate(zip(one, other, strict=True)):
        # Gradients go to the elements that are named.
        if op.name in UNSTABLE_INDICES and (run is backward or place == len(one) - 1):
            continue
        if not isinstance(host, torch.Tensor):
            if result != host and not (result != result and host != host) and not is_by_chance(op, case, run):
                yield f"result {place}", f"{result} beside the CPU's {host}"
            continue
        try:
            comparison.tensors(result, host, strides=run is forward)
            comparison.same(result.shape, host.shape, "shape")
        except AssertionError as error:
            yield f"result {place}", str(error)
            continue
        if host.layout is torch.strided and not host.is_quantized:

            def nth(eps: float, seed: int, place: int = place) -> Any:
                results = exact(eps, seed)
                return results[place] if place < len(results) else None

            yield from of_values(case, place, result.detach().cpu(), host.detach(), nth, op, run)


def is_unstable(op: Any) -> bool:
    """Return whether an operator solves or decomposes: of such matrices its results have few digits, or none."""
    return op.name.startswith("linalg.") or op.formatted_name in SOLVING


def is_same_refusal(actual: Any, expected: Any) -> bool:
    """Return whether the device refuses what the CPU does: with the same error, or with that of a later task for a wrong place."""
    if not isinstance(expected, Exception) or not isinstance(actual, Exception):
        return False
    return isinstance(actual, type(expected)) or (isinstance(actual, torch.AcceleratorError) and isinstance(expected, IndexError))


def described(value: Any) -> str:
    """Return a short text about a result or an exception."""
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {str(value).splitlines()[0] if str(value) else ''}"[:160]
    leaves = [it for it in pytree.tree_leaves(value) if isinstance(it, torch.Tensor)]
    return "no error, " + ", ".join(f"{it.dtype} {tuple(it.shape)}" for it in leaves[:2])


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
        results = outcome(run, op, given, "cpu")
        leaves = [] if isinstance(results, Exception) else pytree.tree_leaves(results)
        if place < len(leaves) and isinstance(leaves[place], torch.Tensor) and leaves[place].numel() == len(at) * step:
            yield leaves[place].detach()[::step]


def of_values(
    case: Case, place: int, one: torch.Tensor, other: torch.Tensor, exact: Any, op: Any, run: Run
) -> Iterator[Difference]:
    """Yield the difference of two results' values."""
    what = f"result {place}"
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
    if not bool(wrong.any()) or is_by_chance(op, case, run):
        return
    positions = wrong.nonzero()
    told = []
    reference = exact(0.0, 0)
    for place in (positions[0], positions[len(positions) // 2], positions[-1]) if len(positions) > 2 else positions:
        at = tuple(place.tolist())
        inputs = [it[at].item() for it in pytree.tree_leaves(case.given) if isinstance(it, torch.Tensor) and it.shape == one.shape]
        near = reference[at].item() if isinstance(reference, torch.Tensor) and reference.shape == one.shape else None
        told.append(f"at {list(at)} of {inputs}: {one[at].item()}, CPU {other[at].item()}, exact {near}")
    yield what, f"{len(positions)} of {one.numel()} {one.dtype}; " + "; ".join(dict.fromkeys(told))


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
        if first is not None and not isinstance(outcome(forward, op, first.given, "cpu"), Exception):
            yield first
            yield from calls


class TestExtremes(Sweep):
    """Names of tests are those of the kinds in expected.py."""

    @ops(op_db, dtypes=OpDTypes.supported)
    def test_extremes(self, device: str, dtype: torch.dtype, op: Any) -> None:
        self.sweep("extremes", device, op, dtype, cases(op, dtype), forward)

    @ops([op for op in op_db if op.supports_autograd], dtypes=OpDTypes.supported_backward)
    def test_extremes_backward(self, device: str, dtype: torch.dtype, op: Any) -> None:
        self.sweep("extremes_backward", device, op, dtype, cases(op, dtype, requires_grad=True), backward)

    @ops(op_db, dtypes=OpDTypes.none)
    def test_extremes_unlisted(self, device: str, op: Any) -> None:
        calls = itertools.chain.from_iterable(taken(op, it) for it in UNLISTED if it not in op.supported_dtypes("cpu"))
        self.sweep("extremes_unlisted", device, op, None, calls, forward)

    def sweep(self, kind: str, device: str, op: Any, dtype: torch.dtype | None, calls: Iterable[Case], run: Run) -> None:
        """Compare calls; parts of a test are families of values."""
        comparison = Comparison(self, device, op.name)
        for case in calls:
            for what, text in differences(comparison, op, case, run):
                self.faults.setdefault((case.family, f"{what}: {text}"), f"({case.form})")
        self.tell(kind, op.formatted_name, dtype)


instantiate_device_type_tests(TestExtremes, globals())
