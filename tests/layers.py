"""Selection of the tests of ``pytest --layer=check``: a subset that takes few minutes and covers everything.

The rule, for the tests of one function:

- Tests marked ``slow`` are left out.
- In folders whose tests compile or start processes (``FEW``), only the first functions of each file run, as many as the table
  says, each with its first parameter sets (``FIRST``) of those that the last rule leaves.
- Tests marked ``every_operator`` run with all parameters.
- Other tests run so that each value of each parameter occurs once, where all dtypes of a class count as one value. If there are
  more than ``MOST`` such parameter sets, ``MOST`` evenly spaced ones run.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from pathlib import Path

    import pytest

__all__ = ["LAYERS", "chosen"]

#: What the option takes; without it everything runs.
LAYERS = ("check",)
#: How many sets of parameters a test has at most.
MOST = 24
#: How many functions of each file there are, by folder.
FEW = {"as_cuda": 6, "compile": 2, "debugging": 3, "distributed": 2, "models": 1, "packaging": 3, "processes": 2}
#: How many sets of parameters their tests have at most.
FIRST = 2


def class_of(dtype: torch.dtype) -> str:
    """Return the class of a dtype: of each, one stands for the others."""
    if dtype is torch.float32:
        return "float32"
    if dtype.is_complex:
        return "complex"
    if dtype.is_floating_point:
        return {1: "8 bit float", 2: "16 bit float"}.get(dtype.itemsize, "float64")
    return "bool" if dtype is torch.bool else "integer"


def value_of(value: object) -> Hashable:
    """Return what tells a parameter's value from others."""
    if isinstance(value, torch.dtype):
        return class_of(value)
    if isinstance(value, (str, int, float, bool, type(None))):
        return (type(value).__name__, value)
    if isinstance(value, (tuple, list)):
        return tuple(map(value_of, value))
    return id(value)


def each_value_once(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the first items of a test that show each value of each parameter, in their order."""
    seen: set[tuple[str, Hashable]] = set()
    kept = []
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        shown = {(name, value_of(value)) for name, value in parameters.items()}
        if not parameters or not shown <= seen:
            kept.append(item)
            seen |= shown
    return kept


def at_even_distances(items: list[pytest.Item], count: int) -> list[pytest.Item]:
    """Return `count` items, the first among them."""
    return [items[index * len(items) // count] for index in range(count)] if len(items) > count else items


def groups(items: Iterable[pytest.Item], key: Callable[[pytest.Item], Hashable]) -> list[list[pytest.Item]]:
    """Return the items that have the same key together, in the order of the first of each."""
    found: dict[Hashable, list[pytest.Item]] = defaultdict(list)
    for item in items:
        found[key(item)].append(item)
    return list(found.values())


def of_function(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the items of one function that are run."""
    if items[0].get_closest_marker("every_operator"):
        return items
    return at_even_distances(each_value_once(items), MOST)


def of_file(items: list[pytest.Item], folder: str) -> list[pytest.Item]:
    """Return the items of one file that are run."""
    quick = [item for item in items if not item.get_closest_marker("slow")]
    functions = groups(quick, lambda item: item.nodeid.partition("[")[0])
    most = FIRST if folder in FEW else None
    return [item for function in functions[: FEW.get(folder)] for item in of_function(function)[:most]]


def chosen(items: list[pytest.Item], tests: Path) -> list[pytest.Item]:
    """Return the items that the layer has, in their order.

    Args:
        items: All that were collected.
        tests: The folder of all tests.
    """
    kept: set[int] = set()
    for file in groups(items, lambda item: item.path):
        kept |= {id(item) for item in of_file(file, file[0].path.relative_to(tests).parts[0])}
    return [item for item in items if id(item) in kept]
