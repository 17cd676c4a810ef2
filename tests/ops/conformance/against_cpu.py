"""Helpers of the conformance tests: samples moved to the device, comparison with the CPU, and expected differences.

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
from expected import EXPECTED, SOME_PROCESSORS, TOLERANCE, UNSTABLE_INDICES
from torch.nn.parameter import UninitializedTensorMixin
from torch.testing._comparison import get_tolerances
from torch.testing._internal import common_methods_invocations, common_utils
from torch.testing._internal.common_device_type import onlyCPU
from torch.testing._internal.common_utils import TestCase
from torch.utils import _pytree as pytree

#: Looks at this many samples of each operator and dtype; all where it is not set.
SAMPLES = int(os.environ.get("CONFORMANCE_SAMPLES", "0")) or None
#: Random results of a few elements may be the same by chance, but not for so many seeds.
SEEDS = 16
#: How often inputs are moved by rounding errors, to see what these do to the result.
NUDGES = 8
#: By how much the errors of equally good algorithms differ: so many times the CPU's worst is let pass where rounding explains it.
LUCK = 4
#: Results without defined values.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
#: The dtypes of the same call without rounding, as far as it can be had.
PRECISE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


# Some entries of the database are for the CPU alone, which the device is held against.
for entry in common_methods_invocations.op_db:
    entry.decorators = tuple(decorator for decorator in entry.decorators if decorator is not onlyCPU)


def few(samples: Any) -> Iterator[Any]:
    """Yield the samples that are looked at."""
    for number, sample in enumerate(samples):
        if SAMPLES is not None and number >= SAMPLES:
            return
        yield sample


Storages = dict[tuple[int, torch.dtype], tuple[torch.UntypedStorage, torch.Tensor]]


def to_device(value: Any, device: str, storages: Storages | None = None) -> Any:
    """Move a tensor with its strides and its place in its storage, which may be among those moved before; leave anything else."""
    if isinstance(value, torch.nn.Module):
        return copy.deepcopy(value).to(device)
    if not isinstance(value, torch.Tensor):
        return torch.device(device) if value == torch.device("cpu") or value == "cpu" else value
    if value.device.type != "cpu":
        return value
    plain = value.detach()
    if plain.layout is not torch.strided or plain.is_quantized or isinstance(value, UninitializedTensorMixin):
        return plain.to(device).requires_grad_(value.requires_grad)
    raw = plain.resolve_neg().resolve_conj() if plain.is_neg() else plain
    memory = raw.untyped_storage()
    storage = torch.empty(memory.nbytes() // raw.element_size(), dtype=raw.dtype)
    storage.copy_(torch.empty(0, dtype=raw.dtype).set_(memory))
    key = (memory.data_ptr(), raw.dtype)
    kept = ({} if storages is None or memory.nbytes() == 0 else storages).setdefault(key, (memory, storage.to(device)))
    moved = kept[1].as_strided(raw.shape, raw.stride(), raw.storage_offset())
    moved = moved.conj() if raw.is_conj() else moved
    return moved.requires_grad_(value.requires_grad)


def on_device(tree: Any, device: str) -> Any:
    """Move every tensor of a tree; the same tensor stays the same, and what shares memory shares it."""
    moved: dict[int, Any] = {}
    storages: Storages = {}

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return moved.setdefault(id(value), to_device(value, device, storages))
        return to_device(value, device)

    return pytree.tree_map(move, tree)


def precise(tree: Any, eps: float = 0.0, seed: int = 0) -> Any:
    """Return copies of a tree's tensors in the widest dtype, and arguments that name a dtype likewise.

    Every number is moved by at most ``eps`` of itself; which way, the seed says.
    """
    made: dict[int, torch.Tensor] = {}
    generator = torch.Generator().manual_seed(seed)

    def copied(value: torch.Tensor) -> torch.Tensor:
        wide = value.detach().to(PRECISE.get(value.dtype, value.dtype), copy=True)
        if eps and wide.layout is torch.strided and (wide.is_floating_point() or wide.is_complex()):
            wide = wide * (1 + eps * (2 * torch.rand(wide.shape, generator=generator, dtype=torch.float64) - 1))
        return wide.requires_grad_(value.requires_grad)

    def widen(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return made[id(value)] if id(value) in made else made.setdefault(id(value), copied(value))
        return PRECISE.get(value, value) if isinstance(value, torch.dtype) else value

    return pytree.tree_map(widen, tree)


def arguments(sample: Any) -> tuple[Any, Any, Any]:
    """Return a sample as one tree."""
    return sample.input, sample.args, sample.kwargs


def call(op: Any, given: Any, device: str = "cpu", **more: Any) -> Any:
    """Return what an operator makes of a sample's arguments, on a device where they name none."""
    named = any(isinstance(leaf, torch.Tensor | torch.device) for leaf in pytree.tree_leaves((given, more)))
    with contextlib.nullcontext() if named else torch.device(device):
        return op(given[0], *given[1], **given[2], **more)


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


