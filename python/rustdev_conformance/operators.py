"""Checks of every operator of PyTorch's operator database: results, gradients, layouts, extreme values and refused arguments."""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_device_type import onlyCPU, onlyCUDA, toleranceOverride
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, DecorateInfo, ReductionOpInfo, UnaryUfuncInfo
from torch.utils import _pytree as pytree

from rustdev_conformance.agreement import agree
from rustdev_conformance.checks import NO_SUCH_DTYPE, Check, Device, Skipped, add
from rustdev_conformance.compare import (
    UNDEFINED,
    UNSTABLE_INDICES,
    arguments,
    call,
    copied,
    describe,
    gradient,
    outcome,
    precise,
    tensors,
)
from rustdev_conformance.database import op_db
from rustdev_conformance.layouts import LAYOUTS, relaid

#: The operators of the level smoke.
SMOKE = {
    "abs", "add", "addmm", "amax", "arange", "argmax", "bmm", "cat", "clamp", "clone", "copysign", "cumsum", "div", "eq",
    "exp", "expand", "full", "gather", "index_select", "linspace", "log", "log_softmax", "masked_fill", "matmul", "mean", "mm",
    "mul", "neg", "nn.functional.conv2d", "nn.functional.cross_entropy", "nn.functional.dropout", "nn.functional.embedding",
    "nn.functional.gelu", "nn.functional.layer_norm", "nn.functional.linear", "nn.functional.relu",
    "nn.functional.scaled_dot_product_attention", "permute", "pow", "reshape", "rsqrt", "scatter", "sigmoid", "softmax",
    "sort", "sqrt", "stack", "sub", "sum", "tanh", "transpose", "tril", "where", "zeros",
}  # fmt: skip
#: Operators that take an index on the CPU on every device.
HOST_INDICES = {"tensor_split"}
#: Layouts of arguments, beside the gaps of the database's own.
LAID = ("expanded", "transposed", "channels_last", "misaligned")
#: Operators of which PyTorch chooses by the device's name what narrow dtypes are accumulated in.
CHOOSING = {"nn.functional.linear_cross_entropy"}
#: Operators without expanded arguments: they write to them, name one of equal elements, or take sizes from them.
NOT_EXPANDED = {"_batch_norm_with_update", "_native_batch_norm_legit", "native_batch_norm", "nn.functional.batch_norm"}
NOT_EXPANDED |= {"nn.functional.embedding", "nn.functional.embedding_bag", "median", "nanmedian", "repeat_interleave"}
#: Numbers that arguments are filled with.
EXTREMES = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, float("inf"), float("-inf"), float("nan"))
#: Operators of which the CPU's result for an infinity is NaN, although the limit is not.
WRONG_LIMITS = {"i0", "special.i1"}
#: Sizes without elements, and without dimensions.
SIZES = ((0,), (0, 3), (3, 0), ())


def tolerance_of(op: Any, dtype: torch.dtype) -> tuple[float, float]:
    """Return the database's relative and absolute tolerance of an operator beside another device."""
    found = [(0.0, 0.0)]
    for entry in op.decorators:
        is_about_others = isinstance(entry, DecorateInfo) and entry.test_name not in (None, "test_compare_cpu")
        inner = entry.decorators if isinstance(entry, DecorateInfo) else [entry]
        overrides = [it.d[dtype] for it in inner if isinstance(it, toleranceOverride) and dtype in it.d]
        found += [] if is_about_others else [(it.rtol, it.atol) for it in overrides]
    return max(rtol for rtol, _ in found), max(atol for _, atol in found)


def samples(op: Any, device: Device, dtype: torch.dtype, **options: Any) -> Iterator[Any]:
    """Yield the samples of an operator, of the CPU, that the level looks at."""
    if any(it is onlyCUDA for it in op.decorators):
        raise Skipped("the database has it for CUDA alone")
    try:
        yield from itertools.islice(op.sample_inputs("cpu", dtype, **options), device.samples)
    except Exception as error:
        raise Skipped(f"the database cannot make samples: {str(error)[:200]}") from error


def is_random(run: Callable[[], Any]) -> tuple[Any, Exception | None, bool]:
    """Return a call's result or exception, and whether it draws random numbers."""
    before = torch.default_generator.manual_seed(0).get_state()
    result, refusal = outcome(run, lambda: None)
    return result, refusal, not torch.equal(before, torch.default_generator.get_state())


