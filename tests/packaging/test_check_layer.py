"""The rule by which `make check` selects tests: tests/layers.py."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import layers  # beside conftest.py, which pytest finds
import torch

TESTS = Path(__file__).parents[1]


def item(file: str, function: str, marks: tuple[str, ...] = (), **parameters: object) -> Any:
    """Return what pytest has of a test."""
    name = f"{file}::{function}" + (f"[{'-'.join(map(str, parameters.values()))}]" if parameters else "")
    found = SimpleNamespace(nodeid=name, path=TESTS / file, get_closest_marker=lambda mark: mark in marks or None)
    if parameters:
        found.callspec = SimpleNamespace(params=parameters)
    return found


def chosen(items: list[Any]) -> list[str]:
    """Return the names of the tests that are chosen."""
    return [kept.nodeid.partition("::")[2] for kept in layers.chosen(items, TESTS)]


def test_each_value_of_each_parameter_is_there_once() -> None:
    items = [item("ops/test_a.py", "test", x=x, y=y) for x in (1, 2) for y in ("a", "b", "c")]
    assert chosen(items) == ["test[1-a]", "test[1-b]", "test[1-c]", "test[2-a]"]


def test_one_dtype_stands_for_its_class() -> None:
    dtypes = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.uint8, torch.bool, torch.complex64]
    items = [item("ops/test_a.py", "test", dtype=dtype) for dtype in dtypes]
    found = [name.partition("[")[2] for name in chosen(items)]
    assert found == [f"torch.{name}]" for name in ("float32", "bfloat16", "float64", "int64", "bool", "complex64")]


def test_long_lists_are_thinned_but_for_those_of_every_operator() -> None:
    few = [item("ops/test_a.py", "test", x=x) for x in range(10 * layers.MOST)]
    assert len(chosen(few)) == layers.MOST
    assert chosen(few)[:2] == ["test[0]", "test[10]"]
    every = [item("ops/test_a.py", "test", ("every_operator",), x=x) for x in range(10 * layers.MOST)]
    assert len(chosen(every)) == 10 * layers.MOST


def test_slow_tests_are_left_out() -> None:
    items = [item("runtime/test_a.py", "test_slow", ("slow",)), item("runtime/test_a.py", "test_quick")]
    assert chosen(items) == ["test_quick"]


def test_some_folders_have_the_first_functions_of_each_file() -> None:
    items = [item(f"compile/test_{file}.py", f"test_{name}") for file in "ab" for name in range(9)]
    assert chosen(items) == [f"test_{name}" for _ in "ab" for name in range(layers.FEW["compile"])]
    assert len(chosen([item("compile/test_a.py", "test", x=x) for x in range(9)])) == layers.FIRST
