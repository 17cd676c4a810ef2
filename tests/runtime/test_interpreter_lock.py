"""Waits of the host release the GIL: the work of a stream may need it, so a wait that held the GIL would deadlock."""

import faulthandler
import gc
import io
import pickle
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import children
import torch
import torch.multiprocessing

D = "rustdev"
#: Kernels that no stream takes without making the submitter wait.
BACKLOG = 3000
MIB = 1 << 20
#: Of the process that waits.
MEMORY = {"RUSTDEV_MEMORY_LIMIT": "256M"}


def graph_of(numbers: torch.Tensor) -> torch.rustdev.RustdevGraph:
    graph = torch.rustdev.RustdevGraph()
    with torch.rustdev.graph(graph):
        numbers + 1
        torch.rustdev.launch_host_func(time.time, torch.rustdev.current_stream())
        numbers + 2
    return graph


def in_order(order: str) -> None:
    with torch.rustdev.schedule(order):
        torch.ones(3, device=D).sum().item()


def submit_many(numbers: torch.Tensor) -> None:
    for _ in range(BACKLOG):
        numbers.add_(0)


def run_out_of_memory() -> None:
    """Frees on a stream what the other one gets, which waits for that."""
    side = torch.rustdev.Stream()
    with torch.rustdev.stream(side):
        torch.rustdev.launch_host_func(step, side)
        held = torch.empty(200 * MIB, dtype=torch.uint8, device=D)
        held.zero_()
        del held
    torch.empty(200 * MIB, dtype=torch.uint8, device=D)


def calls() -> dict[str, Callable[[], object]]:
    """Calls that wait, by their names."""
    numbers, index, host = torch.arange(6.0, device=D), torch.tensor(2, device=D), torch.ones(6)
    event, stream, graph = torch.rustdev.Event(), torch.rustdev.current_stream(), graph_of(numbers)
    return {
        "item": lambda: numbers.sum().item(),
        "below the dispatcher": lambda: torch.ops.aten._local_scalar_dense.default(index),
        "an index of the device": lambda: numbers[index],
        "a bound of the device": lambda: numbers[index:],
        "a size of the device": lambda: torch.ones(3, index),  # type: ignore[call-overload]
        "int": lambda: int(index),
        "bool": lambda: bool((numbers > 3).any()),
        "pickle": lambda: pickle.dumps(numbers),
        "torch.save": lambda: torch.save(numbers, io.BytesIO()),
        "copy of a storage": lambda: numbers.untyped_storage().cpu(),
        "byte of a storage": lambda: numbers.untyped_storage()[0],
        "cpu": numbers.cpu,
        "tolist": numbers.tolist,
        "repr": lambda: repr(numbers),
        "equal": lambda: torch.equal(numbers, numbers + 1),
        "nonzero": numbers.nonzero,
        "a mask": lambda: numbers[numbers > 2],
        "unique": numbers.unique,
        "copy from the host": lambda: numbers.copy_(host),
        "assertion": lambda: torch._assert_async(index > 0),
        "fallback": lambda: torch.linalg.eigvals(torch.eye(3, device=D)),
        "device": torch.rustdev.synchronize,
        "accelerator": torch.accelerator.synchronize,
        "stream": stream.synchronize,
        "event": lambda: (event.record(), event.synchronize()),
        "empty_cache": torch.rustdev.empty_cache,
        "backlog": lambda: submit_many(numbers),
        "backlog of replays": lambda: [graph.replay() for _ in range(BACKLOG // 2)],
        "memory": run_out_of_memory,
        "order of tasks": lambda: in_order("random:1"),
        "sending to a process": lambda: ForkingPickler.dumps(numbers),
    }


def step() -> None:
    """A host function that needs the lock for as long as a wait takes to begin."""
    for _ in range(5):
        time.sleep(0.002)


def wait_everywhere() -> None:
    """Make each call behind a host function; where one holds the lock, the process ends with the line that waits."""
    for name, call in calls().items():
        torch.rustdev.synchronize()
        torch.rustdev.launch_host_func(step, torch.rustdev.current_stream())
        faulthandler.dump_traceback_later(30, exit=True)
        try:
            call()
        except (TypeError, NotImplementedError) as error:  # of a call that does not take such a tensor
            print(f"{name}: {error}", file=sys.stderr)
        faulthandler.cancel_dump_traceback_later()
        print(name, flush=True)


class Waiter:
    """Waits when it is destroyed."""

    def __init__(self) -> None:
        self.number = torch.ones(3, device=D)
        self.circle = self

    def __del__(self) -> None:
        torch.rustdev.launch_host_func(step, torch.rustdev.current_stream())
        print("destroyed with", (self.number * 2).sum().item(), flush=True)


def wait_in_destructors() -> None:
    """By the count of references, by the collector, on another thread, and at the end of the interpreter."""
    faulthandler.dump_traceback_later(60, exit=True)
    waiter = Waiter()
    waiter.circle = None  # type: ignore[assignment]
    del waiter
    Waiter()
    gc.collect()
    Waiter()
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join()


def run(function: Callable[[], None]) -> list[str]:
    """What a fresh process prints that calls a function of this file."""
    directories, name = [str(Path(__file__).parents[level]) for level in (0, 1)], Path(__file__).stem
    program = f"import sys, torch; sys.path[:0] = {directories}; import {name} as tests; tests.{function.__name__}()"
    done = children.run(program, timeout=200, **MEMORY)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def allocate_in_host_functions() -> None:
    """Record the stacks of allocations of a stream's thread: torch has let go of the lock there, and other threads take it."""
    faulthandler.enable()
    sys.setswitchinterval(1e-5)
    torch.rustdev.memory._record_memory_history()
    is_over = threading.Event()
    others = [threading.Thread(target=lambda: [bytes(50) for _ in iter(is_over.is_set, True)]) for _ in range(2)]

    def allocate(depth: int = 10) -> object:
        return allocate(depth - 1) if depth else [torch.empty(100, device=D) for _ in range(20)]

    for other in others:
        other.start()
    for _ in range(100):
        torch.rustdev.launch_host_func(allocate)
    torch.rustdev.synchronize()
    is_over.set()
    print(any("allocate" in str(entry) for entry in torch.rustdev.memory._snapshot()["device_traces"][0]))


def test_no_wait_holds_pythons_lock() -> None:
    assert run(wait_everywhere) == list(calls())


def test_destructors_may_wait() -> None:
    assert run(wait_in_destructors) == ["destroyed with 6.0"] * 3


def test_a_destructor_may_wait_at_the_end_of_the_interpreter() -> None:
    program = (
        "import torch\n"
        "class Waiter:\n"
        "    def __init__(self): self.number = torch.ones(3, device='rustdev')\n"
        "    def __del__(self): print((self.number * 2).sum().item(), flush=True)\n"
        "waiter = Waiter()\n"
        "torch.rustdev._sleep(10**8)\n"
    )
    done = children.run(program)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "6.0\n")


def test_stacks_are_read_with_pythons_lock() -> None:
    assert run(allocate_in_host_functions) == ["True"]
