"""The extension module: what Python asks of the runtime directly. Its functions are private to the package, which checks them."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, final

from typing_extensions import Self

__all__ = [
    "Completion",
    "PrivatePoolUse",
    "SanitizerClock",
    "__version__",
    "cuda_mode_calls",
    "cuda_mode_is_asked_by_pytorch",
    "cuda_mode_is_on",
    "cuda_mode_switch",
    "current_device",
    "device_count",
    "event_elapsed",
    "event_open",
    "event_share",
    "fallback_list",
    "fallback_mode",
    "fallback_stats",
    "faults_loss",
    "faults_push",
    "faults_remove",
    "host_memory_reset_accumulated",
    "host_memory_reset_peak",
    "host_memory_stats",
    "instruction_set",
    "instruction_sets",
    "interface",
    "ipc_cancel",
    "ipc_collect",
    "ipc_give_back",
    "ipc_receive",
    "ipc_send",
    "is_fork_child",
    "is_started",
    "launch_host_func",
    "memory_allocate",
    "memory_attach_shortage_observer",
    "memory_choose_pool",
    "memory_empty_cache",
    "memory_free",
    "memory_get_fraction",
    "memory_info",
    "memory_record_history",
    "memory_reset_accumulated",
    "memory_reset_peak",
    "memory_restore_pool",
    "memory_set_fraction",
    "memory_snapshot",
    "memory_stats",
    "memory_traceback",
    "num_threads",
    "op_calls",
    "operator_tiers",
    "profile",
    "profiles",
    "register_fallback",
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
#: The interface between core and shim: 16 hexadecimal digits.
interface: str

# src/python/py_completion.rs

@final
class Completion:
    """The end of work outside of the streams. ``prefix``: what the text of its failure begins with."""

    def __new__(cls, prefix: str = "") -> Self: ...
    @property
    def handle(self) -> int:
        """The address by which the shim knows it, as long as this object lives."""

    def is_over(self) -> bool:
        """Return whether the work has ended, well or not."""

    def failure(self) -> str | None:
        """Return why the work failed, if it has ended and failed."""

    def note_writes(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Note that the work writes to ranges of memory (address, bytes), from now to its end."""

    def end(self, failure: str | None = None) -> None:
        """End the work."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end, for so many seconds at most; whether it has come."""

    def hold(self, device: int, stream: int, fails: bool = True) -> None:
        """Hold back what is put on a stream from now on until the end. ``fails``: a failure of the work is the stream's."""

    def fail(self, device: int, stream: int) -> None:
        """Have a stream fail with the work, which it does not wait for."""

# src/python/py_debugging.rs

def faults_loss(rank: int) -> tuple[bool, str] | None:
    """Count a collective of a rank; whether its process ends and why, where the rank is to be lost in it."""

def faults_push(faults: str) -> int:
    """Put a list of faults in force and return its number."""

def faults_remove(number: int) -> None:
    """Remove the list of that number."""

def schedule_switch(order: str | None) -> str | None:
    """Turn an order of tasks on, or none, and return the one before."""

# src/python/py_device.rs

def cuda_mode_calls(
    special: dict[Any, Callable[..., Any]], device: type, mapped: Callable[[Any], Any], renamed: Callable[[Exception], object]
) -> Callable[[Any, Any, tuple[Any, ...], dict[str, Any] | None], Any]:
    """Return a function of (func, types, args, kwargs) that calls ``func`` with "cuda" mapped.

    Args:
        special: Functions of which more than the device arguments is changed, and what is called instead, with the function and its
            arguments.
        device: ``torch.device``.
        mapped: Returns the device that is meant by one of type "cuda".
        renamed: Takes an exception whose text names the device, and has it name CUDA's.
    """

def cuda_mode_is_asked_by_pytorch(depth: int) -> bool:
    """Return whether the calling code is PyTorch's or this package's, ``depth`` frames and other modes left out."""

def cuda_mode_is_on() -> bool:
    """Return whether "cuda" is mapped."""

def cuda_mode_switch(is_on: bool) -> None:
    """Have "cuda" mapped, or not any more."""

def device_count() -> int:
    """Return how many devices there are; 0 in a forked child."""

def current_device() -> int:
    """Return this thread's device; asking for it starts nothing."""

def is_fork_child() -> bool:
    """Return whether this is a forked child of a process that had started the runtime."""

def is_started() -> bool:
    """Return whether the runtime runs in this process: the first use of a device starts it."""

def total_memory() -> int:
    """Return the memory budget of each device, in bytes."""

