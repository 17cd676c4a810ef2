"""What the conformance tests share: samples brought to the device, results held against the CPU's, and expected differences.

The tests are run by ``tools/upstream`` (``make conformance``), which puts ``tests/ops`` on the path.
"""

import contextlib
import copy
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from expected import EXPECTED, PLACES, TOLERANCE
from torch.nn.parameter import UninitializedTensorMixin
from torch.testing._comparison import get_tolerances
from torch.testing._internal import common_methods_invocations
from torch.utils import _pytree as pytree

#: Looks at this many samples of each operator and dtype; all where it is not set.
SAMPLES = int(os.environ.get("CONFORMANCE_SAMPLES", "0")) or None
#: Random results of a few elements may be the same by chance, but not for so many seeds.
SEEDS = 4
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


def few(samples: Any) -> Iterator[Any]:
    """Yield the samples that are looked at."""
    for number, sample in enumerate(samples):
        if SAMPLES is not None and number >= SAMPLES:
            return
        yield sample


Storages = dict[tuple[int, torch.dtype], tuple[torch.UntypedStorage, torch.Tensor]]


def to_device(value: Any, device: str, storages: Storages | None = None) -> Any:
    """Move a tensor with its strides and its place in its storage; leave anything else as it is.

    Args:
        value: what to move.
        device: where to.
        storages: what was moved before; tensors that share memory go on sharing it.

    Returns:
        What was moved.
    """
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


def precise(tree: Any) -> Any:
    """Return copies of a tree's tensors in the widest dtype, and arguments that name a dtype likewise."""
    made: dict[int, torch.Tensor] = {}

    def widen(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            wide = value.detach().to(PRECISE.get(value.dtype, value.dtype), copy=True).requires_grad_(value.requires_grad)
            return made.setdefault(id(value), wide)
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


def is_random(op: Any, sample: Any) -> bool:
    """Return whether the values of an operator's results depend on the generator, or on nothing at all."""
    if op.name in UNDEFINED:
        return True

    def copied(value: torch.Tensor) -> torch.Tensor:
        # With the memory around a view's elements, which as_strided may reach for; sparse tensors have no memory of their own.
        return copy.deepcopy(value.detach()) if value.layout is torch.strided else value.detach().clone()

    def run(seed: int) -> Any:
        given = pytree.tree_map_only(torch.Tensor, copied, arguments(sample))
        return seeded(lambda: call(op, given), seed)

    # The database's own operators set the seed anew each time.
    with mock.patch.object(common_methods_invocations, "wrapper_set_seed", lambda call, *args, **kwargs: call(*args, **kwargs)):
        results = [pytree.tree_leaves(run(seed)) for seed in range(SEEDS)]
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
        exact: Callable[[], Any] = lambda: None,
    ) -> None:
        """Compare trees: structure, dtypes, shapes, strides, devices and values.

        Args:
            actual: the device's results.
            expected: the CPU's.
            values: whether values count.
            strides: whether strides count.
            exact: the same call in ``precise`` dtypes, for values of which the CPU's may not be the better ones.
        """
        mine, theirs = pytree.tree_leaves(actual), pytree.tree_leaves(expected)
        references = functools.cache(lambda: pytree.tree_leaves(exact()))
        self.test.assertEqual(len(mine), len(theirs))
        for number, (one, other) in enumerate(zip(mine, theirs, strict=True), 1):
            if not isinstance(other, torch.Tensor):
                if values:
                    self.test.assertEqual(one, other)
                continue
            self.test.assertIsInstance(one, torch.Tensor)
            self.tensors(one, other, strides=strides)
            if values and not (self.name in PLACES and number == len(mine)):
                self.values(one.detach().cpu(), other.detach(), lambda number=number: references()[number - 1])

    def tensors(self, one: torch.Tensor, other: torch.Tensor, *, strides: bool) -> None:
        """Compare all but the values of two tensors."""
        self.test.assertEqual(one.device.type, self.device.type if other.device.type == "cpu" else other.device.type)
        self.test.assertEqual((one.dtype, one.layout, one.requires_grad), (other.dtype, other.layout, other.requires_grad))
        if strides and other.layout is torch.strided and other.numel() > 0 and one.shape == other.shape:
            moving = [dim for dim, size in enumerate(other.shape) if size > 1]
            self.test.assertEqual([one.stride(dim) for dim in moving], [other.stride(dim) for dim in moving], "strides")

    def values(self, one: torch.Tensor, other: torch.Tensor, exact: Callable[[], Any]) -> None:
        """Compare the values of two tensors, or, where they differ by more than rounding, their distances from the exact ones."""
        self.test.assertEqual(one.shape, other.shape)
        tolerance = TOLERANCE.get((self.name, other.dtype))
        options = {"rtol": tolerance[0], "atol": tolerance[1]} if tolerance else {}
        try:
            self.test.assertEqual(one, other, exact_device=False, **options)
        except AssertionError:
            reference = None
            with contextlib.suppress(Exception):
                reference = exact()
            if not self.is_no_worse(one, other, reference):
                raise

    def is_no_worse(self, one: torch.Tensor, other: torch.Tensor, exact: Any) -> bool:
        """Return whether no value is further from the exact one than its dtype's tolerance, or than the worst of the other's.

        Distances count in tolerances, so that a bad large value excuses no bad small one.
        """
        has_digits = one.is_floating_point() or one.is_complex()
        if not isinstance(exact, torch.Tensor) or not has_digits or exact.shape != one.shape:
            return False
        if exact.dtype is not PRECISE.get(one.dtype, one.dtype):
            return False
        rtol, atol = get_tolerances(one, exact.to(one.dtype), rtol=None, atol=None)
        allowed = max(rtol, self.test.rel_tol) * exact.detach().abs() + max(atol, self.test.precision)

        def distance(value: torch.Tensor) -> torch.Tensor:
            return (value.to(exact.dtype) - exact.detach()).abs() / allowed

        mine, same = distance(one), (one == other) | (one.isnan() & other.isnan())
        theirs = distance(other).nan_to_num(0.0)
        return bool(((mine <= theirs.amax().clamp(min=1.0)) | same).all())

    def aliases(self, actual: Any, given: Any, expected: Any, given_cpu: Any) -> None:
        """Compare which results are views of which arguments."""
        self.test.assertEqual(_aliases(actual, given), _aliases(expected, given_cpu), "views of arguments")


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
    """Run what is inside: an expected difference is xfailed with its reason, and fails where it is gone."""
    reason = EXPECTED.get((kind, name, dtype)) or EXPECTED.get((kind, name, None))
    if reason is None:
        yield
        return
    try:
        yield
    except (Exception, pytest.fail.Exception):
        pytest.xfail(reason)
    pytest.fail(f"holds now: take {(kind, name, dtype)} out of expected.py")
