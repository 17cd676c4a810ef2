"""Memory pools of the program's own, with the names and the behaviour of ``torch.cuda.MemPool`` and ``use_mem_pool``."""

import contextlib
from collections.abc import Iterator
from typing import Any

from . import _rustdev
from ._utils import DeviceLike, _checked_device_index

__all__ = ["MemPool", "use_mem_pool"]


class MemPool:
    """A pool of device memory that nothing else uses, for ``use_mem_pool`` and as the ``pool`` of graphs.

    It has no memory to begin with. What it takes from the system it keeps for its next allocations, until the object and all graphs
    that use the pool are gone. Tensors stay valid: their memory goes back to the system after them.

    Args:
        allocator: Only None: what the device's own allocator gives out.
        use_on_oom: Whether memory that is free in the pool serves allocations outside of it that would run out of memory otherwise.
            Once a graph uses the pool, it does so no more: a replay writes to free memory as well.
        no_split: Whether a segment serves one allocation at a time: a free block is never split for a smaller one.

    Raises:
        NotImplementedError: ``allocator`` is not None.
    """

    def __init__(self, allocator: object = None, use_on_oom: bool = False, no_split: bool = False) -> None:
        if allocator is not None:
            raise NotImplementedError(
                "MemPool: an allocator of one's own is not supported, because the memory of a device is one range of addresses, "
                "which rustdev's allocator manages"
            )
        self._use = _rustdev.PrivatePoolUse(use_on_oom, no_split)

    @property
    def id(self) -> tuple[int, int]:
        """The name of the pool, as graphs and snapshots have it."""
        return 0, self._use.number

    @property
    def allocator(self) -> None:
        """None: memory comes from the device's own allocator."""

    def use_count(self) -> int:
        """Return how often the pool is used: by this object, by each block of ``use_mem_pool`` under way, and by each graph."""
        return self._use.use_count()

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """Return the segments of the pool on every device, as ``torch.rustdev.memory_snapshot(pool.id)``.

        Args:
            include_traces: Taken for compatibility with ``torch.cuda``; segments hold no traces.
        """
        from .memory import memory_snapshot

        return memory_snapshot(self.id, include_traces)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: DeviceLike = None) -> Iterator[None]:
    """Context manager whose block takes the memory of a device from a pool, for what this thread allocates.

    Blocks may be nested; the innermost counts. A graph that is captured within one has its own pool. A graph that is being captured
    around one keeps the pool in use as long as itself.

    Args:
        pool: The pool.
        device: Default: the current one. Other devices are not concerned; a block for each of them makes one pool serve several.

    Raises:
        TypeError: It is no ``MemPool``.
    """
    if not isinstance(pool, MemPool):
        raise TypeError(f"expected a torch.rustdev.MemPool, got {type(pool).__name__}")
    index = _checked_device_index(device)
    _, number = pool.id
    _rustdev.memory_choose_pool(index, number)
    try:
        yield
    finally:
        _rustdev.memory_restore_pool(index, number)
