"""The extension module: direct access to the runtime. Private to the package, which validates the arguments."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, final

from typing_extensions import Self

__all__ = [
    "Completion",
    "PrivatePoolUse",
    "SanitizerClock",
    "SimulatedMoment",
    "__version__",
    "backend",
    "clock_begin",
    "clock_collective",
    "clock_end",
    "clock_profile",
    "clock_report",
    "cuda_mode_calls",
    "cuda_mode_is_asked_by_pytorch",
    "cuda_mode_is_on",
    "cuda_mode_switch",
    "current_device",
    "device_count",
    "dry_run_begin",
    "dry_run_end",
    "event_elapsed",
    "event_open",
    "event_share",
    "fallback_list",
    "fallback_mode",
    "fallback_stats",
    "faults_loss",
    "faults_push",
    "faults_remove",
    "graph_pool_handle",
    "host_memory_reset_stats",
    "host_memory_stats",
    "instruction_set",
    "instruction_sets",
    "interface",
    "ipc_cancel",
    "ipc_collect",
    "ipc_give_back",
    "ipc_receive",
    "ipc_send",
    "is_dry_run",
    "is_fork_child",
    "is_started",
    "launch_host_func",
    "memory_allocate",
    "memory_attach_shortage_observer",
    "memory_choose_pool",
    "memory_empty_cache",
    "memory_free",
    "memory_get_fraction",
    "memory_record_history",
    "memory_restore_pool",
    "memory_set_fraction",
    "memory_snapshot",
    "memory_traceback",
    "nccl_mode",
    "num_threads",
    "op_calls",
    "profile",
    "profiles",
    "reset_fallback_stats",
    "sanitizer_begin",
    "sanitizer_clear",
    "sanitizer_collective",
    "sanitizer_disable",
    "sanitizer_enable",
    "sanitizer_findings",
    "sanitizer_mode",
    "sanitizer_raise",
    "sanitizer_waits_for_nothing",
    "schedule_switch",
    "set_fallback_list",
    "set_fallback_mode",
    "set_num_threads",
    "set_sync_debug_mode",
    "sleep",
    "stream_from_handle",
    "stream_priority",
    "sync_debug_mode",
    "total_memory",
    "trace_limit",
    "trace_set_limit",
    "trace_start",
    "trace_stop",
    "waits_spans",
    "waits_start",
    "waits_stop",
    "waits_sums",
]

__version__: str
backend: str
#: Hash of the interface between core and shim: 16 hexadecimal digits.
interface: str

# src/python/py_completion.rs

@final
class Completion:
    """Completion of work that runs outside of the streams.

    Args:
        prefix: Prefix of the failure message.
    """

    def __new__(cls, prefix: str = "") -> Self: ...
    @property
    def handle(self) -> int:
        """Address of the completion for the shim, valid for the lifetime of this object."""

    def is_over(self) -> bool:
        """Return whether the work has ended, successfully or not."""

    def failure(self) -> str | None:
        """Return the failure message; None if the work has not ended or has not failed."""

    def note_writes(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Record that the work writes to the memory ranges (address, bytes) until it ends."""

    def end(self, failure: str | None = None) -> None:
        """Mark the work as ended, with a failure message if it failed."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end, at most ``seconds``. Return whether the work has ended."""

    def hold(self, device: int, stream: int, fails: bool = True) -> None:
        """Make future work of a stream wait for the end. ``fails``: whether a failure of the work fails the stream."""

    def fail(self, device: int, stream: int) -> None:
        """Make a failure of the work fail a stream, without a wait of the stream."""

# src/python/py_clock.rs

#: Host, (device, busy times of kernels, copies in, copies out, links) of each device, operations, kernels. Times are nanoseconds.
_Counted: TypeAlias = tuple[int, list[tuple[int, tuple[int, int, int, int]]], int, int]

def clock_begin(profile: str) -> None:
    """Start the clock of a profile, given by its name or the path of its file."""

def clock_end() -> None:
    """End the clock, if one runs."""

def clock_report() -> _Counted | None:
    """Return what the clock has counted so far; None if no clock runs."""

def clock_profile() -> str | None:
    """Return the name of the profile whose clock runs."""