def hardware_name() -> str | None:
    """Return what the hardware in the processor's place calls itself; None for the processor."""

def profiles() -> list[tuple[str, str, tuple[int, int], int]]:
    """Return the GPUs that the devices can imitate: names, what they call themselves, compute capabilities, bytes of memory."""

def profile() -> str | None:
    """Return the name of the GPU that the devices imitate, if any."""

def num_threads() -> int:
    """Return how many threads the devices compute with."""

def set_num_threads(count: int) -> None:
    """Set how many threads the devices compute with."""

def instruction_set() -> str:
    """Return the instruction set that kernels use."""

def instruction_sets() -> list[str]:
    """Return the instruction sets of this processor that kernels are compiled for, the best last."""

# src/python/py_ipc.rs

def ipc_send(address: int) -> tuple[bytes, int] | None:
    """Send memory: where others find it, and the number of the send. None: it is being written on the host."""

def ipc_receive(handle: bytes, number: int) -> tuple[int, int]:
    """Receive memory: its address, and what gives it back, for ``torch.ops.rustdev._received``."""

def ipc_give_back(handle: bytes, number: int) -> None:
    """Give back a send of memory that this process has already."""

def ipc_cancel(numbers: list[int]) -> None:
    """Take back sends that nobody received, and nobody will."""

def ipc_collect() -> None:
    """Take back memory that no other process uses any more."""

def event_share(event: int, records: bool) -> bytes:
    """Let other processes see an event, given by its ``event_id``; its handle."""

def event_open(event: int, handle: bytes) -> None:
    """Make an event, given by its ``event_id``, that of another process."""

# src/python/py_sanitizer.rs

@final
class SanitizerClock:
    """What happened before the end of an operation of several processes."""

    def order(self, device: int, stream: int | None) -> None:
        """Note that a stream, or with None the host, waits for the operation."""

def sanitizer_collective(name: str, device: int, stream: int, ranges: list[tuple[int, int, bool]]) -> SanitizerClock | None:
    """Note an operation that begins behind what a stream holds; None where nothing is checked."""

def sanitizer_begin(error: type[Exception], libraries: list[str]) -> None:
    """Take the type of errors and the directories of libraries; enable what ``RUSTDEV_SANITIZE`` asks for."""

def sanitizer_enable(mode: str) -> None:
    """Look for races, in the mode ``"warn"`` or ``"error"``."""

def sanitizer_disable() -> None:
    """Look for no more races."""

def sanitizer_mode() -> str | None:
    """Return the mode, or None where no races are looked for."""

def sanitizer_findings() -> list[dict[str, Any]]:
    """Return what was found: the fields of a ``SanitizerReport``."""

def sanitizer_clear() -> None:
    """Forget what was found."""

def sanitizer_raise() -> None:
    """Raise what was found in a free and not raised yet."""

def sanitizer_waits_for_nothing(device: int, stream: int) -> None:
    """Report that a stream waits for an event that was never recorded."""

# src/python/py_stream.rs

def stream_priority(device: int, stream: int) -> int:
    """Return 0, or -1 for a stream of high priority."""

def stream_from_handle(device: int, handle: int) -> int:
    """Return the id of the stream that a native handle names."""

def launch_host_func(device: int, stream: int, function: Callable[[], object]) -> None:
    """Enqueue a call of a Python function."""

def sleep(device: int, stream: int, nanoseconds: int) -> None:
    """Keep a stream busy for a time; no thread is."""

def event_elapsed(start: int, end: int) -> float:
    """Return milliseconds between two events that are done, given by their ``event_id``."""

# src/python/memory/

def memory_info(device: int) -> tuple[int, int]:
    """Return free and total bytes of a device's budget."""

def memory_stats(device: int) -> dict[str, Any]:
    """Return the counters of a device, nested."""

def memory_reset_peak(device: int) -> None:
    """Let every peak start again from the value now."""

def memory_reset_accumulated(device: int) -> None:
    """Forget the history of every counter, and the event counts."""

def memory_empty_cache() -> None:
    """Give the cached memory of every device back."""

def memory_set_fraction(device: int, fraction: float) -> None:
    """Set the part of the budget that this process may use."""

def memory_get_fraction(device: int) -> float:
    """Return the part of the budget that this process may use."""

def memory_allocate(device: int, stream: int, bytes: int) -> int:  # noqa: A002
    """Return the address of a block for tasks of a stream."""

def memory_free(address: int) -> None:
    """Give a block back."""

def memory_attach_shortage_observer(observer: Callable[[int, int, int, int], object]) -> None:
    """Have a function called with (device, bytes asked for, total, free) before each out-of-memory error."""

