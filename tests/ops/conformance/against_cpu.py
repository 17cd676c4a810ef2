"""Helpers of the conformance tests: calls of samples on both devices, their comparison, and expected differences.

The tests are run by ``tools/upstream`` (``make conformance``), which puts ``tests/ops`` on the path.
"""

import contextlib
import copy
import functools
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from expected import EXPECTED, SOME_PROCESSORS, TOLERANCE
from rustdev_conformance.compare import (
    UNDEFINED,
    UNSTABLE_INDICES,
    arguments,
    call,
    copied,
    describe,
    faults,
    gradient,
    is_plain,
    outcome,
    precise,
    tensors,
)
from rustdev_conformance.database import op_db
from torch.testing._comparison import get_tolerances
from torch.testing._internal import common_methods_invocations, common_utils
from torch.testing._internal.common_device_type import onlyCPU
from torch.testing._internal.common_utils import TestCase
from torch.utils import _pytree as pytree

#: Looks at this many samples of each operator and dtype; all where it is not set.
SAMPLES = int(os.environ.get("CONFORMANCE_SAMPLES", "0")) or None
#: Random results of a few elements may be the same by chance, but not for so many seeds.
SEEDS = 16
#: Maximum number of differences in the message of a failing test.
TOLD = 12


# Some entries of the database are for the CPU alone, which the device is held against.
for entry in op_db:
    entry.decorators = tuple(decorator for decorator in entry.decorators if decorator is not onlyCPU)


def few(samples: Any) -> Iterator[Any]:
    """Yield the samples that are looked at."""
    for number, sample in enumerate(samples):
        if SAMPLES is not None and number >= SAMPLES:
            return
        yield sample


def seeded(call: Callable[[], Any], seed: int = 0) -> Any:
    """Call with all generators at a seed."""
    torch.manual_seed(seed)
    return call()


def seed_both(seed: int) -> torch.Generator:
    """Do what ``torch.manual_seed`` does for the CPU and the device.

    That one notes its caller's stack for every other kind of accelerator that PyTorch was built for: longer than most calls.
    """
    torch.rustdev.manual_seed_all(seed)
    return torch.default_generator.manual_seed(seed)


def is_random(op: Any, sample: Any, *, gradients: bool = False) -> bool:
    """Return whether the values of an operator's results, or of their gradients, depend on the generator, or on nothing at all."""
    if op.name in UNDEFINED:
        return True
    has_generator = any(isinstance(leaf, torch.Generator) for leaf in pytree.tree_leaves(arguments(sample)))

    def copied(value: torch.Tensor) -> torch.Tensor:
        # With the memory around a view's elements, which as_strided may reach for; sparse tensors have no memory of their own.
        plain = copy.deepcopy(value.detach()) if value.layout is torch.strided else value.detach().clone()
        return plain.requires_grad_(gradients and value.requires_grad)

    def run(seed: int) -> Any:
        given = pytree.tree_map_only(torch.Tensor, copied, arguments(sample))
        return seeded(lambda: gradient(op, given) if gradients else call(op, given), seed)

    # The database's own operators set the seed anew each time.
    with mock.patch.object(common_methods_invocations, "wrapper_set_seed", lambda call, *args, **kwargs: call(*args, **kwargs)):
        results = [pytree.tree_leaves(run(0))]
        if not has_generator and torch.equal(torch.get_rng_state(), seed_both(0).get_state()):
            return False
        results += [pytree.tree_leaves(run(seed)) for seed in range(1, SEEDS)]
    pairs = [pair for others in results[1:] for pair in zip(results[0], others, strict=True)]
    return any(isinstance(one, torch.Tensor) and not _same(one, other) for one, other in pairs)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape:
        return False
    if one.layout is not torch.strided or one.is_quantized:
        return True
    return (
        bool(torch.allclose(one.double(), other.double(), rtol=0, atol=0, equal_nan=True))
        if not one.is_complex()
        else _same(
            torch.view_as_real(one.resolve_conj().to(torch.complex128)),
            torch.view_as_real(other.resolve_conj().to(torch.complex128)),
        )
    )


def whole(value: torch.Tensor) -> torch.Tensor:
    """Return all of the memory that a tensor is a part of."""
    memory = value.untyped_storage().nbytes() // value.element_size()
    return value.detach().as_strided((memory,), (1,), 0)


