"""Helpers of the sweeps of layouts: calls are compared with the CPU's, including the memory around all tensors."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from against_cpu import AgainstCpu, Comparison, on_device, precise
from expected import EXPECTED, SOME_PROCESSORS
from layouts import is_plain, tensors, whole
from torch.utils import _pytree as pytree


def outcome(run: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Return a call's result, or its exception."""
    try:
        result = run()
        torch.accelerator.synchronize()
    except Exception as refusal:
        return None, refusal
    return result, None


def describe(tree: Any) -> str:
    """Return the sizes and strides of a tree's tensors, and everything else as it is."""

    def told(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.layout is not torch.strided:
            return f"{value.layout} {tuple(value.shape)}"
        return f"{str(value.dtype)[6:]}{list(value.shape)}:{list(value.stride())}+{value.storage_offset()}"

    return str(pytree.tree_map(told, tree)).replace("'", "")[:300]


def same_values(one: Any, other: Any) -> bool:
    """Return whether two trees of tensors have the same values."""
    pairs = list(zip(tensors(one), tensors(other), strict=True))
    return all(mine.shape == theirs.shape and torch.equal(mine, theirs) for mine, theirs in pairs)


class Sweep(AgainstCpu):
    """Gathers what is found and fails with all of it."""

    def setUp(self) -> None:
        super().setUp()
        self.faults: dict[tuple[str, str], str] = {}

    def tell(self, kind: str, name: str) -> None:
        """Fail with all that was found and not expected; the kinds in expected.py are followed by the layout of a difference."""
        reasons = {
            entry[0].partition(": ")[2]: reason
            for entry, reason in EXPECTED.items()
            if entry[0].startswith(f"{kind}: ") and entry[1] == name
        }
        layouts = {what for what, _ in self.faults}
        changing = {
            entry[0].partition(": ")[2] for entry in SOME_PROCESSORS if entry[0].startswith(f"{kind}: ") and entry[1] == name
        }
        told = [f"[{what}] {text}, for {given}" for (what, text), given in self.faults.items() if what not in reasons]
        told += [f"[{what}] holds now: take it out of expected.py" for what in reasons if what not in layouts | changing]
        if told:
            self.fail(" ;; ".join(told))
        if reasons:
            pytest.xfail(next(iter(reasons.values())))

    def check(
        self,
        comparison: Comparison,
        what: str,
        run: Callable[[Any, str], Any],
        given: Any,
        *,
        values: bool = True,
        strides: bool = True,
        plain: Callable[[], Any] | None = None,
    ) -> None:
        """Hold one call on the device against the same on the CPU, and the memory of all its arguments after it.

        Args:
            comparison: compares.
            what: the layout, for a fault's description.
            run: makes the call with arguments on a device.
            given: the arguments, on the CPU.
            values: whether values count.
            strides: whether strides count.
            plain: the written tensors as they are without memory in common. Values count where the CPU's are these.
        """
        mine, wide, before = on_device(given, comparison.device.type), precise(given), describe(given)
        expected, refusal = outcome(lambda: run(given, "cpu"))
        actual, mistake = outcome(lambda: run(mine, comparison.device.type))
        if type(refusal) is not type(mistake):
            theirs, ours = (f"{type(it).__name__}: {str(it)[:90]}" if it else "nothing" for it in (refusal, mistake))
            self.faults.setdefault((what, f"raises {ours!r} where the CPU raises {theirs!r}"), before)
        if refusal is not None or mistake is not None:
            return
        if plain is not None:
            values = values and bool(tensors(expected)) and same_values(expected, plain())
        try:
            comparison.results(actual, expected, values=values, strides=strides, exact=lambda change: run(change(wide), "cpu"))
            if values:
                for one, other in zip(tensors(mine), tensors(given), strict=True):
                    if is_plain(other):
                        comparison.results(whole(one), whole(other))
        except AssertionError as difference:
            kind = " ".join(str(difference).split())[:160]
            if not any(where == what and text.startswith("differs") for where, text in self.faults):
                self.faults[what, f"differs: {kind}"] = before