def gradients(results: Any, given: Any) -> list[torch.Tensor]:
    """Return the gradients of all arguments that take one, for ones as those of the results."""
    leaves = {id(leaf): leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, torch.Tensor) and leaf.requires_grad}
    outputs = [it for it in pytree.tree_leaves(results) if isinstance(it, torch.Tensor) and it.requires_grad]
    if not leaves or not outputs:
        return []
    found = torch.autograd.grad(outputs, list(leaves.values()), [torch.ones_like(it) for it in outputs], allow_unused=True)
    return [grad for grad in found if grad is not None]


def gradient(op: Any, given: Any) -> list[torch.Tensor]:
    """Return the gradients of an operator's call."""
    return gradients(call(op, given), given)


class AgainstCpu(TestCase):
    """A test of the device against the CPU, under the same rules for both."""

    def on_both(self, host: Callable[[], Any], device: Callable[[], Any]) -> tuple[Any, Any] | None:
        """Return the results of the CPU and of the device, or nothing where the CPU refuses: then the device shall do the same."""
        try:
            expected = host()
        except Exception as refusal:
            with self.assertRaises(self.refusal_of_device(refusal)):
                device()
                torch.accelerator.synchronize()
            return None
        return expected, device()

    def hold(
        self,
        comparison: "Comparison",
        given: Any,
        run: Callable[[Any, str], Any],
        *,
        aliases: bool = False,
        values: Callable[[], bool] = lambda: True,
        strides: bool = True,
    ) -> None:
        """Hold what ``run`` makes of arguments on the device, or its refusal, against the CPU's.

        With ``aliases``, which results are views of which arguments counts, too; for the rest see ``Comparison.results``.
        ``values`` is asked only where the CPU takes the arguments.
        """
        device = str(comparison.device)
        mine, wide = on_device(given, device), precise(given)
        results = self.on_both(lambda: run(given, "cpu"), lambda: run(mine, device))
        if results is not None:
            expected, actual = results
            comparison.results(actual, expected, values=values(), strides=strides, exact=lambda change: run(change(wide), "cpu"))
            if aliases:
                comparison.aliases(actual, mine, expected, given)

    def refusal_of_device(self, refusal: Exception) -> type[Exception]:
        """Return the exception that the device shall raise where the CPU raises this one."""
        return type(refusal)

    def setUp(self) -> None:
        super().setUp()
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


