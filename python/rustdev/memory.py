"""Device memory and pinned host memory, with the names and the behaviour of ``torch.cuda.memory``."""

import collections
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch.cuda._memory_viz import memory as _memory_flamegraph
from torch.cuda._memory_viz import segments as _segments_flamegraph
from typing_extensions import deprecated

from . import _rustdev
from ._utils import DeviceLike, _checked_device_index, _expect_callable
from .device import is_initialized
from .mem_pools import MemPool, use_mem_pool

__all__ = [
    "MemPool",
    "attach_out_of_memory_observer",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_enable",
    "device_memory_used",
    "empty_cache",
    "empty_host_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "list_gpu_processes",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]


def caching_allocator_alloc(size: int, device: DeviceLike = None, stream: "torch.Stream | int | None" = None) -> int:
    """Allocate memory as tensors do, for use without one.

    Args:
        size: Bytes.
        device: Default: the current one.
        stream: The stream whose tasks will use it, or its id; default: the current one of the device.

    Returns:
        The address; 0 for no bytes.

    Raises:
        ValueError: The size is negative, or the stream is one of another device.
        torch.OutOfMemoryError: The budget or the machine is used up.
    """
    if size < 0:
        raise ValueError(f"the size of an allocation cannot be negative: {size}")
    index = _checked_device_index(device)
    if stream is None:
        stream = torch.accelerator.current_stream(index)
    if isinstance(stream, torch.Stream):
        if stream.device != torch.device("rustdev", index):
            raise ValueError(f"memory of rustdev:{index} cannot belong to a stream of {stream.device}")
        stream = stream.stream_id
    return _rustdev.memory_allocate(index, stream, size)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Free memory that :func:`caching_allocator_alloc` gave.

    Raises:
        RuntimeError: No live block starts there.
    """
    _rustdev.memory_free(mem_ptr)


def caching_allocator_enable(value: bool = True) -> None:
    """Do nothing: memory is always cached.

    Raises:
        NotImplementedError: The cache is to be switched off; :func:`empty_cache` gives it back.
    """
    if not value:
        raise NotImplementedError("the cache of rustdev's memory cannot be switched off; torch.rustdev.empty_cache() gives it back")


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Limit what this process may use of a device's memory; requests beyond it raise ``torch.OutOfMemoryError``.

    Args:
        fraction: Of the device's total memory, from 0 to 1.
        device: Default: the current one.
    """
    if not isinstance(fraction, float):
        raise TypeError(f"the fraction must be a float, not {type(fraction).__name__}")
    if not 0 <= fraction <= 1:
        raise ValueError(f"the fraction must lie between 0 and 1: {fraction}")
    _rustdev.memory_set_fraction(_checked_device_index(device), fraction)


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    """Return the part of a device's memory that this process may use.

    Args:
        device: Default: the current one.
    """
    return _rustdev.memory_get_fraction(_checked_device_index(device))


def empty_cache() -> None:
    """Give cached device memory that no tensor uses back to the system, after waiting for the devices."""
    if is_initialized():
        _rustdev.memory_empty_cache()


def empty_host_cache() -> None:
    """Give cached pinned host memory that no tensor uses back to the system."""
    if is_initialized():
        torch._C._accelerator_emptyHostCache()


def get_allocator_backend() -> str:
    """Return the name of the allocator: always ``"native"``."""
    return "native"


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return the free and the total bytes of a device: free is what no pool has reserved of the budget, which devices may share.

    Args:
        device: Default: the current one.
    """
    return _rustdev.memory_info(_checked_device_index(device))


def _flatten(nested: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in nested.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """Return the counters of a device's memory.

    The keys are those of ``torch.cuda.memory_stats``: ``allocation``, ``segment``, ``active``, ``inactive_split``,
    ``allocated_bytes``, ``reserved_bytes``, ``active_bytes``, ``inactive_split_bytes`` and ``requested_bytes``, each with
    ``.{all,small_pool,large_pool}.{current,peak,allocated,freed}``; ``oversize_allocations`` and ``oversize_segments`` with
    ``.{current,peak,allocated,freed}``; ``num_alloc_retries``, ``num_ooms``, ``num_oom_rejections``, ``num_sync_all_streams``,
    ``num_device_alloc``, ``num_device_free`` and ``max_split_size`` (-1: no limit).

    Args:
        device: Default: the current one.

    Returns:
        The counters by name, sorted; empty before the first use of the device, and in a forked child.
    """
    return collections.OrderedDict(sorted(_flatten(memory_stats_as_nested_dict(device))))


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """Return what :func:`memory_stats` returns, as a dictionary of dictionaries."""
    return _rustdev.memory_stats(_checked_device_index(device)) if is_initialized() else {}


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Set the ``allocated`` and ``freed`` values of a device's counters, and its event counts, to 0.

    Args:
        device: Default: the current one.
    """
    _rustdev.memory_reset_accumulated(_checked_device_index(device))


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Let the peaks of a device's counters start again from their values now.

    Args:
        device: Default: the current one.
    """
    _rustdev.memory_reset_peak(_checked_device_index(device))


def memory_allocated(device: DeviceLike = None) -> int:
    """Return the bytes that tensors of a device occupy.

    Args:
        device: Default: the current one.
    """
    return int(memory_stats(device).get("allocated_bytes.all.current", 0))


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Return the most bytes that tensors of a device occupied since the last :func:`reset_peak_memory_stats`.

    Args:
        device: Default: the current one.
    """
    return int(memory_stats(device).get("allocated_bytes.all.peak", 0))


def memory_reserved(device: DeviceLike = None) -> int:
    """Return the bytes that the pool of a device holds, for tensors and as cache.

    Args:
        device: Default: the current one.
    """
    return int(memory_stats(device).get("reserved_bytes.all.current", 0))


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Return the most bytes that the pool of a device held since the last :func:`reset_peak_memory_stats`.

    Args:
        device: Default: the current one.
    """
    return int(memory_stats(device).get("reserved_bytes.all.peak", 0))


@deprecated("`torch.rustdev.memory_cached` has been renamed to `torch.rustdev.memory_reserved`", category=FutureWarning)
def memory_cached(device: DeviceLike = None) -> int:
    """Return what :func:`memory_reserved` returns."""
    return memory_reserved(device)


@deprecated("`torch.rustdev.max_memory_cached` has been renamed to `torch.rustdev.max_memory_reserved`", category=FutureWarning)
def max_memory_cached(device: DeviceLike = None) -> int:
    """Return what :func:`max_memory_reserved` returns."""
    return max_memory_reserved(device)


@deprecated(
    "`torch.rustdev.reset_max_memory_allocated` now calls `reset_peak_memory_stats`, which resets all peaks", category=FutureWarning
)
def reset_max_memory_allocated(device: DeviceLike = None) -> None:
    """Do what :func:`reset_peak_memory_stats` does."""
    reset_peak_memory_stats(device)


@deprecated(
    "`torch.rustdev.reset_max_memory_cached` now calls `reset_peak_memory_stats`, which resets all peaks", category=FutureWarning
)
def reset_max_memory_cached(device: DeviceLike = None) -> None:
    """Do what :func:`reset_peak_memory_stats` does."""
    reset_peak_memory_stats(device)


def device_memory_used(device: DeviceLike = None) -> int:
    """Return the bytes of a device that are in use: what its pool holds, for a device belongs to one process.

    Args:
        device: Default: the current one.
    """
    return memory_reserved(device)


def list_gpu_processes(device: DeviceLike = None) -> str:
    """Return the processes that use a device as text: this one, if it has memory there.

    Args:
        device: Default: the current one.
    """
    index = _checked_device_index(device)
    used = device_memory_used(index)
    process = f"process {os.getpid():>10d} uses {used / (1 << 20):>12.3f} MB GPU memory" if used else "no processes are running"
    return f"GPU:{index}\n{process}"


def host_memory_stats() -> dict[str, Any]:
    """Return the counters of pinned host memory.

    The keys are those of ``torch.cuda.host_memory_stats``: ``allocations``, ``allocated_bytes`` (all blocks, cached ones too),
    ``active_requests`` and ``active_bytes`` (blocks in use), each with ``.{current,peak,allocated,freed}``; ``num_host_alloc`` and
    ``num_host_free``; ``host_alloc_time`` and ``host_free_time`` with ``.{total,max,min,count,avg}`` in microseconds.
    """
    return collections.OrderedDict(sorted(_flatten(host_memory_stats_as_nested_dict())))


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Return what :func:`host_memory_stats` returns, as a dictionary of dictionaries."""
    return _rustdev.host_memory_stats() if is_initialized() else {}


def reset_accumulated_host_memory_stats() -> None:
    """Set the ``allocated`` and ``freed`` values and the counts of pinned host memory to 0."""
    _rustdev.host_memory_reset_accumulated()


def reset_peak_host_memory_stats() -> None:
    """Let the peaks of the counters of pinned host memory start again from their values now."""
    _rustdev.host_memory_reset_peak()


_SUMMARY_BYTES = {
    "allocated_bytes": "Allocated memory",
    "active_bytes": "Active memory",
    "requested_bytes": "Requested memory",
    "reserved_bytes": "Reserved memory",
    "inactive_split_bytes": "Non-releasable memory",
}
_SUMMARY_COUNTS = {
    "allocation": "Allocations",
    "active": "Active blocks",
    "segment": "Segments",
    "inactive_split": "Non-releasable blocks",
}
_SUMMARY_OVERSIZE = {"oversize_allocations": "Oversize allocations", "oversize_segments": "Oversize segments"}
_SUMMARY_WIDTH = 75


def _size_text(value: int) -> str:
    if value < 1024:
        return f"{value} B"
    scaled = value / 1024
    units = iter(("KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while scaled >= 1024 and unit != "TiB":
        scaled, unit = scaled / 1024, next(units)
    return f"{scaled:.1f} {unit}"


def _summary_row(title: str, counter: Mapping[str, int], text: Callable[[int], str]) -> str:
    values = (text(counter[key]) for key in ("current", "peak", "allocated", "freed"))
    return " | ".join((f"{title:<23}", *(f"{value:>10}" for value in values)))


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """Return the counters of a device as a table for people.

    Args:
        device: Default: the current one.
        abbreviated: Whether to leave the rows of the two kinds of segments out.
    """
    index = _checked_device_index(device)
    stats = memory_stats_as_nested_dict(index)
    rule = "-" * _SUMMARY_WIDTH
    lines = [
        f"rustdev memory summary, device {index}",
        f"out-of-memory errors: {stats['num_ooms']}; retries after giving the cache back: {stats['num_alloc_retries']}",
        rule,
        " | ".join((f"{'':<23}", *(f"{title:>10}" for title in ("current", "peak", "total", "freed")))),
    ]
    for titles, text in ((_SUMMARY_BYTES, _size_text), (_SUMMARY_COUNTS, str)):
        for key, title in titles.items():
            lines += [rule, _summary_row(title, stats[key]["all"], text)]
            if not abbreviated:
                lines.append(_summary_row("  in large segments", stats[key]["large_pool"], text))
                lines.append(_summary_row("  in small segments", stats[key]["small_pool"], text))
    for key, title in _SUMMARY_OVERSIZE.items():
        lines += [rule, _summary_row(title, stats[key], str)]
    return "\n".join([*lines, rule, ""])


def memory_snapshot(mempool_id: tuple[int, int] | None = None, include_traces: bool = True) -> list[dict[str, Any]]:
    """Return the segments of every device with their blocks; see :func:`_snapshot` for the structure.

    Args:
        mempool_id: ``(0, 0)`` for the general pool, or that of a graph or ``MemPool``: only its segments. None: those of all pools.
        include_traces: Taken for compatibility with ``torch.cuda``; segments hold no traces.
    """
    segments: list[dict[str, Any]] = _rustdev.memory_snapshot(False)["segments"]
    return [segment for segment in segments if mempool_id in (None, segment["segment_pool_id"])]


def _record_memory_history(enabled: Literal["state", "all"] | bool | None = "all", *args: Any, **kwargs: Any) -> None:
    """Start, change or stop the recording of allocations and of the Python stacks that made them, on every device.

    With a bool as its first argument this is the older form of ``torch.cuda``, with ``record_context=True``,
    ``trace_alloc_max_entries=1`` and ``trace_alloc_record_context=False``, which keeps stacks of live memory, or of allocations.

    Args:
        enabled: None stops and forgets; ``"state"`` keeps stacks of live memory; ``"all"`` keeps every event, too.
        args: The arguments below by position, in this order.
        kwargs: ``context`` (default ``"all"``): for what stacks are kept: None, ``"state"`` (live memory), ``"alloc"`` (allocations
            too), or ``"all"`` (frees too). ``max_entries``: how many events of a device are kept; the oldest go first.
            ``clear_history``: whether to forget what was recorded before. ``skip_actions``: actions that are not kept: ``"alloc"``,
            ``"free_requested"``, ``"free_completed"``, ``"segment_alloc"``, ``"segment_free"``, ``"oom"``, ``"snapshot"``.
            ``stacks``, ``device``, ``compile_context`` and ``global_record_annotations`` are taken for compatibility with
            ``torch.cuda``: stacks are those of Python.

    Raises:
        NotImplementedError: ``record_pinned_host_memory`` is set, or ``record_cuda`` is not: the history is that of device memory.
    """
    if isinstance(enabled, bool):
        _record_history_legacy(enabled, *args, **kwargs)
    else:
        _record_history(enabled, *args, **kwargs)


def _record_history(
    enabled: Literal["state", "all"] | None = "all",
    context: Literal["state", "alloc", "all"] | None = "all",
    stacks: Literal["python", "all"] = "all",
    max_entries: int = sys.maxsize,
    device: DeviceLike = None,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: Sequence[str] | None = None,
    record_pinned_host_memory: bool = False,
    record_cuda: bool = True,
) -> None:
    if enabled not in (None, "state", "all"):
        raise ValueError(f"enabled is None, 'state' or 'all', not {enabled!r}")
    if stacks not in ("python", "all"):
        raise ValueError(f"stacks is 'python' or 'all', not {stacks!r}")
    if max_entries < 0:
        raise ValueError(f"max_entries cannot be negative: {max_entries}")
    if record_pinned_host_memory or not record_cuda:
        raise NotImplementedError("rustdev records the history of device memory, not that of pinned host memory")
    _rustdev.memory_record_history(
        enabled == "all",
        context if enabled is not None else None,
        max_entries,
        list(skip_actions or ()),
        clear_history or enabled is None,
    )


def _record_history_legacy(
    enabled: bool,
    record_context: bool = True,
    trace_alloc_max_entries: int = 1,
    trace_alloc_record_context: bool = False,
    device: DeviceLike = None,
    record_context_cpp: bool = False,
    clear_history: bool = False,
    *args: Any,
    **kwargs: Any,
) -> None:
    context: Literal["state", "alloc"] | None = "alloc" if trace_alloc_record_context else "state" if record_context else None
    _record_history("all" if enabled else None, context, "python", trace_alloc_max_entries, device, clear_history, *args, **kwargs)


def _snapshot(device: DeviceLike = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """Return the state of the memory of every device, in the structure of ``torch.cuda.memory._snapshot``.

    ``segments`` lists the segments, each with its ``blocks`` in order of address; a block's ``state`` is ``active_allocated``,
    ``active_awaiting_free`` or ``inactive``. ``device_traces`` lists the recorded events of each device. ``frames`` are Python
    stacks, the innermost frame first.

    Args:
        device: Taken for compatibility with ``torch.cuda``, which ignores it, too.
        augment_with_fx_traces: Whether frames of compiled code say which source they come from.
    """
    snapshot: Any = _rustdev.memory_snapshot(True)
    if augment_with_fx_traces:
        snapshot = torch._utils._augment_memory_snapshot_stack_traces(snapshot)
    return dict(snapshot)


def _dump_snapshot(filename: str = "dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """Write a snapshot to a file that https://pytorch.org/memory_viz and ``torch/cuda/_memory_viz.py`` show.

    Args:
        filename: The file, which is overwritten.
        augment_with_fx_traces: Whether frames of compiled code say which source they come from.
    """
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(augment_with_fx_traces=augment_with_fx_traces), file)


def _save_segment_usage(filename: str = "output.svg", snapshot: dict[str, Any] | None = None) -> None:
    """Draw the segments of a snapshot as a flame graph.

    Args:
        filename: The SVG file to write.
        snapshot: Default: one taken now.
    """
    with open(filename, "w", encoding="utf-8") as file:
        file.write(_segments_flamegraph(_snapshot() if snapshot is None else snapshot))


def _save_memory_usage(filename: str = "output.svg", snapshot: dict[str, Any] | None = None) -> None:
    """Draw the memory of a snapshot, over all segments, as a flame graph.

    Args:
        filename: The SVG file to write.
        snapshot: Default: one taken now.
    """
    with open(filename, "w", encoding="utf-8") as file:
        file.write(_memory_flamegraph(_snapshot() if snapshot is None else snapshot))


def _allocation_traceback(data_ptr: int) -> list[dict[str, Any]] | None:
    """Return the Python stack that allocated the memory at an address; None if none was recorded.

    Args:
        data_ptr: Where a storage begins.
    """
    return _rustdev.memory_traceback(data_ptr)


def attach_out_of_memory_observer(observer: Callable[[int, int, int, int], object]) -> None:
    """Have a function called before each out-of-memory error is raised; it stays attached.

    Args:
        observer: Called with the device's index, the bytes asked for, the device's total bytes, and its free bytes. What it
            raises is printed, and does not replace the error.
    """
    _expect_callable(observer)
    _rustdev.memory_attach_shortage_observer(observer)