class Comparison:
    """Compares calls of an operator, and counts.

    Args:
        op: The operator's entry.
        device: The device.
        dtype: The dtype of its arguments.
        run: What is called with the arguments and a device's name.
    """

    def __init__(self, op: Any, device: Device, dtype: torch.dtype, run: Callable[[Any, str], Any]) -> None:
        self.op, self.device, self.dtype, self.run = op, device, dtype, run
        self.tolerance = tolerance_of(op, dtype)
        self.has_values = op.name not in UNDEFINED and not (op.name in CHOOSING and dtype.itemsize < 4)
        self.compared = self.refused = self.other_strides = 0
        self.random = False

    # The database's own operators would set the seed and put it back, so that nobody could tell that they are random.
    @mock.patch.object(common_methods_invocations, "wrapper_set_seed", lambda call, *args, **kwargs: call(*args, **kwargs))
    def hold(self, given: Any, what: str, *, strides: bool = True) -> None:
        """Compare one call. What the CPU refuses is not compared."""
        if any(isinstance(leaf, torch.Generator) for leaf in pytree.tree_leaves(given)):
            return
        mine, wide, told = self._copied(given), precise(given), describe(given)
        expected, refusal, random = is_random(lambda: self.run(given, "cpu"))
        if refusal is not None:
            self.refused += 1
            return
        try:
            found = self.run(mine, self.device.name)
            self.device.synchronize()
        except NotImplementedError:
            raise
        except Exception as mistake:
            raise AssertionError(f"{type(mistake).__name__} for {what} {told}: {str(mistake)[:300]}") from mistake
        self.random |= random

        @functools.cache
        def exact(eps: float, seed: int) -> list[Any]:
            usual = torch.get_default_dtype()
            torch.set_default_dtype(torch.float64)
            try:
                result, _ = outcome(lambda: self.run(precise(wide, eps, seed), "cpu"), lambda: None)
            finally:
                torch.set_default_dtype(usual)
            return pytree.tree_leaves(result)

        try:
            same = agree(
                found, expected, self.device.name, exact, tolerance=self.tolerance,
                has_values=self.has_values and not random, is_unstable=self.op.name in UNSTABLE_INDICES,
            )  # fmt: skip
        except NotImplementedError:
            raise
        except Exception as difference:
            raise AssertionError(f"{' '.join(str(difference).split())[:400]}, for {what} {told}") from difference
        self.compared += 1
        self.other_strides += strides and not same

    def _copied(self, given: Any) -> Any:
        try:
            mine = copied(given, self.device.name)
        except (RuntimeError, TypeError) as refusal:
            if not NO_SUCH_DTYPE.search(str(refusal)):
                raise
            raise NotImplementedError(f"arguments cannot be copied to the device: {str(refusal)[:300]}") from refusal
        return (mine[0], given[1], mine[2]) if self.op.name in HOST_INDICES else mine

    def note(self) -> str:
        """Return what was compared; Skipped if nothing was."""
        if not self.compared:
            raise Skipped("the CPU refuses the arguments" if self.refused else "the database has no samples")
        noted = f"{self.compared} calls"
        noted += ", random: values not compared" if self.random else ""
        return noted + (f", strides unlike the CPU's in {self.other_strides}" if self.other_strides else "")


def forward(op: Any, dtype: torch.dtype, device: Device) -> str:
    """Compare results."""
    comparison = Comparison(op, device, dtype, lambda given, on: call(op, given, on))
    for number, sample in enumerate(samples(op, device, dtype)):
        comparison.hold(arguments(sample), f"sample {number}")
    return comparison.note()


def backward(op: Any, dtype: torch.dtype, device: Device) -> str:
    """Compare gradients."""
    comparison = Comparison(op, device, dtype, lambda given, on: gradient(op, given))
    for number, sample in enumerate(samples(op, device, dtype, requires_grad=True)):
        comparison.hold(copied(arguments(sample), "cpu"), f"sample {number}", strides=False)
    return comparison.note()