def memory_record_history(
    events: bool, detail: Literal["state", "alloc", "all"] | None, max_entries: int, skip: list[str], clear: bool
) -> None:
    """Start, change or stop the recording of every device."""

def memory_snapshot(traces: bool) -> dict[str, Any]:
    """Return segments, blocks, events and settings of every device."""

def memory_traceback(address: int) -> list[dict[str, Any]] | None:
    """Return the frames of the allocation that starts at an address; None if there is none or no stack was kept."""

class PrivatePoolUse:
    """A use of a new private pool, which lasts as long as the object."""

    def __new__(cls, use_on_oom: bool, no_split: bool) -> Self: ...
    @property
    def number(self) -> int:
        """The pool's number."""

    def use_count(self) -> int:
        """Return how often the pool is used."""

def memory_choose_pool(device: int, number: int) -> None:
    """Take this thread's memory of a device from a private pool."""

def memory_restore_pool(device: int, number: int) -> None:
    """Take back the last such choice of that pool."""

def host_memory_stats() -> dict[str, Any]:
    """Return the counters of pinned host memory, nested."""

def host_memory_reset_peak() -> None:
    """Let every peak of pinned host memory start again from the value now."""

def host_memory_reset_accumulated() -> None:
    """Forget the history of every counter of pinned host memory."""

# src/python/py_ops.rs

def register_fallback() -> None:
    """Register the fallback for every operator that has a CPU kernel and none of ours. Called once, after ours are registered."""

def operator_tiers() -> list[tuple[str, Literal["rust", "aten", "fallback"]]]:
    """Return operators whose kernel is not one of the operator table, with their tier."""

def fallback_stats() -> list[tuple[str, int, int]]:
    """Return every operator that fell back since the last reset: name, calls, nanoseconds in the CPU kernel."""

def reset_fallback_stats() -> None:
    """Set the statistics of the fallback to zero."""

def fallback_mode() -> int:
    """Return 0 for allow, 1 for warn, 2 for error."""

def set_fallback_mode(mode: int) -> None:
    """Choose what happens when an operator would fall back."""

def fallback_list(allow: bool) -> list[str]:
    """Return the operators that may always fall back (``allow``), or those that never do, in no order."""

def set_fallback_list(allow: bool, names: list[str]) -> None:
    """Replace the list of operators that may always fall back, or of those that never do."""

def sync_debug_mode() -> int:
    """Return 0 for nothing, 1 for warn, 2 for raise."""

def set_sync_debug_mode(mode: int) -> None:
    """Choose what happens when an operator waits for the device."""

def op_calls() -> list[tuple[str, int]]:
    """Return the rows of the operator table, in order, with the number of launches so far."""

# src/python/py_trace.rs

def trace_start() -> int:
    """Begin a trace and return its number.

    Raises:
        RuntimeError: Another is being taken, or this is a forked child.
    """

def trace_stop(
    number: int,
) -> tuple[list[tuple[str, str, int, int, int, tuple[int, int], tuple[int, int], int, int, str]], int] | None:
    """End the trace of that number and wait for the streams in it.

    Returns:
        Its tasks (title, tier, device, stream, thread, begin and end of the submission, begin and end, bytes, how many ran in
        fused, outcome), and how many more found no room in it; None where it is not being taken.
    """

def trace_limit() -> int:
    """Return how many tasks a trace has room for."""

def trace_set_limit(tasks: int) -> None:
    """Set that for the traces to come.

    Raises:
        ValueError: Not from 1 to 2^30.
    """

# src/python/py_waits.rs

def waits_start(torch: list[str], libraries: list[str]) -> None:
    """Begin to count the waits of the host for the devices.

    Args:
        torch: The directories of torch and of this package, with a separator at the end.
        libraries: Those of other libraries that are not the user's.

    Raises:
        RuntimeError: If this process is a forked child.
    """

def waits_stop() -> None:
    """End what ``waits_start`` began."""

def waits_sums() -> list[
    tuple[
        tuple[str, str, bool, bool, bool, bool, tuple[str, int, str] | None, tuple[str, int, str] | None],
        tuple[int, int, int, int],
    ]
]:
    """Return the sums so far; what is there keeps its position.

    Returns:
        What is summed up (kind, name, to the device, pinned, waits, prints, the user's line, a library's line), with the sums:
        count, waits that found nothing to wait for, nanoseconds, bytes.
    """

def waits_spans(first: int) -> list[tuple[int, int, int, int]]:
    """Return waits from one on: begin, end, thread, position among the sums."""
