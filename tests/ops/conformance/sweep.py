"""Helpers of the sweeps: differences from the CPU are gathered, and held against expected ones; so is the memory around tensors."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from against_cpu import AgainstCpu, Comparison, on_device, precise
from expected import EXPECTED, SOME_PROCESSORS
from layouts import is_plain, tensors, whole
from torch.utils import _pytree as pytree

#: Maximum number of differences in the message of a failing test.
TOLD = 12


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
        #: Of what part of a test something differs, how, and for what.
        self.faults: dict[tuple[str, str], str] = {}

    def tell(self, kind: str, name: str, dtype: torch.dtype | None = None) -> None:
        """Fail with all that was found and not expected; the kinds in expected.py are followed by the part of a difference."""
        entries = {
            entry[0].removeprefix(kind).removeprefix(": "): entry
            for entry in EXPECTED
            if entry[0].partition(": ")[0] == kind and entry[1] == name and entry[2] in (None, dtype)
        }
        found = {part for part, _ in self.faults}
        told = [f"[{part}] {text}, for {given}" for (part, text), given in self.faults.items() if not {part, ""} & entries.keys()]
        lasting = [part for part, entry in entries.items() if entry not in SOME_PROCESSORS]
        told += [f"[{part}] holds now: take it out of expected.py" for part in lasting if part not in found and (part or not found)]
        if told:
            self.fail("\n".join(told[:TOLD]))
        if entries:
            pytest.xfail(EXPECTED[next(iter(entries.values()))])

    def differs(self, part: str, difference: Exception, given: str) -> None:
        """Note a difference of results, the first of each part."""
        if not any(where == part and text.startswith("differs") for where, text in self.faults):
            self.faults[part, f"differs: {' '.join(str(difference).split())[:160]}"] = given

    def refuses_alike(self, part: str, refusal: Exception | None, mistake: Exception | None, given: str) -> bool:
        """Return whether there are results to compare, and note exceptions of the CPU and the device that are not the same."""
        if type(refusal) is not type(mistake):
            theirs, ours = (f"{type(it).__name__}: {str(it)[:90]}" if it else "nothing" for it in (refusal, mistake))
            self.faults.setdefault((part, f"raises {ours!r} where the CPU raises {theirs!r}"), given)
        return refusal is None and mistake is None

    def check(
        self,
        comparison: Comparison,
        what: str,
        run: Callable[[Any, str], Any],
        given: Any,
        *,
        values: bool = True,
        plain: Callable[[], Any] | None = None,
    ) -> None:
        """Hold one call on the device against the same on the CPU, and the memory of all its arguments after it.

        ``plain`` returns the written tensors as they are without memory in common: values count where the CPU's are these.
        """
        mine, wide, before = on_device(given, comparison.device.type), precise(given), describe(given)
        expected, refusal = outcome(lambda: run(given, "cpu"))
        actual, mistake = outcome(lambda: run(mine, comparison.device.type))
        if not self.refuses_alike(what, refusal, mistake, before):
            return
        if plain is not None:
            values = values and bool(tensors(expected)) and same_values(expected, plain())
        try:
            comparison.results(actual, expected, values=values, exact=lambda change: run(change(wide), "cpu"))
            for one, other in zip(tensors(mine), tensors(given), strict=True) if values else []:
                if is_plain(other):
                    comparison.results(whole(one), whole(other))
        except (AssertionError, torch.AcceleratorError) as difference:
            # A task behind the call may fail when the result is read.
            self.differs(what, difference, before)