def layouts(op: Any, dtype: torch.dtype, device: Device) -> str:
    """Compare results for arguments with gaps, expanded, transposed, with channels last, and one element into their memory."""
    comparison = Comparison(op, device, dtype, lambda given, on: call(op, given, on))
    for number, sample in enumerate(samples(op, device, dtype)):
        if all(it.layout is torch.strided for it in tensors(arguments(sample))):
            comparison.hold(arguments(sample.noncontiguous()), f"sample {number} with gaps")
        for layout in LAID:
            given = relaid(arguments(sample), LAYOUTS[layout])
            if given is not None and not (layout == "expanded" and op.name in NOT_EXPANDED):
                comparison.hold(given, f"sample {number} {layout}", strides=False)
    return comparison.note()


def extremes(op: Any, dtype: torch.dtype, device: Device) -> str:
    """Compare results for zeros, infinities and NaN, and for tensors without elements and without dimensions."""
    comparison = Comparison(op, device, dtype, lambda given, on: call(op, given, on))
    sample = next(samples(op, device, dtype), None)
    if sample is None:
        raise Skipped("the database has no samples")
    values = torch.tensor(EXTREMES, dtype=torch.float64).to(dtype)
    one, other = (it.flatten() for it in torch.meshgrid(values, values, indexing="ij"))
    is_binary = isinstance(op, BinaryUfuncInfo)
    if not isinstance(op, ReductionOpInfo) and op.name not in WRONG_LIMITS:
        comparison.hold((one, (other,), {}) if is_binary else (values, sample.args, sample.kwargs), "extreme values")
    for size in SIZES:
        filled = torch.full(size, 0.5, dtype=torch.float64).to(dtype)
        if is_binary or isinstance(op, ReductionOpInfo):
            given: Any = filled, (filled.clone(),) if is_binary else (), {}
        else:
            given = filled, sample.args, sample.kwargs
        comparison.hold(given, f"size {list(size)}")
    return comparison.note()


def errors(op: Any, device: Device) -> str:
    """Call with arguments that the CPU refuses, which have to be refused by an exception of the same class or a derived one."""
    refused = 0
    others, _ = outcome(lambda: [error.error_type for error in op.error_inputs(device.name)], device.synchronize)
    for error in op.error_inputs("cpu"):
        given: Any = arguments(error.sample_input)
        if any(not it.is_cpu for it in tensors(given)):
            continue
        mine, told = copied(given, device.name), describe(given)
        _, refusal = outcome(lambda given=given: call(op, given), lambda: None)  # type: ignore[misc]
        if refusal is None:
            continue
        _, mistake = outcome(lambda mine=mine: call(op, mine, device.name), device.synchronize)  # type: ignore[misc]
        wanted = (error.error_type, type(refusal), *(others or ()))
        assert mistake is not None, f"nothing is raised where the CPU raises {refusal!r:.200}, for {told}"
        assert isinstance(mistake, wanted), f"{mistake!r:.200} is raised where the CPU raises {refusal!r:.200}, for {told}"
        refused += 1
    if not refused:
        raise Skipped("the database has no such arguments for the CPU")
    return f"{refused} calls"


def level_of(op: Any, dtype: torch.dtype | None, *, smoke: bool) -> str:
    """Return the first level that has a check of an operator."""
    if smoke and dtype is torch.float32 and op.name in SMOKE and not op.variant_test_name:
        return "smoke"
    return "core" if dtype in (None, torch.float32) else "full"


def every() -> Iterator[Check]:
    """Yield the checks of all operators."""
    for op in op_db:
        if onlyCPU in op.decorators:
            continue
        for dtype in sorted(op.supported_dtypes("cpu"), key=str):
            what, run = f"{op.full_name}/{str(dtype)[6:]}", functools.partial
            is_number = dtype.is_floating_point or dtype.is_complex
            level = level_of(op, dtype, smoke=True)
            yield Check(f"ops/{what}", run(forward, op, dtype), "core" if dtype is torch.int64 else level)
            if op.supports_autograd and dtype in op.supported_backward_dtypes("cpu"):
                yield Check(f"grad/{what}", run(backward, op, dtype), level)
            if op.name not in UNDEFINED:
                yield Check(f"layouts/{what}", run(layouts, op, dtype), level_of(op, dtype, smoke=False))
            if is_number and isinstance(op, UnaryUfuncInfo | BinaryUfuncInfo | ReductionOpInfo):
                yield Check(f"extremes/{what}", run(extremes, op, dtype), level_of(op, dtype, smoke=False))
        if op.error_inputs_func is not None:
            yield Check(f"errors/{op.full_name}", functools.partial(errors, op), "core")


add(every())
