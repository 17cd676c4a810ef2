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
from ._name import NAME
from ._utils import DeviceLike, _checked_device_index, _expect_callable
from .device import init, is_initialized
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
    """Allocate device memory from the caching allocator without a tensor.

    Args:
        size: Number of bytes.
        device: Selected device. Default: the current device.
        stream: Stream whose tasks will use the memory, or its id. Default: the current stream of the device.

    Returns:
        The address of the memory; 0 if ``size`` is 0.

    Raises:
        ValueError: If ``size`` is negative, or ``stream`` belongs to another device.
        torch.OutOfMemoryError: If the memory budget or the system's memory is exhausted.
    """
    if size < 0:
        raise ValueError(f"the size of an allocation cannot be negative: {size}")
    index = _checked_device_index(device)
    if stream is None:
        stream = torch.accelerator.current_stream(index)
    if isinstance(stream, torch.Stream):
        if stream.device != torch.device(NAME, index):
            raise ValueError(f"memory of {NAME}:{index} cannot belong to a stream of {stream.device}")
        stream = stream.stream_id
    return _rustdev.memory_allocate(index, stream, size)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Free memory that :func:`caching_allocator_alloc` allocated.

    Args:
        mem_ptr: Address of the memory.

    Raises:
        RuntimeError: If no allocated block starts at the address.
    """
    _rustdev.memory_free(mem_ptr)


def caching_allocator_enable(value: bool = True) -> None:
    """Do nothing: the caching allocator is always enabled.

    Args:
        value: Must be True.

    Raises:
        NotImplementedError: If ``value`` is False. :func:`empty_cache` releases cached memory.
    """
    if not value:
        raise NotImplementedError(f"the cache of {NAME}'s memory cannot be switched off; torch.{NAME}.empty_cache() gives it back")


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Limit the memory of a device that this process may use. Requests beyond the limit raise ``torch.OutOfMemoryError``.

    Args:
        fraction: Fraction of the device's total memory, a float from 0 to 1.
        device: Selected device. Default: the current device.

    Raises:
        TypeError: If ``fraction`` is not a float.
        ValueError: If ``fraction`` is not between 0 and 1.
    """
    if not isinstance(fraction, float):
        raise TypeError(f"the fraction must be a float, not {type(fraction).__name__}")
    if not 0 <= fraction <= 1:
        raise ValueError(f"the fraction must lie between 0 and 1: {fraction}")
    _rustdev.memory_set_fraction(_checked_device_index(device), fraction)


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    """Return the fraction of a device's total memory that this process may use.

    Args:
        device: Selected device. Default: the current device.
    """
    return _rustdev.memory_get_fraction(_checked_device_index(device))


def empty_cache() -> None:
    """Wait for the devices, then release all unused cached device memory to the system."""
    if is_initialized():
        _rustdev.memory_empty_cache()


def empty_host_cache() -> None:
    """Release all unused cached pinned host memory to the system."""
    if is_initialized():
        torch._C._accelerator_emptyHostCache()


def get_allocator_backend() -> str:
    """Return the name of the allocator: always ``"native"``."""
    return "native"


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return the free and the total memory of a device in bytes.

    Total memory is the memory budget, which devices may share. Free memory is the part of the budget that no pool has reserved.

    Args:
        device: Selected device. Default: the current device.
    """
    return torch._C._accelerator_getMemoryInfo(_checked_device_index(device))


def _flatten(nested: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in nested.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """Return the memory allocator statistics of a device.

    The keys are those of ``torch.cuda.memory_stats``: ``allocation``, ``segment``, ``active``, ``inactive_split``,
    ``allocated_bytes``, ``reserved_bytes``, ``active_bytes``, ``inactive_split_bytes`` and ``requested_bytes``, each with
    ``.{all,small_pool,large_pool}.{current,peak,allocated,freed}``; ``oversize_allocations`` and ``oversize_segments`` with
    ``.{current,peak,allocated,freed}``; ``num_alloc_retries``, ``num_ooms``, ``num_oom_rejections``, ``num_sync_all_streams``,
    ``num_device_alloc``, ``num_device_free`` and ``max_split_size`` (-1: no limit).

    Args:
        device: Selected device. Default: the current device.

    Returns:
        The counters, sorted by name. Empty before the first use of the device, and in a forked child.
    """
    return collections.OrderedDict(sorted(_flatten(memory_stats_as_nested_dict(device))))


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """Return the result of :func:`memory_stats` as a nested dictionary.

    Args:
        device: Selected device. Default: the current device.
    """
    if not is_initialized():
        return {}
    stats = torch._C._accelerator_getDeviceStats(_checked_device_index(device))
    return {"num_oom_rejections": 0, "reserved_bytes_by_private_pools": {}} | stats


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Reset the ``allocated`` and ``freed`` values of a device's counters, and its event counts, to 0.

    Args:
        device: Selected device. Default: the current device.
    """
    init()
    torch._C._accelerator_resetAccumulatedStats(_checked_device_index(device))


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Reset the ``peak`` values of a device's counters to the current values.

    Args:
        device: Selected device. Default: the current device.
    """
    init()
    torch._C._accelerator_resetPeakStats(_checked_device_index(device))


def memory_allocated(device: DeviceLike = None) -> int:
    """Return the device memory occupied by tensors, in bytes.

    Args:
        device: Selected device. Default: the current device.
    """
    return int(memory_stats(device).get("allocated_bytes.all.current", 0))


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Return the maximum device memory occupied by tensors since the last :func:`reset_peak_memory_stats`, in bytes.

    Args:
        device: Selected device. Default: the current device.
    """
    return int(memory_stats(device).get("allocated_bytes.all.peak", 0))


