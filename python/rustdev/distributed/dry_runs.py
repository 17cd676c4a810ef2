"""The computation that DistributedDataParallel needs in a dry run: the numbers by which its ranks agree on their work.

The ranks exchange the shapes of the parameters and the order of the gradients through tensors of the device, and read them on the
host, where a dry run would give zeros.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rustdev import _rustdev


@contextmanager
def _suspended() -> Iterator[None]:
    """Context manager in which the dry runs of this process, if there are any, do compute."""
    count = 0
    while _rustdev.is_dry_run():
        _rustdev.dry_run_end()
        count += 1
    try:
        yield
    finally:
        for _ in range(count):
            _rustdev.dry_run_begin(at_start=False)


def _computed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes in dry runs as well."""

    @functools.wraps(function)
    def computed(*arguments: Any) -> Any:
        with _suspended():
            return function(*arguments)

    return computed


@functools.cache
def install() -> None:
    """Have the agreements of DistributedDataParallel computed, from the first call on."""
    import torch.distributed

    distributed: Any = torch.distributed
    distributed._verify_params_across_processes = _computed(distributed._verify_params_across_processes)
    distributed.Reducer._rebuild_buckets = _computed(distributed.Reducer._rebuild_buckets)