@final
class SimulatedMoment:
    """Simulated time at which a collective ends."""

    def order(self, device: int, stream: int) -> None:
        """Make future work of a stream come after the moment."""

    def wait(self) -> None:
        """Make the host wait for the moment."""

def clock_collective(
    name: str, device: int, stream: int, communicator: int, ranks: Sequence[int], nbytes: int
) -> SimulatedMoment | None:
    """Let a collective of some ranks begin behind the work of a stream, on the stream of its communicator.

    ``nbytes`` are those of this rank's larger side, input or output.

    Returns:
        The moment of its end; None if no clock runs.
    """

# src/python/py_debugging.rs

def dry_run_begin(at_start: bool) -> None:
    """Begin a dry run; with ``at_start`` only if the environment asks for one."""

def dry_run_end() -> bool:
    """End a dry run and return whether none is left."""

def is_dry_run() -> bool:
    """Return whether a dry run is on."""

def faults_loss(rank: int) -> tuple[bool, str] | None:
    """Count a collective of a rank. Return (whether the process ends, fault) if the rank is to be lost in it, else None."""

def faults_push(faults: str) -> int:
    """Activate a list of faults and return its number."""

def faults_remove(number: int) -> None:
    """Remove the list of faults with a number."""

def schedule_switch(order: str | None) -> str | None:
    """Set the order of tasks (None: the normal order) and return the previous one."""

# src/python/py_device.rs

def cuda_mode_calls(
    special: dict[Any, Callable[..., Any]], device: type, mapped: Callable[[Any], Any], renamed: Callable[[Exception], object]
) -> Callable[[Any, Any, tuple[Any, ...], dict[str, Any] | None], Any]:
    """Return a function of (func, types, args, kwargs) that calls ``func`` with "cuda" mapped.

    Args:
        special: Functions that need more than mapped device arguments, with their handlers, called with (function, args, kwargs).
        device: ``torch.device``.
        mapped: Maps a "cuda" device to this device.
        renamed: Replaces "rustdev" by "cuda" in the message of an exception.
    """

def cuda_mode_is_asked_by_pytorch(depth: int) -> bool:
    """Return whether the caller is code of PyTorch or of this package, after skipping ``depth`` frames and other modes."""

def cuda_mode_is_on() -> bool:
    """Return whether the mapping of "cuda" is enabled."""

def cuda_mode_switch(is_on: bool) -> None:
    """Enable or disable the mapping of "cuda"."""

def device_count() -> int:
    """Return the number of devices; 0 in a forked child."""

def current_device() -> int:
    """Return the calling thread's current device, without starting the runtime."""

def is_fork_child() -> bool:
    """Return whether this is a forked child of a process that started the runtime."""

def is_started() -> bool:
    """Return whether the runtime is started in this process. The first use of a device starts it."""

def total_memory() -> int:
    """Return the memory budget in bytes: of each device, or of all together if they share one."""

def hardware_kernels() -> list[tuple[str, int, int]]:
    """Return the calls of kernels on hardware with kernels of its own: name, on the hardware, on the processor."""

def hardware_name() -> str | None:
    """Return the name of the hardware that runs the kernels; None for the processor."""

def profiles() -> list[tuple[str, str, tuple[int, int], int, float, dict[str, float]]]:
    """Return the GPU profiles.

    Returns:
        Profile name, device name, compute capability, memory in bytes, GB/s of it, and TFLOPS of the fastest unit by dtype.
    """

def profile() -> str | None:
    """Return the name of the active GPU profile, if any."""

def num_threads() -> int:
    """Return the number of compute threads."""

def set_num_threads(count: int) -> None:
    """Set the number of compute threads."""

def instruction_set() -> str:
    """Return the instruction set that kernels use."""

def instruction_sets() -> list[str]:
    """Return the instruction sets that kernels are compiled for and this processor has, best last."""

# src/python/py_ipc.rs

def ipc_send(address: int) -> tuple[bytes, int] | None:
    """Share memory. Return its handle and the number of the send; None while the host writes to it."""

def ipc_receive(handle: bytes, number: int) -> tuple[int, int]:
    """Map shared memory. Return its address and a token that releases it, for ``torch.ops.rustdev._received``."""

