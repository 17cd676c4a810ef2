"""Tensors in other processes: the same memory, through a tensor with the same properties."""

import gc
import os
import threading
from collections.abc import Callable
from typing import Any

import processes_workers as there
import pytest
import torch
import torch.multiprocessing as mp
from processes_workers import Worker
from torch.nn import Parameter

MIB = 1 << 20
DTYPES = (torch.bool, torch.uint8, torch.bfloat16, torch.float64, torch.complex64)


def synchronized(tensor: torch.Tensor) -> torch.Tensor:
    torch.rustdev.synchronize(tensor.device)
    return tensor


def test_arguments_of_a_process_are_sent(worker: Worker) -> None:
    assert worker.call(there.read, "first") == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("size", [5, 3 * MIB])
def test_both_processes_see_what_either_writes(worker: Worker, size: int) -> None:
    tensor = torch.arange(float(size), device="rustdev")
    address, reserved = tensor.data_ptr(), torch.rustdev.memory_reserved()
    worker.call(there.keep, "x", tensor)
    assert (tensor.data_ptr(), torch.rustdev.memory_reserved()) == (address, reserved)
    assert worker.call(there.evaluate, "x.sum().item()") == tensor.sum().item()
    synchronized(tensor.fill_(2))
    assert worker.call(there.evaluate, "(x == 2).all().item()")
    worker.call(there.fill, "x", 3)
    assert (tensor == 3).all()
    worker.call(there.drop, "x")


@pytest.mark.parametrize("kind", ["queue", "simple_queue"])
def test_queues(worker: Worker, kind: str) -> None:
    tensor = torch.arange(3.0, device="rustdev")
    worker.start(there.take, "x", kind)
    getattr(worker, kind).put({"list": [tensor], "number": 4})
    worker.result()
    worker.call(there.execute, "x['list'][0].mul_(10); torch.rustdev.synchronize()")
    assert tensor.tolist() == [0.0, 10.0, 20.0]
    assert worker.call(there.evaluate, "x['number']") == 4


def test_spawn_passes_tensors() -> None:
    tensor = torch.zeros(3, device="rustdev")
    mp.spawn(there.fill_argument, args=(tensor,), nprocs=1)
    assert tensor.tolist() == [6.0] * 3


def sent(*size: int, dtype: torch.dtype = torch.float32, device: str = "rustdev") -> torch.Tensor:
    """Return numbers on a device."""
    return torch.arange(torch.Size(size).numel(), device=device).to(dtype).reshape(size)


SENT: dict[str, Callable[[], torch.Tensor]] = {
    **{str(dtype): lambda dtype=dtype: sent(3, dtype=dtype) for dtype in DTYPES},
    "view": lambda: sent(4, 6)[1:, 1::2].t(),
    "leaf": lambda: sent(2).requires_grad_(),
    "parameter": lambda: Parameter(sent(2)),
    "frozen parameter": lambda: Parameter(sent(2), requires_grad=False),
    "conjugate": lambda: torch.tensor([1 + 2j], device="rustdev").conj(),
    "negative": lambda: torch.tensor([1 + 2j], device="rustdev").conj().imag,
    "no elements": lambda: torch.empty(0, 3, device="rustdev:1"),
    "no elements of some": lambda: torch.ones(4, device="rustdev")[4:],
    "other device": lambda: sent(2, device="rustdev:1"),
}


@pytest.mark.parametrize("name", SENT)
def test_tensors_keep_their_properties(worker: Worker, name: str) -> None:
    tensor = SENT[name]()
    worker.call(there.keep, "x", tensor)
    asked = "(type(x).__name__, x.dtype, x.shape, x.stride(), x.storage_offset(), x.tolist(), str(x.device), x.is_conj())"
    assert worker.call(there.evaluate, asked) == eval(asked, {"x": tensor})
    assert worker.call(there.evaluate, "x.requires_grad") is tensor.requires_grad
    if tensor.numel():
        worker.call(there.execute, "x.data.fill_(1); torch.rustdev.synchronize(x.device)")
        assert (tensor == 1).all()


def test_tensors_of_one_storage_keep_sharing_it(worker: Worker) -> None:
    base = torch.zeros(8, device="rustdev")
    worker.call(there.keep, "x", {"all": base, "parts": [base[2:], base.view(torch.int32)]})
    worker.call(there.execute, "x['all'].fill_(1)")
    assert worker.call(there.evaluate, "x['parts'][0].tolist(), x['parts'][1][0].item()") == ([1.0] * 6, 0x3F800000)
    worker.call(there.keep, "y", base)
    assert worker.call(there.evaluate, "y.data_ptr() == x['all'].data_ptr() == x['parts'][0].data_ptr() - 8")
    worker.call(there.drop, "x")
    assert worker.call(there.read, "y") == [1.0] * 8


def test_modules_share_their_parameters(worker: Worker) -> None:
    model = torch.nn.Linear(3, 2, device="rustdev").share_memory()
    worker.call(there.keep, "x", model)
    worker.call(there.execute, "torch.nn.init.ones_(x.weight); torch.nn.init.zeros_(x.bias); torch.rustdev.synchronize()")
    assert model(torch.ones(3, device="rustdev")).tolist() == [3.0, 3.0]


def test_what_cannot_be_sent_is_refused(spawned: Worker) -> None:
    leaf = torch.ones(2, device="rustdev", requires_grad=True)
    with pytest.raises(RuntimeError, match="non-leaf"):
        spawned.connection.send(leaf * 2)
    with pytest.raises(RuntimeError, match="Cannot pickle rustdev storage"):
        spawned.connection.send(leaf.untyped_storage())
    with pytest.raises(RuntimeError, match="dense tensors"):
        spawned.connection.send(torch.eye(2).to_sparse().to("rustdev"))
    theirs = spawned.call(there.make, "x", 3)
    with pytest.raises(RuntimeError, match="cannot be sent on"):
        spawned.connection.send(theirs)
    spawned.call(there.keep, "y", theirs.clone())
    assert spawned.call(there.read, "y") == [1.0] * 3


