"""Every operator of PyTorch's database on its own samples, against the CPU."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from against_cpu import AgainstCpu, arguments, call, copied, few, gradient, is_random, seeded, tensors
from rustdev_conformance.database import op_db
from torch.autograd import forward_ad
from torch.testing._internal.common_device_type import OpDTypes, instantiate_device_type_tests, ops
from torch.utils import _pytree as pytree

every_dtype = ops(op_db, dtypes=OpDTypes.supported)
gradients = ops([op for op in op_db if op.supports_autograd], allowed_dtypes=(torch.float32, torch.complex64))


def targets(result: Any) -> list[Any]:
    """Return what a result may be written to: tensors like it, and empty ones. What is not written stays 0 on both devices."""
    like = pytree.tree_map_only(torch.Tensor, torch.zeros_like, result)
    like = tuple(like) if isinstance(like, tuple | list) else like
    if any(it.layout is not torch.strided for it in tensors(like)):
        return [like]
    return [like, pytree.tree_map_only(torch.Tensor, lambda value: value.new_empty(0), like)]


def tangents(op: Any, given: Any) -> list[torch.Tensor]:
    """Return the tangents of the results for tangents of ones."""
    with forward_ad.dual_level():

        def dual(value: torch.Tensor) -> torch.Tensor:
            plain = value.detach()
            return forward_ad.make_dual(plain, torch.ones_like(plain)) if value.requires_grad else value

        results = pytree.tree_leaves(call(op, pytree.tree_map_only(torch.Tensor, dual, given)))
        tangents = [forward_ad.unpack_dual(it).tangent for it in results if isinstance(it, torch.Tensor)]
        return [tangent for tangent in tangents if tangent is not None]


class TestOperators(AgainstCpu):
    """Names of tests are those of the kinds in expected.py."""

    def hold(
        self,
        kind: str,
        dtype: torch.dtype | None,
        op: Any,
        run: Callable[[Any, str], Any],
        change: Callable[[Any], Any] = arguments,
        *,
        random: bool = True,
        **options: Any,
    ) -> None:
        """Compare what ``run`` makes of the changed samples, without those of random results unless ``random`` is set."""
        with self.telling(kind, op, dtype):
            for sample in few(op.sample_inputs("cpu", dtype, requires_grad=kind in ("backward", "forward_ad"))):
                if random or not is_random(op, sample):
                    self.check("", run, change(sample), by_chance=lambda _, it=sample: is_random(op, it), **options)

    @every_dtype
    def test_forward(self, device: str, dtype: torch.dtype, op: Any) -> None:
        self.hold("forward", dtype, op, lambda given, on: seeded(lambda: call(op, given, on)), aliases=True)

    @every_dtype
    def test_noncontiguous(self, device: str, dtype: torch.dtype, op: Any) -> None:
        run = lambda given, on: seeded(lambda: call(op, given, on))  # noqa: E731
        self.hold("noncontiguous", dtype, op, run, lambda sample: arguments(sample.noncontiguous()), aliases=True)

    @ops([op for op in op_db if op.supports_out], dtypes=OpDTypes.any_one)
    def test_out(self, device: str, dtype: torch.dtype, op: Any) -> None:
        with self.telling("out", op, dtype):
            for sample in few(op.sample_inputs("cpu", dtype)):
                given = arguments(sample)
                for target in targets(call(op, given)) if not is_random(op, sample) else []:
                    self.check("", lambda pair, on: (call(op, pair[0], out=pair[1]), pair[1]), (given, target))

    @ops([op for op in op_db if op.get_inplace() is not None], dtypes=OpDTypes.any_common_cpu_cuda_one)
    def test_inplace(self, device: str, dtype: torch.dtype, op: Any) -> None:
        def run(given: Any, on: str) -> Any:
            result = call(op.get_inplace(), given)
            self.assertIs(result, given[0])
            return result

        with self.telling("inplace", op, dtype):
            for sample in few(op.sample_inputs("cpu", dtype)):
                if not is_random(op, sample) and not sample.broadcasts_input:
                    self.check("", run, copy.deepcopy(arguments(sample)))

    @ops([op for op in op_db if op.error_inputs_func is not None], dtypes=OpDTypes.none)
    def test_errors(self, device: str, op: Any) -> None:
        with self.telling("errors", op):
            for error in op.error_inputs("cpu"):
                self.check("", lambda given, on: [call(op, given)][:0], arguments(error.sample_input))

    @gradients
    def test_backward(self, device: str, dtype: torch.dtype, op: Any) -> None:
        # Some samples are views that were made without autograd, which the CPU gives no gradient.
        change = lambda sample: copied(arguments(sample), "cpu")  # noqa: E731
        self.hold("backward", dtype, op, lambda given, on: gradient(op, given), change, random=False, strides=False)

    @ops([op for op in op_db if op.supports_forward_ad], allowed_dtypes=(torch.float32,))
    def test_forward_ad(self, device: str, dtype: torch.dtype, op: Any) -> None:
        self.hold("forward_ad", dtype, op, lambda given, on: tangents(op, given), random=False, strides=False)


instantiate_device_type_tests(TestOperators, globals())
