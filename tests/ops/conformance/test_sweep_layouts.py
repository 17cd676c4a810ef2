"""The sweep of layouts: every operator of PyTorch's database over expanded, overlapping, permuted, misaligned and empty tensors.

Inputs, ``out=`` and the tensors of in-place forms have each layout. The values, strides and exceptions must be those of the CPU,
and the memory around a result must be unchanged.
"""

import copy
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from against_cpu import SAMPLES, Comparison, arguments, call, gradients, is_random, on_device
from layouts import LAYOUTS, SHARING, is_plain, relaid, separate, tensors, with_input, with_targets, without_a_dimension
from sweep import Sweep, describe, outcome
from torch.testing._internal.common_device_type import OpDTypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db

#: Looks at so many samples of each operator.
MOST = min(SAMPLES or 12, 12)
one_dtype = OpDTypes.any_one
#: Operators of which the CPU's kernel ends the process when a dimension has size 0.
DEADLY = {"_native_batch_norm_legit", "_segment_reduce", "native_batch_norm", "nn.functional.pdist"}
DEADLY |= {"torch.ops.aten._scaled_dot_product_flash_attention_for_cpu"}
#: Operators of which the CPU's kernel writes behind the memory of results whose elements share it, and ends the process.
WRITES_BEHIND = {"linalg.lu", "lu_unpack", "narrow_copy", "nn.functional.avg_pool3d", "torch._scaled_mm", "tril", "triu"}
#: Those layouts. The device refuses them, but for operators with a kernel of its own, which follows strides that are not 0.
IN_COMMON, FOLLOWS = {"expanded", "overlapping"}, {"tril", "triu"}


def with_gradients(op: Any, given: Any, device: str) -> Any:
    """Return the results of an operator, and the gradients of all that takes one."""
    results = call(op, given, device)
    return results, gradients(results, given)


class TestLayouts(Sweep):
    """Names of tests are those of the kinds in expected.py."""

    @ops(op_db, dtypes=one_dtype)
    def test_layout(self, device: str, dtype: torch.dtype, op: Any) -> None:
        comparison = Comparison(self, device, op.name)
        for sample in itertools.islice(op.sample_inputs("cpu", dtype), MOST):
            values = not is_random(op, sample)
            for what, layout in LAYOUTS.items():
                given = relaid(arguments(sample), layout)
                if given is not None:
                    self.check(comparison, what, lambda given, device: call(op, given, device), given, values=values)
        self.tell("layout", op.formatted_name, dtype)

    def targets(self, op: Any, dtype: torch.dtype) -> Iterator[tuple[Any, Any, str, Any]]:
        """Yield samples that the CPU takes with their results, and arguments beside tensors to write these to."""
        for sample in itertools.islice(op.sample_inputs("cpu", dtype), MOST):
            given = arguments(sample)
            result, refusal = outcome(lambda given=given: call(op, given))
            if refusal is None and all(is_plain(it) for it in tensors(result)):
                for what, pair in with_targets(given, result):
                    yield sample, result, what, pair

    @ops([op for op in op_db if op.supports_out and op.name not in WRITES_BEHIND], dtypes=one_dtype)
    def test_layout_out(self, device: str, dtype: torch.dtype, op: Any) -> None:
        comparison, is_by_chance = Comparison(self, device, op.name), functools.cache(functools.partial(is_random, op))
        for sample, result, what, pair in self.targets(op, dtype):
            self.check(
                comparison,
                f"out {what}",
                lambda pair, device: call(op, pair[0], out=pair[1]),
                pair,
                values=not is_by_chance(sample),
                plain=(lambda result=result: result) if what in SHARING else None,
            )
        self.tell("layout_out", op.formatted_name, dtype)

    @ops([op for op in op_db if op.name in WRITES_BEHIND - FOLLOWS], dtypes=one_dtype)
    def test_layout_out_refused(self, device: str, dtype: torch.dtype, op: Any) -> None:
        for _, _, what, pair in self.targets(op, dtype):
            if what in IN_COMMON and all(target.numel() > 1 for target in tensors(pair[1])):
                given, targets = on_device(pair, self.device_type)
                _, mistake = outcome(lambda given=given, targets=targets: call(op, given, device, out=targets))
                self.assertIsInstance(mistake, RuntimeError, f"{what}: {describe(pair)}")

    @ops([op for op in op_db if op.get_inplace() is not None], dtypes=OpDTypes.any_common_cpu_cuda_one)
    def test_layout_inplace(self, device: str, dtype: torch.dtype, op: Any) -> None:
        comparison, inplace = Comparison(self, device, op.name), op.get_inplace()
        for sample in itertools.islice(op.sample_inputs("cpu", dtype), MOST):
            if sample.broadcasts_input:
                continue
            values = not is_random(op, sample)
            for what, given in with_input(arguments(sample)):
                apart = copy.deepcopy(given)
                self.check(
                    comparison,
                    f"in place {what}",
                    lambda given, device: call(inplace, given),
                    given,
                    values=values,
                    plain=(lambda apart=apart: call(inplace, separate(apart))) if what in SHARING else None,
                )
        self.tell("layout_inplace", op.formatted_name, dtype)

    @ops([op for op in op_db if op.name not in DEADLY], dtypes=one_dtype)
    def test_empty(self, device: str, dtype: torch.dtype, op: Any) -> None:
        comparison = Comparison(self, device, op.name)
        takes_gradient = op.supports_autograd and dtype.is_floating_point
        for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=takes_gradient), MOST):
            values = not is_random(op, sample)
            for what, given in without_a_dimension(arguments(sample)):
                self.check(comparison, what, lambda given, device: with_gradients(op, given, device), given, values=values)
        self.tell("empty", op.formatted_name, dtype)


instantiate_device_type_tests(TestLayouts, globals())
