"""The sweep of layouts: every operator of PyTorch's database over expanded, overlapping, permuted, misaligned and empty tensors.

Inputs and ``out=`` have each layout; in-place forms are in test_sweep_overloads.py. Values, strides and exceptions must be those of
the CPU, and the memory around a result must be unchanged.
"""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from against_cpu import SAMPLES, AgainstCpu, arguments, call, is_plain, is_random, outcome, tensors
from layouts import LAYOUTS, chance, relaid, with_targets, without_a_dimension
from rustdev_conformance.compare import gradients
from rustdev_conformance.database import op_db
from torch.testing._internal.common_device_type import OpDTypes, instantiate_device_type_tests, ops

#: Looks at so many samples of each operator.
MOST = min(SAMPLES or 12, 12)
one_dtype = OpDTypes.any_one
#: Operators of which the CPU's kernel ends the process when a dimension has size 0.
DEADLY = {"_native_batch_norm_legit", "_segment_reduce", "native_batch_norm", "nn.functional.pdist"}
DEADLY |= {"torch.ops.aten._scaled_dot_product_flash_attention_for_cpu"}
#: Operators of which the CPU's kernel writes behind the memory of results whose elements share it, and ends the process.
WRITES_BEHIND = {"linalg.lu", "lu_unpack", "narrow_copy", "nn.functional.avg_pool3d", "torch._scaled_mm", "tril", "triu"}


def with_gradients(op: Any, given: Any, device: str) -> Any:
    """Return the results of an operator, and the gradients of all that takes one."""
    results = call(op, given, device)
    return results, gradients(results, given)


def samples(op: Any, dtype: torch.dtype, **options: Any) -> Iterator[tuple[Any, Callable[[], bool]]]:
    """Yield samples of an operator, and whether their results are random."""
    for sample in itertools.islice(op.sample_inputs("cpu", dtype, **options), MOST):
        yield sample, functools.cache(functools.partial(is_random, op, sample))


class TestLayouts(AgainstCpu):
    """Names of tests are those of the kinds in expected.py."""

    same_exceptions = True

    @ops(op_db, dtypes=one_dtype)
    def test_layout(self, device: str, dtype: torch.dtype, op: Any) -> None:
        with self.telling("layout", op, dtype):
            for sample, random in samples(op, dtype):
                for what, layout in LAYOUTS.items():
                    given = relaid(arguments(sample), layout)
                    if given is not None:
                        self.check(what, lambda it, on: call(op, it, on), given, by_chance=lambda _, it=random: it(), memory=True)

    def targets(self, op: Any, dtype: torch.dtype) -> Iterator[tuple[Any, Any, str, Any]]:
        """Yield results that are not refused, whether they are random, and arguments beside tensors to write them to."""
        for sample, random in samples(op, dtype):
            given = arguments(sample)
            result, refusal = outcome(lambda given=given: call(op, given))
            if refusal is None and all(map(is_plain, tensors(result))):
                for what, pair in with_targets(given, result):
                    yield random, result, what, pair

    @ops([op for op in op_db if op.supports_out and op.name not in WRITES_BEHIND], dtypes=one_dtype)
    def test_layout_out(self, device: str, dtype: torch.dtype, op: Any) -> None:
        with self.telling("layout_out", op, dtype):
            for random, result, what, pair in self.targets(op, dtype):
                by_chance = chance(random, what, lambda _, result=result: result, pair)
                self.check(f"out {what}", lambda it, on: call(op, it[0], out=it[1]), pair, by_chance=by_chance, memory=True)

    @ops([op for op in op_db if op.name not in DEADLY], dtypes=one_dtype)
    def test_empty(self, device: str, dtype: torch.dtype, op: Any) -> None:
        takes_gradient = op.supports_autograd and dtype.is_floating_point
        with self.telling("empty", op, dtype):
            for sample, random in samples(op, dtype, requires_grad=takes_gradient):
                for what, given in without_a_dimension(arguments(sample)):
                    run = functools.partial(with_gradients, op)
                    self.check(what, run, given, by_chance=lambda _, it=random: it(), memory=True)


instantiate_device_type_tests(TestLayouts, globals())