def ipc_give_back(handle: bytes, number: int) -> None:
    """Release a send of memory that this process has already mapped."""

def ipc_cancel(numbers: list[int]) -> None:
    """Cancel sends that will never be received."""

def ipc_collect() -> None:
    """Release shared memory that no other process uses."""

def event_share(event: int, records: bool) -> bytes:
    """Share an event, given by its ``event_id``, and return its IPC handle. ``records``: with its latest recording."""

def event_open(event: int, handle: bytes) -> None:
    """Bind an event, given by its ``event_id``, to the shared event of another process."""

# src/python/py_sanitizer.rs

@final
class SanitizerClock:
    """The happens-before state at the end of a collective."""

    def order(self, device: int, stream: int | None) -> None:
        """Record that a stream (None: the host) waits for the operation."""

def sanitizer_collective(name: str, device: int, stream: int, ranges: list[tuple[int, int, bool]]) -> SanitizerClock | None:
    """Record a collective ordered after the work of a stream; ``ranges`` are (address, bytes, is written). None if disabled."""

def sanitizer_begin(error: type[Exception], libraries: list[str]) -> None:
    """Set the exception type, set the directories that stacks omit, and enable the mode that ``RUSTDEV_SANITIZE`` names."""

def sanitizer_enable(mode: str) -> None:
    """Enable the race detector in the mode ``"warn"`` or ``"error"``."""

def sanitizer_disable() -> None:
    """Disable the race detector."""

def sanitizer_mode() -> str | None:
    """Return the mode of the race detector; None if it is disabled."""

def sanitizer_findings() -> list[tuple[Any, ...]]:
    """Return the fields of ``SanitizerReport`` of each finding, with those of ``SanitizerAccess`` in place of the calls."""

def sanitizer_clear() -> None:
    """Clear the findings."""

def sanitizer_raise() -> None:
    """Raise a pending finding of a free, if any."""

def sanitizer_waits_for_nothing(device: int, stream: int) -> None:
    """Report that a stream waits for an event that was never recorded."""

# src/python/py_stream.rs

def stream_priority(device: int, stream: int) -> int:
    """Return the priority of a stream: 0, or -1 for high priority."""

def stream_from_handle(device: int, handle: int) -> int:
    """Return the id of the stream that a native handle names."""

def launch_host_func(device: int, stream: int, function: Callable[[], object]) -> None:
    """Enqueue a call of a Python function."""

def sleep(device: int, stream: int, nanoseconds: int) -> None:
    """Keep a stream busy for a time without occupying a thread."""

def event_elapsed(start: int, end: int) -> float:
    """Return the milliseconds between two completed events, given by their ``event_id``."""

# src/python/py_memory/

def memory_empty_cache() -> None:
    """Release the cached memory of all devices."""

def memory_set_fraction(device: int, fraction: float) -> None:
    """Set the fraction of the budget that this process may use."""

def memory_get_fraction(device: int) -> float:
    """Return the fraction of the budget that this process may use."""

def memory_allocate(device: int, stream: int, bytes: int) -> int:  # noqa: A002
    """Allocate a block for tasks of a stream and return its address."""

def memory_free(address: int) -> None:
    """Free a block."""

def memory_attach_shortage_observer(observer: Callable[[int, int, int, int], object]) -> None:
    """Attach a function that is called with (device, requested bytes, total, free) before each out-of-memory error.

    Exceptions that it raises are printed.
    """

def memory_record_history(
    events: bool, detail: Literal["state", "alloc", "all"] | None, max_entries: int, skip: list[str], clear: bool
) -> None:
    """Start, change or stop the recording of the memory history, on all devices, including those that are not in use yet.

    Stacks are kept for the events of ``detail``; the actions named in ``skip`` are not recorded.
    """

def memory_snapshot(traces: bool) -> dict[str, Any]:
    """Return the segments, blocks, events and settings of all devices."""

def memory_traceback(address: int) -> list[dict[str, Any]] | None:
    """Return the stack of the allocation that starts at an address; None if there is none or no stack was recorded."""

