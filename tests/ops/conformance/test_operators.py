"""Every operator of PyTorch's database on its own samples, against the CPU."""

import copy
from typing import Any

import torch
from against_cpu import AgainstCpu, Comparison, arguments, call, expecting, few, gradient, is_random, on_device, precise, seeded
from torch.autograd import forward_ad
from torch.testing._internal.common_device_type import OpDTypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

every_dtype = ops(op_db, dtypes=OpDTypes.supported)
gradients = ops([op for op in op_db if op.supports_autograd], allowed_dtypes=(torch.float32, torch.complex64))


def targets(result: Any, device: str) -> list[Any]:
    """Return what a result may be written to: tensors like it, and empty ones. What is not written stays 0 on both devices."""
    like = pytree.tree_map_only(torch.Tensor, lambda value: torch.zeros_like(value, device=device), result)
    like = tuple(like) if isinstance(like, tuple | list) else like
    if any(isinstance(it, torch.Tensor) and it.layout is not torch.strided for it in pytree.tree_leaves(like)):
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

    @every_dtype
    def test_forward(self, device: str, dtype: torch.dtype, op: Any) -> None:
        self.check_forward("forward", device, dtype, op, lambda sample: sample)

    @every_dtype
    def test_noncontiguous(self, device: str, dtype: torch.dtype, op: Any) -> None:
        self.check_forward("noncontiguous", device, dtype, op, lambda sample: sample.noncontiguous())

    def check_forward(self, kind: str, device: str, dtype: torch.dtype, op: Any, change: Any) -> None:
        def run(given: Any, on: str) -> Any:
            return seeded(lambda: call(op, given, on))

        comparison = Comparison(self, device, op.name)
        with expecting(kind, op.formatted_name, dtype):
            for sample in map(change, few(op.sample_inputs("cpu", dtype))):
                self.hold(comparison, arguments(sample), run, values=lambda sample=sample: not is_random(op, sample), aliases=True)

    def check_samples(
        self, kind: str, device: str, dtype: torch.dtype, op: Any, run: Any, *, differentiates: bool = False, in_place: bool = False
    ) -> None:
        """Hold what ``run`` makes of the samples whose results are not random."""
        comparison = Comparison(self, device, op.name)
        with expecting(kind, op.formatted_name, dtype):
            for sample in few(op.sample_inputs("cpu", dtype, requires_grad=differentiates)):
                if not is_random(op, sample) and not (in_place and sample.broadcasts_input):
                    given = copy.deepcopy(arguments(sample)) if in_place else arguments(sample)
                    # Some samples are views that were made without autograd, which the CPU gives no gradient.
                    given = on_device(given, "cpu") if kind == "backward" else given
                    self.hold(comparison, given, run, strides=not differentiates)

    @ops([op for op in op_db if op.supports_out], dtypes=OpDTypes.any_one)
    def test_out(self, device: str, dtype: torch.dtype, op: Any) -> None:
        comparison = Comparison(self, device, op.name)
        with expecting("out", op.formatted_name, dtype):
            for sample in few(op.sample_inputs("cpu", dtype)):
                if is_random(op, sample):
                    continue
                given = arguments(sample)
                mine = on_device(given, device)
                wide, result = precise(given), call(op, given)
                for host, target in zip(targets(result, "cpu"), targets(result, device), strict=True):
                    results = self.on_both(
                        lambda given=given, host=host: call(op, given, out=host),
                        lambda mine=mine, target=target: call(op, mine, out=target),
                    )
                    for actual, expected in [(results[1], results[0]), (target, host)] if results is not None else []:
                        comparison.results(actual, expected, exact=lambda change, wide=wide: call(op, change(wide)))

    @ops([op for op in op_db if op.get_inplace() is not None], dtypes=OpDTypes.any_common_cpu_cuda_one)
    def test_inplace(self, device: str, dtype: torch.dtype, op: Any) -> None:
        def run(given: Any, on: str) -> Any:
            result = call(op.get_inplace(), given)
            self.assertIs(result, given[0])
            return result

        self.check_samples("inplace", device, dtype, op, run, in_place=True)

    @ops([op for op in op_db if op.error_inputs_func is not None], dtypes=OpDTypes.none)
    def test_errors(self, device: str, op: Any) -> None:
        with expecting("errors", op.formatted_name):
            for error in op.error_inputs("cpu"):
                given = arguments(error.sample_input)
                mine = on_device(given, device)
                self.on_both(lambda given=given: call(op, given), lambda mine=mine: call(op, mine))

    @gradients
    def test_backward(self, device: str, dtype: torch.dtype, op: Any) -> None:
        self.check_samples("backward", device, dtype, op, lambda given, on: gradient(op, given), differentiates=True)

    @ops([op for op in op_db if op.supports_forward_ad], allowed_dtypes=(torch.float32,))
    def test_forward_ad(self, device: str, dtype: torch.dtype, op: Any) -> None:
        self.check_samples("forward_ad", device, dtype, op, lambda given, on: tangents(op, given), differentiates=True)


instantiate_device_type_tests(TestOperators, globals())
