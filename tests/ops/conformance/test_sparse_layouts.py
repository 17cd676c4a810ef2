"""Sparse tensors of every layout, dtype and dtype of indices, against the CPU: results and gradients.

The database has samples of sparse layouts for only a few operators; ``sparse_calls.py`` has calls of all that have a kernel.
"""

import contextlib
import itertools
import unittest
from collections.abc import Iterator
from typing import Any

import torch
from against_cpu import Comparison, arguments, call, expecting, few, gradient, on_device, seeded
from sparse_calls import CALLS, DEADLY, DTYPES, KINDS, described, names, outcome_of
from sweep import Sweep, outcome
from torch.testing._internal.common_device_type import OpDTypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import parametrize

LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
#: Results of random numbers.
RANDOM = ("randn_like",)


def samples(op: Any, dtype: torch.dtype, *, requires_grad: bool) -> Iterator[Any]:
    """Yield the database's samples of sparse layouts, as far as it can make them."""
    for layout in filter(op.supports_sparse_layout, LAYOUTS):
        with contextlib.suppress(NotImplementedError, unittest.SkipTest):
            yield from list(op.sample_inputs_sparse(layout, "cpu", dtype, requires_grad=requires_grad))


class TestSparse(Sweep):
    """Names of tests are those of the kinds in expected.py."""

    @parametrize("name", sorted(CALLS))
    def test_sparse(self, device: str, name: str) -> None:
        comparison = Comparison(self, device, name)
        for kind, dtype, expression in itertools.product(KINDS, DTYPES, CALLS[name]):
            if (expression, kind) in DEADLY:
                continue
            for index in (torch.int64, torch.int32) if kind.endswith(("r", "c")) else (torch.int64,):
                for gradients in (False, True) if dtype.is_floating_point or dtype.is_complex else (False,):
                    given, mine = (names(kind, dtype, index, it, gradients=gradients) for it in ("cpu", device))
                    what = f"{expression}, {str(index)[6:]}{', gradients' * gradients}"
                    (expected, refusal), (actual, mistake) = (
                        outcome(lambda it=it, call=expression: outcome_of(call, it)) for it in (given, mine)
                    )
                    part = f"{kind} {str(dtype)[6:]}"
                    if self.refuses_alike(part, refusal, mistake, what):
                        try:
                            comparison.results(actual, expected, strides=False)
                        except AssertionError as difference:
                            self.differs(part, difference, what)
        self.tell("sparse", name)

    @ops([op for op in op_db if next(samples(op, torch.float32, requires_grad=False), None) is not None], dtypes=OpDTypes.supported)
    def test_sparse_samples(self, device: str, dtype: torch.dtype, op: Any) -> None:
        comparison = Comparison(self, device, op.name)
        with expecting("sparse_samples", op.formatted_name, dtype):
            gradients = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
            for sample in few(samples(op, dtype, requires_grad=gradients)):
                given = arguments(sample)
                mine = on_device(given, device)
                results = self.on_both(
                    lambda given=given: described(seeded(lambda: call(op, given))),
                    lambda mine=mine: described(seeded(lambda: call(op, mine, device))),
                )
                if results is None:
                    continue
                values = op.name not in RANDOM
                comparison.results(results[1], results[0], values=values, strides=False)
                if gradients and values:
                    results = self.on_both(
                        lambda given=given: described(gradient(op, given)), lambda mine=mine: described(gradient(op, mine))
                    )
                    if results is not None:
                        comparison.results(results[1], results[0], strides=False)


instantiate_device_type_tests(TestSparse, globals())