class PrivatePoolUse:
    """Reference to a new private pool. The pool is in use for the lifetime of the object."""

    def __new__(cls, use_on_oom: bool, no_split: bool) -> Self: ...
    @property
    def number(self) -> int:
        """The pool's number."""

    def use_count(self) -> int:
        """Return the number of users of the pool."""

def graph_pool_handle() -> int:
    """Return a new number for a memory pool that graphs can share."""

def memory_choose_pool(device: int, number: int) -> None:
    """Make the calling thread allocate memory of a device from a private pool."""

def memory_restore_pool(device: int, number: int) -> None:
    """Undo the last ``memory_choose_pool`` of this pool."""

def host_memory_stats() -> dict[str, Any]:
    """Return the counters of pinned host memory as a nested dictionary."""

def host_memory_reset_stats(accumulated: bool) -> None:
    """Reset all peaks of pinned host memory to the current values or, if ``accumulated``, the totals and the counts to 0."""

# src/python/py_ops.rs

def fallback_stats() -> list[tuple[str, int, int]]:
    """Return (name, calls, nanoseconds in the CPU kernel) of every operator that fell back since the last reset."""

def reset_fallback_stats() -> None:
    """Reset the statistics of the fallback."""

def fallback_mode() -> int:
    """Return the fallback mode: 0 (allow), 1 (warn) or 2 (error)."""

def set_fallback_mode(mode: int) -> None:
    """Set the fallback mode: 0 (allow), 1 (warn) or 2 (error)."""

def fallback_list(allow: bool) -> list[str]:
    """Return the allowlist (``allow``) or the blocklist of the fallback, in no particular order."""

def set_fallback_list(allow: bool, names: list[str]) -> None:
    """Replace the allowlist (``allow``) or the blocklist of the fallback."""

def sync_debug_mode() -> int:
    """Return the sync debug mode: 0 (default), 1 (warn) or 2 (error)."""

def set_sync_debug_mode(mode: int) -> None:
    """Set the sync debug mode: 0 (default), 1 (warn) or 2 (error)."""

def nccl_mode() -> str | None:
    """Return what happens to ranks that call different collectives, "hang" or "error"; None if they are not compared."""

def op_calls() -> list[tuple[str, int]]:
    """Return (kernel, number of launches) of the operator table, in table order."""

# src/python/py_trace.rs

def trace_start() -> int:
    """Begin a trace and return its number.

    Raises:
        RuntimeError: If another trace is active, or this process is a forked child.
    """

def trace_stop(
    number: int,
) -> tuple[list[tuple[str, str, int, int, int, tuple[int, int], tuple[int, int], int, int, str]], int] | None:
    """Wait for the streams in a trace and end it.

    Returns:
        The tasks, as (title, tier, device, stream, thread, (begin, end) of the submission, (begin, end) of the run, bytes, number
        of fused tasks, outcome), and the number of dropped tasks; None if this trace is not active.
    """

def trace_limit() -> int:
    """Return the maximum number of tasks of a trace."""

def trace_set_limit(tasks: int) -> None:
    """Set the maximum number of tasks of the next traces.

    Raises:
        ValueError: If ``tasks`` is not from 1 to 2^30.
    """

# src/python/py_waits.rs

def waits_start(torch: list[str], libraries: list[str]) -> None:
    """Begin counting the waits of the host for the devices. Overlapping countings share sums and spans.

    Args:
        torch: Directories of torch and of this package, with a trailing separator.
        libraries: Directories of other libraries, which are not user code.

    Raises:
        RuntimeError: If this process is a forked child.
    """

def waits_stop() -> None:
    """End the counting that ``waits_start`` began."""

def waits_sums() -> list[
    tuple[
        tuple[int, str, bool, bool, bool, bool, tuple[str, int, str] | None, tuple[str, int, str] | None],
        tuple[int, int, int, int],
    ]
]:
    """Return the sums so far. Rows are only appended: a row keeps its index.

    Returns:
        Rows of a key (number of the kind, name, to the device, pinned, waits, prints, line of user code, line of a library) and its
        sums (count, number of waits that found nothing to wait for, nanoseconds, bytes).
    """

def waits_spans(first: int) -> list[tuple[int, int, int, int]]:
    """Return the waits from index ``first`` on: (begin, end, thread, index of the row in ``waits_sums``)."""