def memory_reserved(device: DeviceLike = None) -> int:
    """Return the device memory managed by the caching allocator, in bytes.

    Args:
        device: Selected device. Default: the current device.
    """
    return int(memory_stats(device).get("reserved_bytes.all.current", 0))


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Return the maximum device memory managed by the caching allocator since :func:`reset_peak_memory_stats`, in bytes.

    Args:
        device: Selected device. Default: the current device.
    """
    return int(memory_stats(device).get("reserved_bytes.all.peak", 0))


@deprecated(f"`torch.{NAME}.memory_cached` has been renamed to `torch.{NAME}.memory_reserved`", category=FutureWarning)
def memory_cached(device: DeviceLike = None) -> int:
    """Deprecated; see :func:`memory_reserved`."""
    return memory_reserved(device)


@deprecated(f"`torch.{NAME}.max_memory_cached` has been renamed to `torch.{NAME}.max_memory_reserved`", category=FutureWarning)
def max_memory_cached(device: DeviceLike = None) -> int:
    """Deprecated; see :func:`max_memory_reserved`."""
    return max_memory_reserved(device)


@deprecated(
    f"`torch.{NAME}.reset_max_memory_allocated` now calls `reset_peak_memory_stats`, which resets all peaks", category=FutureWarning
)
def reset_max_memory_allocated(device: DeviceLike = None) -> None:
    """Deprecated; see :func:`reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


@deprecated(
    f"`torch.{NAME}.reset_max_memory_cached` now calls `reset_peak_memory_stats`, which resets all peaks", category=FutureWarning
)
def reset_max_memory_cached(device: DeviceLike = None) -> None:
    """Deprecated; see :func:`reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def device_memory_used(device: DeviceLike = None) -> int:
    """Return the device memory in use, in bytes: the reserved memory of this process, as a device belongs to one process.

    Args:
        device: Selected device. Default: the current device.
    """
    return memory_reserved(device)


def list_gpu_processes(device: DeviceLike = None) -> str:
    """Return a printout of the processes that use a device and their memory use: at most this process.

    Args:
        device: Selected device. Default: the current device.
    """
    index = _checked_device_index(device)
    used = device_memory_used(index)
    process = f"process {os.getpid():>10d} uses {used / (1 << 20):>12.3f} MB GPU memory" if used else "no processes are running"
    return f"GPU:{index}\n{process}"


