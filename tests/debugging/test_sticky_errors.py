"""Errors that stay (`RUSTDEV_ERRORS=sticky`): a device that has failed raises the same error at every later call."""

from pathlib import Path

import children

PROGRAM = """
import torch

rustdev = "rustdev"
values = torch.ones(4, device=rustdev)
event = torch.rustdev.Event()
event.record()
event.synchronize()
wrong = torch.tensor([9], device=rustdev)
torch.rustdev.synchronize()
side = torch.rustdev.Stream()

def text(call):
    try:
        call()
    except torch.AcceleratorError as error:
        return str(error)
    return None

values.index_select(0, wrong)
calls = {
    "wait": torch.rustdev.synchronize,
    "wait again": torch.rustdev.synchronize,
    "launch": lambda: values + 1,
    "item": lambda: values[0].item(),
    "copy": values.cpu,
    "print": lambda: repr(values),
    "other stream": side.synchronize,
    "record": event.record,
    "query": event.query,
    "stream query": side.query,
    "backward": lambda: torch.ones(2, requires_grad=True).to(rustdev).sum().backward(),
}
texts = {name: text(call) for name, call in calls.items()}
assert len(set(texts.values())) == 1, texts
assert "index_select failed on stream 0 of device rustdev:0" in texts["wait"], texts
other = torch.ones(2, device="rustdev:1")
assert other.sum().item() == 2, "another device works on"
del values, wrong, side, event
print("done")
"""

TESTS = """
import pytest, torch

def test_before(): pass

def test_failing():
    with pytest.raises(torch.AcceleratorError):
        torch.ones(2, device="rustdev").index_select(0, torch.tensor([5], device="rustdev")).cpu()

def test_after(): torch.ones(2, device="rustdev")
"""


def test_every_later_call_raises_the_same_error() -> None:
    done = children.run(PROGRAM, RUSTDEV_ERRORS="sticky", RUSTDEV_DEVICE_COUNT="2")
    assert done.stdout == "done\n", done.stderr
    assert done.returncode == 0, done.stderr


def test_without_it_an_error_is_raised_once() -> None:
    done = children.run(PROGRAM, RUSTDEV_ERRORS="", RUSTDEV_DEVICE_COUNT="2")
    assert "AssertionError: {'wait': 'index_select failed" in done.stderr
    assert "'wait again': None" in done.stderr


def test_another_value_is_refused() -> None:
    done = children.run("import rustdev", RUSTDEV_ERRORS="yes")
    assert "RUSTDEV_ERRORS" in done.stderr
    assert "sticky" in done.stderr


def test_pytest_stops_with_a_line_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "test_of_a_project.py").write_text(TESTS)
    arguments = ["-rA", "-p", "rustdev_pytest", "--rootdir", tmp_path, tmp_path]
    said = children.python("-m", "pytest", *arguments, directory=tmp_path, RUSTDEV_ERRORS="sticky").stdout
    assert "2 passed" in said, said
    assert "device rustdev:0 stays failed after test_failing (RUSTDEV_ERRORS=sticky): index_select failed" in said, said
