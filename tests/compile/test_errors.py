"""Errors in compiled code: an error of a kernel is raised by the next wait for its stream, and the process continues."""

import children
import pytest
import torch


def raised(match: str) -> object:
    return pytest.raises(torch.AcceleratorError, match=match)


@pytest.mark.parametrize("size", [10, 100_000], ids=["on one thread", "on several"])
def test_an_index_out_of_range(size: int) -> None:
    def write(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return x.index_put((at,), (at + 1).float())

    compiled = torch.compile(write, fullgraph=True)
    x, at = torch.zeros(5, device="rustdev"), torch.zeros(size, dtype=torch.int64, device="rustdev")
    assert compiled(x, at).sum().item() == 1
    at[size // 2] = 7
    result = compiled(x, at)
    with raised("compiled::.*index.*out of bounds"):
        result.cpu()
    at.zero_()
    assert compiled(x, at).sum().item() == 1


@pytest.mark.parametrize("size", [10, 100_000], ids=["on one thread", "on several"])
def test_integer_division_by_zero(size: int) -> None:
    compiled = torch.compile(lambda x, y: x // y, fullgraph=True)
    x, y = torch.full((size,), 7, device="rustdev"), torch.full((size,), 2, device="rustdev")
    assert compiled(x, y).sum().item() == 3 * size
    y[1] = 0
    result = compiled(x, y)
    with raised("ZeroDivisionError"):
        result.cpu()


def test_divisions_on_two_streams_have_errors_of_their_own() -> None:
    compiled = torch.compile(lambda x, y: x // y, fullgraph=True)
    x = torch.full((50_000,), 7, device="rustdev")
    good, bad = torch.full_like(x, 2), torch.zeros_like(x)
    compiled(x, good)
    streams = [torch.rustdev.Stream(), torch.rustdev.Stream()]
    torch.rustdev.synchronize()
    for _ in range(10):
        with torch.rustdev.stream(streams[0]):
            compiled(x, good)
        with torch.rustdev.stream(streams[1]):
            compiled(x, bad)
    streams[0].synchronize()
    with raised("ZeroDivisionError"):
        streams[1].synchronize()


def test_a_kernel_that_failed_names_its_operators() -> None:
    compiled = torch.compile(lambda x, y: (x // y).neg(), fullgraph=True)
    compiled(torch.ones(5, dtype=torch.int64, device="rustdev"), torch.zeros(5, dtype=torch.int64, device="rustdev"))
    with raised("compiled::.*floor_divide.*neg|compiled::.*neg.*floor_divide"):
        torch.rustdev.synchronize()


@pytest.mark.slow
def test_a_process_with_many_kernels_ends_well() -> None:
    # Each of the variances brings a table of its own, which is destroyed at the end.
    program = """
import torch
for function in (lambda x: x.var(1) + 1, lambda x: x.sin().var(1)):
    for device in ("cpu", "rustdev"):
        print(torch.compile(function)(torch.arange(60.0, device=device).reshape(2, 30)).cpu().isfinite().all().item())
"""
    done = children.run(program, timeout=300)
    assert (done.returncode, done.stdout.split()) == (0, ["True"] * 4), done.stderr