def host_memory_stats() -> dict[str, Any]:
    """Return the statistics of the pinned host memory allocator.

    The keys are those of ``torch.cuda.host_memory_stats``: ``allocations``, ``allocated_bytes`` (all blocks, cached ones too),
    ``active_requests`` and ``active_bytes`` (blocks in use), each with ``.{current,peak,allocated,freed}``; ``num_host_alloc`` and
    ``num_host_free``; ``host_alloc_time`` and ``host_free_time`` with ``.{total,max,min,count,avg}`` in microseconds.
    """
    return collections.OrderedDict(sorted(_flatten(host_memory_stats_as_nested_dict())))


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Return the result of :func:`host_memory_stats` as a nested dictionary."""
    return _rustdev.host_memory_stats() if is_initialized() else {}


def reset_accumulated_host_memory_stats() -> None:
    """Reset the ``allocated`` and ``freed`` values and the counts of pinned host memory to 0."""
    _rustdev.host_memory_reset_stats(accumulated=True)


def reset_peak_host_memory_stats() -> None:
    """Reset the ``peak`` values of the counters of pinned host memory to the current values."""
    _rustdev.host_memory_reset_stats(accumulated=False)


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
    """Return a human-readable printout of the memory allocator statistics of a device.

    Args:
        device: Selected device. Default: the current device.
        abbreviated: Whether to omit the rows of the large and small segments.
    """
    index = _checked_device_index(device)
    stats = memory_stats_as_nested_dict(index)
    rule = "-" * _SUMMARY_WIDTH
    lines = [
        f"{NAME} memory summary, device {index}",
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
    """Return the memory segments of all devices with their blocks; see :func:`_snapshot` for the structure.

    Args:
        mempool_id: Id of the pool whose segments are returned: ``(0, 0)`` for the general pool, or the id of a graph's pool or of a
            ``MemPool``. Default: all pools.
        include_traces: Ignored, accepted for compatibility with ``torch.cuda``: segments hold no traces.
    """
    segments: list[dict[str, Any]] = _rustdev.memory_snapshot(False)["segments"]
    return [segment for segment in segments if mempool_id in (None, segment["segment_pool_id"])]


def _record_memory_history(enabled: Literal["state", "all"] | bool | None = "all", *args: Any, **kwargs: Any) -> None:
    """Start, change or stop the recording of allocations with their Python stacks, on all devices.

    A bool as the first argument selects the legacy form of ``torch.cuda``, with the further arguments ``record_context=True``,
    ``trace_alloc_max_entries=1`` and ``trace_alloc_record_context=False``. It keeps the stacks of live memory, or of allocations.

    Args:
        enabled: None stops recording and clears the history. ``"state"`` keeps the stacks of live memory. ``"all"`` also keeps the
            history of events.
        args: The arguments below by position, in this order.
        kwargs: ``context`` (default ``"all"``): what stacks are kept for: None, ``"state"`` (live memory), ``"alloc"`` (also
            allocations), or ``"all"`` (also frees). ``max_entries``: maximum number of events per device; the oldest are dropped.
            ``clear_history``: whether to clear the history. ``skip_actions``: actions that are not recorded: ``"alloc"``,
            ``"free_requested"``, ``"free_completed"``, ``"segment_alloc"``, ``"segment_free"``, ``"oom"``, ``"snapshot"``.
            ``stacks``, ``device``, ``compile_context`` and ``global_record_annotations`` are ignored, for compatibility with
            ``torch.cuda``: stacks are always Python stacks.

    Raises:
        NotImplementedError: If ``record_pinned_host_memory`` is True or ``record_cuda`` is False: only device memory is recorded.
        ValueError: If an argument has none of the values above.
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
        raise NotImplementedError(f"{NAME} records the history of device memory, not that of pinned host memory")
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
    """Return a snapshot of the memory of all devices, in the structure of ``torch.cuda.memory._snapshot``.

    ``segments`` lists the segments, each with its ``blocks`` in order of address. A block's ``state`` is ``active_allocated``,
    ``active_awaiting_free`` or ``inactive``. ``device_traces`` lists the recorded events of each device. ``frames`` are Python
    stacks, innermost frame first.

    Args:
        device: Ignored, as in ``torch.cuda``.
        augment_with_fx_traces: Whether to add the original source lines to the frames of compiled code.
    """
    snapshot: Any = _rustdev.memory_snapshot(True)
    if augment_with_fx_traces:
        snapshot = torch._utils._augment_memory_snapshot_stack_traces(snapshot)
    return dict(snapshot)


def _dump_snapshot(filename: str = "dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """Save a pickled snapshot to a file, for https://pytorch.org/memory_viz and ``torch/cuda/_memory_viz.py``.

    Args:
        filename: File to write. An existing file is overwritten.
        augment_with_fx_traces: Whether to add the original source lines to the frames of compiled code.
    """
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(augment_with_fx_traces=augment_with_fx_traces), file)


def _save_segment_usage(filename: str = "output.svg", snapshot: dict[str, Any] | None = None) -> None:
    """Draw the segments of a snapshot as a flame graph.

    Args:
        filename: SVG file to write.
        snapshot: Snapshot to draw. Default: a new snapshot.
    """
    with open(filename, "w", encoding="utf-8") as file:
        file.write(_segments_flamegraph(_snapshot() if snapshot is None else snapshot))


def _save_memory_usage(filename: str = "output.svg", snapshot: dict[str, Any] | None = None) -> None:
    """Draw the memory of a snapshot, over all segments, as a flame graph.

    Args:
        filename: SVG file to write.
        snapshot: Snapshot to draw. Default: a new snapshot.
    """
    with open(filename, "w", encoding="utf-8") as file:
        file.write(_memory_flamegraph(_snapshot() if snapshot is None else snapshot))


def _allocation_traceback(data_ptr: int) -> list[dict[str, Any]] | None:
    """Return the Python stack that allocated the memory at an address, or None if no stack was recorded.

    Args:
        data_ptr: Start address of a storage.
    """
    return _rustdev.memory_traceback(data_ptr)


def attach_out_of_memory_observer(observer: Callable[[int, int, int, int], object]) -> None:
    """Attach a function that is called before each out-of-memory error is raised. It cannot be detached.

    Args:
        observer: Called with the device index, the requested bytes, and the device's total and free bytes. An exception that it
            raises is printed and does not replace the out-of-memory error.

    Raises:
        TypeError: If ``observer`` is not callable.
    """
    _expect_callable(observer)
    _rustdev.memory_attach_shortage_observer(observer)