class Comparison:
    """Holds results of the device against those of the CPU, within the tolerances of a test of PyTorch's."""

    def __init__(self, test: Any, device: str, name: str = "") -> None:
        self.test, self.device, self.name = test, torch.device(device), name

    def results(
        self,
        actual: Any,
        expected: Any,
        *,
        values: bool = True,
        strides: bool = True,
        exact: Callable[[Callable[[Any], Any]], Any] = lambda change: None,
    ) -> None:
        """Compare trees: structure, dtypes, shapes, devices, and strides and values where these count.

        ``exact`` is the same call with what ``precise`` makes of its arguments, for values of which the CPU's may not be better.
        """
        mine, theirs = pytree.tree_leaves(actual), pytree.tree_leaves(expected)

        @functools.cache
        def references(eps: float, seed: int) -> list[Any]:
            with contextlib.suppress(Exception):
                return pytree.tree_leaves(exact(functools.partial(precise, eps=eps, seed=seed)))
            return [None] * len(theirs)

        self.same(len(mine), len(theirs), "results")
        for number, (one, other) in enumerate(zip(mine, theirs, strict=True), 1):
            if not isinstance(other, torch.Tensor):
                if values:
                    self.test.assertEqual(one, other)
                continue
            self.test.assertIsInstance(one, torch.Tensor)
            self.tensors(one, other, strides=strides)
            if values and not (self.name in UNSTABLE_INDICES and number == len(mine)):
                self.values(one.detach().cpu(), other.detach(), lambda eps, seed, at=number - 1: references(eps, seed)[at])

    def tensors(self, one: torch.Tensor, other: torch.Tensor, *, strides: bool) -> None:
        """Compare all but the values of two tensors."""
        self.same(one.device.type, self.device.type if other.device.type == "cpu" else other.device.type, "device")
        self.same((one.dtype, one.layout, one.requires_grad), (other.dtype, other.layout, other.requires_grad), "kind")
        if strides and other.layout is torch.strided and other.numel() > 0 and one.shape == other.shape:
            moving = [dim for dim, size in enumerate(other.shape) if size > 1]
            self.same([one.stride(dim) for dim in moving], [other.stride(dim) for dim in moving], "strides")

    def same(self, one: Any, other: Any, what: str) -> None:
        """Compare what is no tensor; the test's own comparison would take as long as an operator."""
        if one != other:
            self.test.fail(f"{what}: {one} beside the CPU's {other}")

    def values(self, one: torch.Tensor, other: torch.Tensor, exact: Callable[[float, int], Any]) -> None:
        """Compare the values of two tensors, or, where they differ by more than rounding, their distances from the exact ones."""
        self.same(one.shape, other.shape, "shape")
        tolerance = TOLERANCE.get((self.name, other.dtype))
        options = {"rtol": tolerance[0], "atol": tolerance[1]} if tolerance else {}
        try:
            self.test.assertEqual(one, other, exact_device=False, **options)
        except AssertionError:
            if not self.is_no_worse(one, other, exact):
                raise

    def is_no_worse(self, one: torch.Tensor, other: torch.Tensor, exact: Callable[[float, int], Any]) -> bool:
        """Return whether every value is as near to the exact one as can be asked for.

        That is within its dtype's tolerance, or no further than the worst of the other's, or, up to some times that worst, no
        further than roundings of the inputs move the exact one. Distances count in tolerances, so that a bad large value excuses
        no bad small one. Parts that are NaN do not count where the other part is infinite: an infinity, by C99's Annex G.
        """
        reference = exact(0.0, 0)
        if not (one.is_floating_point() or one.is_complex()):
            return False
        same = (one == other) | (one.isnan() & other.isnan())
        if one.is_complex():
            same |= one.isinf() & other.isinf() & _same_where_numbers(one, other)
        if bool(same.all()):
            return True
        wide = PRECISE.get(one.dtype, one.dtype)
        if not isinstance(reference, torch.Tensor) or reference.shape != one.shape or reference.dtype is not wide:
            return False
        reference = reference.detach()
        rtol, atol = get_tolerances(one, reference.to(one.dtype), rtol=None, atol=None)
        allowed = max(rtol, self.test.rel_tol) * reference.abs() + max(atol, self.test.precision)
        mine, theirs = ((it.to(wide) - reference).abs() / allowed for it in (one, other))
        worst = theirs.nan_to_num(0.0).amax().clamp(min=1.0)
        if bool((same | (mine <= worst)).all()):
            return True
        eps = torch.finfo(one.dtype).eps
        moved = [(exact(eps, seed) - reference).abs() / allowed for seed in range(NUDGES)]
        by_rounding = torch.stack(moved).nan_to_num(0.0).amax(0)
        return bool((same | (mine <= worst) | (mine <= LUCK * worst) & (mine <= 1.0 + LUCK * by_rounding)).all())

    def aliases(self, actual: Any, given: Any, expected: Any, given_cpu: Any) -> None:
        """Compare which results are views of which arguments."""
        self.same(_aliases(actual, given), _aliases(expected, given_cpu), "views of arguments")


def _same_where_numbers(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return where both parts of complex values are the same, or either's is NaN."""
    mine, theirs = (torch.view_as_real(value.resolve_conj().resolve_neg()) for value in (one, other))
    return ((mine == theirs) | mine.isnan() | theirs.isnan()).all(-1)


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


@contextlib.contextmanager
def expecting(kind: str, name: str, dtype: torch.dtype | None = None) -> Iterator[None]:
    """Run what is inside: an expected difference is xfailed with its reason, and fails where it is gone on every processor."""
    key = (kind, name, dtype) if (kind, name, dtype) in EXPECTED else (kind, name, None)
    if key not in EXPECTED:
        yield
        return
    try:
        yield
    except (Exception, pytest.fail.Exception):
        pytest.xfail(EXPECTED[key])
    if key not in SOME_PROCESSORS:
        pytest.fail(f"holds now: take {key} out of expected.py")
