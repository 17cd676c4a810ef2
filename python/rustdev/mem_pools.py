"""User-defined memory pools, with the names and the behaviour of ``torch.cuda.MemPool`` and ``use_mem_pool``."""

import contextlib
from collections.abc import Iterator
from typing import Any

from . import _rustdev
from ._name import NAME
from ._utils import DeviceLike, _checked_device_index

__all__ = ["MemPool", "use_mem_pool"]


class MemPool:
    """A private pool of device memory, for ``use_mem_pool`` and for the ``pool`` argument of graphs.

    The pool is empty at first. It keeps memory that it takes from the system for its next allocations, until the object and all
    graphs that use the pool are deleted. Tensors stay valid beyond that: their memory is released when they are deleted.

    Args:
        allocator: Must be None: memory comes from the device's own allocator.
        use_on_oom: Whether free memory of the pool may serve other allocations that would otherwise run out of memory. It does so
            only until a graph uses the pool, because a replay writes to free memory of the pool as well.
        no_split: Whether a segment serves one allocation at a time: free blocks are never split.

    Raises:
        NotImplementedError: If ``allocator`` is not None.
    """

    def __init__(self, allocator: object = None, use_on_oom: bool = False, no_split: bool = False) -> None:
        if allocator is not None:
            raise NotImplementedError(
                "MemPool: an allocator of one's own is not supported, because the memory of a device is one range of addresses, "
                f"which {NAME}'s allocator manages"
            )
        self._use = _rustdev.PrivatePoolUse(use_on_oom, no_split)

    @property
    def id(self) -> tuple[int, int]:
        """Id of the pool, as in graphs and snapshots."""
        return 0, self._use.number

    @property
    def allocator(self) -> None:
        """None: memory comes from the device's own allocator."""

    def use_count(self) -> int:
        """Return the number of users of the pool: this object, each active ``use_mem_pool`` block, and each graph."""
        return self._use.use_count()

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """Return the segments of the pool on all devices, as ``torch.rustdev.memory_snapshot(pool.id)`` does.

        Args:
            include_traces: Ignored, accepted for compatibility with ``torch.cuda``: segments hold no traces.
        """
        from .memory import memory_snapshot

        return memory_snapshot(self.id, include_traces)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: DeviceLike = None) -> Iterator[None]:
    """Context manager in which allocations of the calling thread on a device come from a pool.

    Blocks may be nested; the innermost pool is used. A graph that is captured within a block uses its own pool. If a block is
    entered during a capture, the graph keeps the pool in use for the graph's lifetime.

    Args:
        pool: Pool to allocate from.
        device: Selected device. Default: the current device. Other devices are unaffected; one pool may serve several devices by
            nested blocks.

    Raises:
        TypeError: If ``pool`` is not a ``MemPool``.
    """
    if not isinstance(pool, MemPool):
        raise TypeError(f"expected a torch.{NAME}.MemPool, got {type(pool).__name__}")
    index = _checked_device_index(device)
    _, number = pool.id
    _rustdev.memory_choose_pool(index, number)
    try:
        yield
    finally:
        _rustdev.memory_restore_pool(index, number)
