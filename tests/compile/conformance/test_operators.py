"""Every operator of PyTorch's database, compiled, on its own samples, against the CPU: ``make conformance-compile``.

One sample of each operator and dtype as a rule, as each takes a second or two; ``CONFORMANCE_SAMPLES`` takes more.
"""

import os
from typing import Any

os.environ.setdefault("CONFORMANCE_SAMPLES", "1")

import torch
from against_cpu import AgainstCpu, arguments, call, copied, few, is_random, seeded
from rustdev_conformance.compare import gradients
from rustdev_conformance.database import op_db
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
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

    def is_same_refusal(self, refusal: Exception | None, mistake: Exception | None) -> bool:
        """Return whether both refuse: the compiler's errors have types of their own."""
        return refusal is not None and mistake is not None

    @ops(op_db, allowed_dtypes=DTYPES)
    def test_compiled_forward(self, device: str, dtype: torch.dtype, op: Any) -> None:
        def run(given: Any, on: str) -> Any:
            return seeded(lambda: call(op, given) if on == "cpu" else compiled(op, given, on))

        with self.telling("compiled_forward", op, dtype):
            for sample in few(op.sample_inputs("cpu", dtype)):
                self.check("", run, arguments(sample), by_chance=lambda _, it=sample: is_random(op, it))

    @ops([op for op in op_db if op.supports_autograd], allowed_dtypes=(torch.float32,))
    def test_compiled_backward(self, device: str, dtype: torch.dtype, op: Any) -> None:
        def run(given: Any, on: str) -> Any:
            return gradients(call(op, given) if on == "cpu" else compiled(op, given, on), given)

        with self.telling("compiled_backward", op, dtype):
            for sample in few(op.sample_inputs("cpu", dtype, requires_grad=True)):
                if not is_random(op, sample):
                    self.check("", run, copied(arguments(sample), "cpu"), strides=False)


instantiate_device_type_tests(TestCompiledOperators, globals())