def test_received_tensors_are_tensors_of_the_device(worker: Worker) -> None:
    theirs = worker.call(there.make, "x", 64, 64)
    side = torch.rustdev.Stream()
    side.wait_stream(torch.rustdev.current_stream())
    with torch.rustdev.stream(side):
        product = theirs @ theirs
    theirs.record_stream(side)
    torch.rustdev.current_stream().wait_stream(side)
    assert (product == 64).all()
    assert theirs.is_rustdev
    assert torch.rustdev.memory_allocated() > 0
    assert theirs.untyped_storage().nbytes() == 64 * 64 * 4
    with pytest.raises(RuntimeError, match="resiz"):
        theirs.resize_(1 << 20)
    synchronized(theirs.copy_(torch.full((64, 64), 5.0)))
    assert worker.call(there.evaluate, "(x == 5).all().item()")


def test_a_send_waits_for_what_is_queued(spawned: Worker) -> None:
    for stream in (torch.rustdev.current_stream(), torch.rustdev.Stream()):
        with torch.rustdev.stream(stream):
            tensor = torch.zeros(4, device="rustdev")
            torch.rustdev._sleep(50_000_000)
            tensor.fill_(7)
        spawned.call(there.keep, "x", tensor)
        assert spawned.call(there.read, "x") == [7.0] * 4


def test_a_send_waits_for_the_other_streams_that_use_the_memory(spawned: Worker) -> None:
    side = torch.rustdev.Stream()
    tensor = torch.zeros(4, device="rustdev")
    side.wait_stream(torch.rustdev.current_stream())
    with torch.rustdev.stream(side):
        torch.rustdev._sleep(50_000_000)
        tensor.fill_(7)
    tensor.record_stream(side)
    spawned.call(there.keep, "x", tensor)
    assert spawned.call(there.read, "x") == [7.0] * 4


def test_counters_of_memory_do_not_change(spawned: Worker) -> None:
    gc.collect()
    torch.rustdev.empty_cache()
    tensor = torch.ones(3 * MIB, device="rustdev")
    before = torch.rustdev.memory_stats()
    spawned.call(there.keep, "x", tensor)
    assert torch.rustdev.memory_stats() == before
    assert spawned.call(there.evaluate, "torch.rustdev.memory_allocated() < 1 << 20"), "it belongs to the sender"
    spawned.call(there.drop, "x")


def test_graphs_work_on_memory_that_is_sent_afterwards(spawned: Worker) -> None:
    inputs = torch.ones(4, device="rustdev")
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        outputs = inputs * 2
    spawned.call(there.keep, "inputs", inputs)
    spawned.call(there.keep, "outputs", outputs)
    spawned.call(there.fill, "inputs", 8)
    graph.replay()
    torch.rustdev.synchronize()
    assert spawned.call(there.read, "outputs") == [16.0] * 4


@pytest.mark.parametrize("pinned", [False, True])
def test_nothing_is_lost_that_other_threads_write_meanwhile(spawned: Worker, pinned: bool) -> None:
    rounds, neighbours = 20, 8
    stop = threading.Event()
    counts = [0] * neighbours
    tensors = [torch.zeros(1000, device="rustdev") for _ in range(neighbours)]
    ones = torch.ones(1000).pin_memory() if pinned else None

    def write(index: int) -> None:
        with torch.rustdev.stream(torch.rustdev.Stream()):
            while not stop.is_set():
                tensors[index].add_(1 if ones is None else ones.to("rustdev", non_blocking=True))
                counts[index] += 1

    threads = [threading.Thread(target=write, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(rounds):
        torch.rustdev.empty_cache()
        for _ in range(2):
            spawned.call(there.keep, "x", torch.ones(300_000, device="rustdev"))
        spawned.call(there.keep, "y", tensors[-1])
    stop.set()
    for thread in threads:
        thread.join()
    torch.rustdev.synchronize()
    assert counts[0] > 0
    assert [tensor.unique().tolist() for tensor in tensors] == [[float(count)] for count in counts]


def test_a_host_function_may_send(spawned: Worker) -> None:
    tensor = torch.ones(5 * MIB, device="rustdev")
    torch.rustdev.launch_host_func(lambda: spawned.call(there.keep, "x", tensor), torch.rustdev.Stream())
    torch.rustdev.synchronize()
    assert spawned.call(there.evaluate, "x.sum().item()") == 5 * MIB


def test_share_memory_says_what_is_so() -> None:
    tensor = torch.ones(3, device="rustdev")
    address = tensor.data_ptr()
    assert tensor.share_memory_() is tensor
    assert tensor.is_shared()
    assert tensor.data_ptr() == address


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.slow
def test_sends_leave_no_descriptors(worker: Worker) -> None:
    def send() -> None:
        tensors: list[Any] = [torch.ones(10, device="rustdev"), torch.ones(4 * MIB, device="rustdev")]
        worker.call(there.keep, "x", tensors)
        worker.call(there.drop, "x")

    def count() -> tuple[int, int]:
        gc.collect()
        torch.rustdev.ipc_collect()
        torch.rustdev.empty_cache()
        return descriptors(), worker.call(there.evaluate, "len(os.listdir('/proc/self/fd'))")

    send()
    before = count()
    for _ in range(50):
        send()
    assert count() == before