Values = Callable[[int, torch.Tensor, torch.Tensor, Callable[[float, int], Any]], None]


class AgainstCpu(TestCase):
    """A test of the device against the CPU: it gathers what differs, and fails with all of it that is not expected."""

    #: Whether exceptions must be of the same class; else the device's may be of a class that is derived from the CPU's.
    same_exceptions = False

    def setUp(self) -> None:
        super().setUp()
        #: How a part of the test differs first, and for what.
        self.found: dict[str, tuple[str, str]] = {}
        self.name = ""
        warnings.simplefilter("ignore")
        # PyTorch chooses by the device's name what chunks are accumulated in: here as for the CPU.
        options = torch.nn.LinearCrossEntropyOptions
        adjust = functools.partial(options._adjust, device=torch.device("cpu"))
        # PyTorch looks for the test's function through all frames' sources, for every list of samples.
        test = getattr(self, self._testMethodName).__func__
        for patch in (
            mock.patch.object(options, "_adjust", lambda *args, device=None, **named: adjust(*args, **named)),
            mock.patch.object(common_utils, "extract_test_fn", return_value=test),
            mock.patch.object(torch, "manual_seed", seed_both),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    @contextlib.contextmanager
    def telling(self, kind: str, op: Any, dtype: torch.dtype | None = None) -> Iterator[None]:
        """Run what is inside, and fail with all that was found and not expected, or that is expected on every processor and gone.

        Kinds in expected.py are followed by the part of a difference.
        """
        self.name, name = getattr(op, "name", op), getattr(op, "formatted_name", op)
        entries = {
            entry[0].removeprefix(kind).removeprefix(": "): entry
            for entry in EXPECTED
            if entry[0].partition(": ")[0] == kind and entry[1] == name and entry[2] in (None, dtype)
        }
        try:
            yield
        except Exception as error:
            if "" not in entries:
                raise
            self.found[""] = str(error), "the samples"
        told = [f"[{it}] {text}, for {what}" for it, (text, what) in self.found.items() if not {it, ""} & entries.keys()]
        lasting = [part for part, entry in entries.items() if entry not in SOME_PROCESSORS]
        told += [
            f"[{part}] holds now: take it out of expected.py"
            for part in lasting
            if part not in self.found and (part or not self.found)
        ]
        if told:
            self.fail("\n".join(told[:TOLD]))
        if entries and self.found:
            pytest.xfail(EXPECTED[next(iter(entries.values()))])

    def is_same_refusal(self, refusal: Exception | None, mistake: Exception | None) -> bool:
        """Return whether the device refuses what the CPU does, as it does."""
        return type(mistake) is type(refusal) or (not self.same_exceptions and isinstance(mistake, type(refusal)))

    def check(
        self,
        part: str,
        run: Callable[[Any, str], Any],
        given: Any,
        *,
        what: str = "",
        by_chance: Callable[[Any], bool] = lambda result: False,
        strides: bool = True,
        aliases: bool = False,
        memory: bool = False,
        values: Values | None = None,
    ) -> None:
        """Compare what ``run`` makes of arguments on a device with what it makes of them on the CPU.

        Args:
            part: of the test, as in expected.py.
            run: what is called, with the arguments and the name of a device.
            given: the arguments, of the CPU.
            what: about the arguments, instead of their sizes and strides.
            by_chance: whether the CPU's values, given its result, are not the only right ones. It is asked where values differ.
            strides: whether those of results count.
            aliases: whether it counts which results are views of which arguments.
            memory: whether all of the memory of the arguments counts, as the call leaves it.
            values: raises an error if values differ, instead of the method of that name; called with the result's number.
        """
        device = self.device_type
        mine, wide, what = copied(given, device), precise(given), what or describe(given)
        (expected, refusal), (actual, mistake) = outcome(lambda: run(given, "cpu")), outcome(lambda: run(mine, device))
        if refusal is not None or mistake is not None:
            if not self.is_same_refusal(refusal, mistake):
                ours, theirs = (f"{type(it).__name__}: {str(it)[:90]}" if it else "nothing" for it in (mistake, refusal))
                self.found.setdefault(part, (f"raises {ours!r} where the CPU raises {theirs!r}", what))
            return

        pairs = zip(tensors(mine), tensors(given), strict=True)
        kept = [(whole(one), whole(other)) for one, other in pairs if memory and is_plain(other)]

        @functools.cache
        def exact(eps: float, seed: int) -> list[Any]:
            usual = torch.get_default_dtype()
            torch.set_default_dtype(torch.float64)
            with contextlib.suppress(Exception), contextlib.ExitStack() as stack:
                stack.callback(torch.set_default_dtype, usual)
                return [*[None] * len(kept), *pytree.tree_leaves(run(precise(wide, eps, seed), "cpu"))]
            return []

        one, other = [*(it for it, _ in kept), actual], [*(it for _, it in kept), expected]
        try:
            # A task behind the call may fail when the result is read.
            self.results(one, other, exact, by_chance=lambda: by_chance(expected), strides=strides, values=values or self.values)
            if aliases:
                self.same(_aliases(actual, mine), _aliases(expected, given), "views of arguments")
        except (AssertionError, torch.AcceleratorError) as difference:
            self.found.setdefault(part, (f"differs: {' '.join(str(difference).split())[:300]}", what))

    def results(
        self, actual: Any, expected: Any, exact: Any, *, by_chance: Callable[[], bool], strides: bool, values: Values
    ) -> None:
        """Compare trees: their structure, dtypes, shapes and devices, strides where these count, and values but for chance."""
        mine, theirs = pytree.tree_leaves(actual), pytree.tree_leaves(expected)
        self.same(len(mine), len(theirs), "results")
        for one, other in zip(mine, theirs, strict=True):
            if isinstance(other, torch.Tensor):
                self.assertIsInstance(one, torch.Tensor)
                self.tensors(one, other, strides=strides)

        def nth(eps: float, seed: int, at: int) -> Any:
            results = exact(eps, seed)
            return results[at] if at < len(results) else None

        try:
            for number, (one, other) in enumerate(zip(mine, theirs, strict=True)):
                if not isinstance(other, torch.Tensor):
                    self.assertEqual(one, other)
                elif not (self.name in UNSTABLE_INDICES and number == len(mine) - 1):
                    values(number, one.detach().cpu(), other.detach(), functools.partial(nth, at=number))
        except AssertionError:
            if not by_chance():
                raise

    def tensors(self, one: torch.Tensor, other: torch.Tensor, *, strides: bool) -> None:
        """Compare all but the values of two tensors."""
        self.same(one.device.type, self.device_type if other.is_cpu else other.device.type, "device")
        self.same((one.dtype, one.layout, one.requires_grad), (other.dtype, other.layout, other.requires_grad), "kind")
        if strides and other.layout is torch.strided and other.numel() > 0 and one.shape == other.shape:
            moving = [dim for dim, size in enumerate(other.shape) if size > 1]
            self.same([one.stride(dim) for dim in moving], [other.stride(dim) for dim in moving], "strides")

    def same(self, one: Any, other: Any, what: str) -> None:
        """Compare what is no tensor; the test's own comparison would take as long as an operator."""
        if one != other:
            self.fail(f"{what}: {one} beside the CPU's {other}")

    def values(self, _number: int, one: torch.Tensor, other: torch.Tensor, exact: Callable[[float, int], Any]) -> None:
        """Compare the values of two tensors, or, where they differ by more than rounding, their distances from the exact ones."""
        self.same(one.shape, other.shape, "shape")
        tolerance = TOLERANCE.get((self.name, other.dtype))
        options = {"rtol": tolerance[0], "atol": tolerance[1]} if tolerance else {}
        try:
            self.assertEqual(one, other, exact_device=False, **options)
        except AssertionError:
            rtol, atol = get_tolerances(one, other, rtol=None, atol=None)

            def unit(size: torch.Tensor) -> torch.Tensor:
                return max(rtol, self.rel_tol) * size + max(atol, self.precision)

            is_dense = other.layout is torch.strided and not other.is_quantized
            if not is_dense or bool(faults(one, other, exact, unit=unit).any()):
                raise


def _aliases(results: Any, given: Any) -> list[list[bool]]:
    def storages(tree: Any) -> list[torch.Tensor]:
        leaves = pytree.tree_leaves(tree)
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided]

    with contextlib.suppress(NotImplementedError, RuntimeError):
        return [
            [one.untyped_storage()._cdata == other.untyped_storage()._cdata for other in storages(given)]
            for one in storages(results)
        ]
    return []
