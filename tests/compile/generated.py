"""Helpers of the tests of torch.compile: comparison with the CPU, and access to the generated code."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from rustdev._inductor import kernels
from torch._inductor.runtime.cache_dir_utils import default_cache_dir
from torch.utils import _pytree as pytree

Function = Callable[..., Any]


def fresh_cache(folder: Path) -> Path:
    """Return a folder for a cache of the compiler that has precompiled headers alone, which take seconds."""
    headers = Path(default_cache_dir(), "precompiled_headers")
    headers.mkdir(parents=True, exist_ok=True)
    (folder / headers.name).symlink_to(headers)
    return folder


@contextmanager
def sources() -> Iterator[list[str]]:
    """Collect the C++ of the kernels that are made for the device."""
    made: list[str] = []
    compile_kernel = kernels.kernel

    def kernel(types: list[str], source: str) -> Any:
        made.append(source)
        return compile_kernel(types, source)

    with mock.patch.object(kernels, "kernel", kernel):
        yield made


def to(tree: Any, device: str) -> Any:
    """Copy a tree's tensors to a device, gradients and all else left behind."""
    return pytree.tree_map_only(torch.Tensor, lambda value: value.detach().to(device).requires_grad_(value.requires_grad), tree)


def results_and_gradients(function: Function, arguments: Any) -> Any:
    """Call a function; return its results and the gradients of all that takes one."""
    results = function(*arguments)
    leaves = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not leaves:
        return results, []
    outputs = [it for it in pytree.tree_leaves(results) if isinstance(it, torch.Tensor) and it.requires_grad]
    return results, torch.autograd.grad(outputs, leaves, [torch.ones_like(it) for it in outputs])


def check(function: Function, *arguments: Any, device: str = "rustdev:0", kernels_made: int | None = None, **options: Any) -> None:
    """Hold a compiled function on the device against the plain one on the CPU: values, strides, gradients and devices.

    Args:
        function: What is compiled, as one graph.
        *arguments: Its arguments, on the CPU.
        device: Where it runs.
        kernels_made: How many kernels there shall be, forward and backward; None for at least one.
        **options: Of ``torch.testing.assert_close``.
    """
    expected = results_and_gradients(function, arguments)
    with sources() as made:
        actual = results_and_gradients(torch.compile(function, fullgraph=True), to(arguments, device))
    assert len(made) == kernels_made if kernels_made is not None else made, len(made)
    # The CPU's kernels of some gradients have strides of their own.
    assert strides(actual[0]) == strides(expected[0])
    for one, other in zip(pytree.tree_leaves(actual), pytree.tree_leaves(expected), strict=True):
        assert str(one.device) == device
        torch.testing.assert_close(one.cpu(), other, **options)


def strides(tree: object) -> list[tuple[int, ...]]:
    """Return the strides of a tree's tensors that have elements."""
    return [leaf.stride() for leaf in pytree.tree_leaves(tree) if leaf.numel() > 0]
