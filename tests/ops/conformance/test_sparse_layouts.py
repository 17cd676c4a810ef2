"""Sparse tensors of every layout, dtype and dtype of indices, against the CPU: results and gradients.

The database has samples of sparse layouts for only a few operators; ``sparse_calls.py`` has calls of all that have a kernel.
"""

import contextlib
import functools
import itertools
import unittest
from collections.abc import Iterator
from typing import Any

import torch
from against_cpu import AgainstCpu, arguments, call, few, gradient, seeded
from rustdev_conformance.database import op_db
from sparse_calls import CALLS, DEADLY, DTYPES, KINDS, described, names, outcome_of
from torch.testing._internal.common_device_type import OpDTypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_utils import parametrize

LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
#: Results of random numbers.
RANDOM = ("randn_like",)


def samples(op: Any, dtype: torch.dtype, *, requires_grad: bool) -> Iterator[Any]:
    """Yield the database's samples of sparse layouts, as far as it can make them."""
    for layout in filter(op.supports_sparse_layout, LAYOUTS):
        with contextlib.suppress(NotImplementedError, unittest.SkipTest):
            yield from list(op.sample_inputs_sparse(layout, "cpu", dtype, requires_grad=requires_grad))


class TestSparse(AgainstCpu):
    """Names of tests are those of the kinds in expected.py."""

    same_exceptions = True

    @parametrize("name", sorted(CALLS))
    def test_sparse(self, device: str, name: str) -> None:
        with self.telling("sparse", name):
            for kind, dtype, expression in itertools.product(KINDS, DTYPES, CALLS[name]):
                if (expression, kind) in DEADLY:
                    continue
                for index in (torch.int64, torch.int32) if kind.endswith(("r", "c")) else (torch.int64,):
                    for gradients in (False, True) if dtype.is_floating_point or dtype.is_complex else (False,):
                        given = functools.partial(names, kind, dtype, index, gradients=gradients)
                        what = f"{expression}, {str(index)[6:]}{', gradients' * gradients}"
                        run = lambda call, on, given=given: outcome_of(call, given(on))  # noqa: E731
                        self.check(f"{kind} {str(dtype)[6:]}", run, expression, what=what, strides=False)

    @ops([op for op in op_db if next(samples(op, torch.float32, requires_grad=False), None) is not None], dtypes=OpDTypes.supported)
    def test_sparse_samples(self, device: str, dtype: torch.dtype, op: Any) -> None:
        with self.telling("sparse_samples", op, dtype):
            differentiates = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex) and op.name not in RANDOM
            runs = [lambda given, on: described(seeded(lambda: call(op, given, on)))]
            runs += [lambda given, on: described(gradient(op, given))] if differentiates else []
            for sample in few(samples(op, dtype, requires_grad=differentiates)):
                for run in runs:
                    self.check("", run, arguments(sample), by_chance=lambda _: op.name in RANDOM, strides=False)


instantiate_device_type_tests(TestSparse, globals())
