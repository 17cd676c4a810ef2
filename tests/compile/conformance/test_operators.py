"""Every operator of PyTorch's database, compiled, on its own samples, against the CPU: ``make conformance-compile``.

One sample of each operator and dtype as a rule, as each takes a second or two; ``CONFORMANCE_SAMPLES`` takes more.
"""

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("CONFORMANCE_SAMPLES", "1")

import torch
from against_cpu import (
    AgainstCpu,
    Comparison,
    arguments,
    call,
    expecting,
    few,
    gradient,
    gradients,
    is_random,
    on_device,
    precise,
    seeded,
)
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)


def compiled(op: Any, given: Any, device: str) -> Any:
    """Return what the operator makes of a sample's arguments when it is compiled, as a function of the tensors among them."""
    leaves, spec = pytree.tree_flatten(given)
    positions = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    on = [torch.device(device)] if not positions and not any(isinstance(leaf, torch.device) for leaf in leaves) else []

    def function(*tensors: torch.Tensor) -> Any:
        filled = list(leaves)
        for place, tensor in zip(positions, tensors, strict=True):
            filled[place] = tensor
        first, rest, named = pytree.tree_unflatten(filled, spec)
        return op(first, *rest, **named)

    run = torch.compile(function)
    if on:
        with on[0]:
            return run()
    return run(*(leaves[place] for place in positions))


class TestCompiledOperators(AgainstCpu):
    """Names of tests are those of the kinds in expected.py."""

    def setUp(self) -> None:
        super().setUp()
        torch._dynamo.reset()

    def refusal_of_device(self, refusal: Exception) -> type[Exception]:
        """Return any exception: the compiler's errors have types of their own."""
        return Exception

    @ops(op_db, allowed_dtypes=DTYPES)
    def test_compiled_forward(self, device: str, dtype: torch.dtype, op: Any) -> None:
        comparison = Comparison(self, device, op.name)
        with expecting("compiled_forward", op.formatted_name, dtype):
            for sample in few(op.sample_inputs("cpu", dtype)):
                given = arguments(sample)
                mine, wide = on_device(given, device), precise(given)
                results = self.on_both(
                    lambda given=given: seeded(lambda: call(op, given)),
                    lambda mine=mine: seeded(lambda: compiled(op, mine, device)),
                )
                if results is not None:
                    comparison.results(
                        results[1],
                        results[0],
                        values=not is_random(op, sample),
                        exact=lambda change, wide=wide: seeded(lambda: call(op, change(wide))),
                    )

    @ops([op for op in op_db if op.supports_autograd], allowed_dtypes=(torch.float32,))
    def test_compiled_backward(self, device: str, dtype: torch.dtype, op: Any) -> None:
        comparison = Comparison(self, device, op.name)
        with expecting("compiled_backward", op.formatted_name, dtype):
            for sample in few(op.sample_inputs("cpu", dtype, requires_grad=True)):
                if is_random(op, sample):
                    continue
                given = on_device(arguments(sample), "cpu")
                mine, wide = on_device(given, device), precise(given)
                results = self.on_both(
                    lambda given=given: gradient(op, given),
                    lambda mine=mine: gradients(compiled(op, mine, device), mine),
                )
                if results is not None:

                    def exact(change: Callable[[Any], Any], wide: Any = wide) -> list[torch.Tensor]:
                        return gradient(op, change(wide))

                    comparison.results(results[1], results[0], strides=False, exact=exact)


instantiate_device_type_tests(TestCompiledOperators, globals())
