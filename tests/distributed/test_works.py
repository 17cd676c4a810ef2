"""Operations are asynchronous: the host continues, streams wait, and memory is kept until Gloo is done with it."""

import ctypes
import io
import pickle
import time
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from rustdev.distributed.group import GroupState
from rustdev.distributed.side_streams import side_streams
from rustdev.distributed.work import RdcclWork
from torch._C._distributed_c10d import Work
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from workers import Workers, device

MILLISECOND = 1_000_000  # nanoseconds


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def ones(size: int = 4) -> torch.Tensor:
    return torch.ones(size, device=device())


def store() -> dist.Store:
    return dist.distributed_c10d._get_default_store()


def while_another_is_late(act: Callable[[torch.Tensor], object]) -> torch.Tensor:
    """Have rank 0 act on a tensor of ones, which rank 1 reduces afterwards; return it."""
    tensor = ones()
    if dist.get_rank() == 0:
        act(tensor)
        store().set(act.__qualname__, "yes")
    else:
        store().wait([act.__qualname__])
        dist.all_reduce(tensor)
    return tensor


def host_goes_on_while_another_rank_is_late() -> None:
    def act(tensor: torch.Tensor) -> None:
        torch.rustdev._sleep(300 * MILLISECOND)
        assert seconds(lambda: dist.all_reduce(tensor)) < 0.1
        tensor *= 10  # behind it
        assert not torch.rustdev.current_stream().query()

    assert while_another_is_late(act).tolist() == [20.0 if dist.get_rank() == 0 else 2.0] * 4


def work_says_when_it_is_done() -> None:
    works: list[dist.Work] = []

    def act(tensor: torch.Tensor) -> None:
        works.append(dist.all_reduce(tensor, async_op=True))
        assert not works[0].is_completed()
        assert (ones() + 1).tolist() == [2.0] * 4, "what does not need the result runs"

    while_another_is_late(act)
    for work in works:
        while not work.is_completed():
            time.sleep(0.001)
        assert work.is_success()
        assert work.exception() is None
        assert work.wait()
    work = dist.all_reduce(tensor := ones(), async_op=True)
    work.synchronize()
    torch.rustdev.synchronize()
    assert work.is_completed()
    assert tensor.tolist() == [2.0] * 4


def waiting_is_the_streams_own() -> None:
    """``wait`` holds the stream that is current, and no other."""
    side, results = torch.rustdev.Stream(), []

    def act(tensor: torch.Tensor) -> None:
        work = dist.all_reduce(tensor, async_op=True)
        with torch.rustdev.stream(side):
            work.wait()
            results.append(tensor * 3)
        assert torch.rustdev.current_stream().query()
        assert not side.query()

    while_another_is_late(act)
    torch.rustdev.current_stream().wait_stream(side)
    assert all(result.tolist() == [6.0] * 4 for result in results)


def issued_on_a_side_stream() -> None:
    side = torch.rustdev.Stream()
    with torch.rustdev.stream(side):
        torch.rustdev._sleep(50 * MILLISECOND)
        tensor = torch.full((4,), 2.0, device=device())
        dist.all_reduce(tensor)
        result = tensor + 1
    side.synchronize()
    assert result.tolist() == [5.0] * 4


def futures_hold_streams() -> None:
    results: list[torch.Tensor] = []

    def act(tensor: torch.Tensor) -> None:
        future = dist.all_reduce(tensor, async_op=True).get_future()
        doubled = future.then(lambda done: done.value()[0] * 2)  # runs now; its work waits
        assert seconds(doubled.wait) < 0.1
        results.append(doubled.value() + 1)
        assert not torch.rustdev.current_stream().query()

    while_another_is_late(act)
    assert all(result.tolist() == [5.0] * 4 for result in results)


def memory_stays_until_it_is_done() -> None:
    torch.rustdev.synchronize()
    for asynchronous in (False, True):
        received = torch.zeros(1 << 16, device=device())
        torch.rustdev.synchronize()
        if dist.get_rank() == 0:
            sent = torch.full((1 << 16,), 7.0, device=device())
            torch.rustdev.synchronize()
            if asynchronous:
                torch.rustdev._sleep(50 * MILLISECOND)
            dist.broadcast(sent, 0, async_op=True)
            del sent  # nobody waits for it, and nobody has it
            scribbled = [torch.zeros(1 << 16, device=device()) for _ in range(8)]
            torch.rustdev.synchronize()
            store().set(f"scribbled {asynchronous}", "yes")
            assert all(not zeros.any() for zeros in scribbled)
        else:
            store().wait([f"scribbled {asynchronous}"])
            dist.broadcast(received, 0)
            assert (received == 7).all()
        dist.barrier()


def memory_is_given_back() -> None:
    dist.all_reduce(ones())
    torch.rustdev.synchronize()
    before = torch.rustdev.memory_allocated()
    tensor = ones(1 << 18)
    dist.all_reduce(tensor)
    del tensor
    torch.rustdev.synchronize()
    assert torch.rustdev.memory_allocated() == before
    dist.all_reduce(ones(1 << 18), async_op=True)  # never waited for: the next operation lets go of it
    dist.barrier(device_ids=[device().index])
    dist.all_reduce(ones())
    torch.rustdev.synchronize()
    assert torch.rustdev.memory_allocated() == before


def many_in_flight() -> None:
    """More than a pool has streams, on several streams, with groups in the order of their calls."""
    tensors = [torch.full((100,), float(index), device=device()) for index in range(40)]
    streams = [torch.rustdev.Stream() for _ in range(4)]
    works = []
    torch.rustdev.synchronize()
    for index, tensor in enumerate(tensors):
        with torch.rustdev.stream(streams[index % 4]):
            torch.rustdev._sleep((index % 7) * MILLISECOND // 4)
            tensor += 1
            works.append(dist.all_reduce(tensor, async_op=True))
    for work in works:
        work.wait()
    for index, tensor in enumerate(tensors):
        assert tensor.tolist() == [2.0 * (index + 1)] * 100


def side_streams_are_bounded() -> None:
    """However many operations wait: each takes a stream for its while, and none is made or kept twice."""
    tensors = [ones() for _ in range(100)]
    torch.rustdev.synchronize()
    torch.rustdev._sleep(50 * MILLISECOND)
    for tensor in tensors:
        dist.all_reduce(tensor, async_op=True).wait()
    assert len(side_streams(device().index)._free) <= 32
    for tensor in tensors:
        assert tensor.tolist() == [2.0] * 4


def both_devices_in_one_group() -> None:
    """A group serves all devices of a process, in the order of the calls."""
    tensors = [torch.full((4,), float(index + 1), device=f"rustdev:{index}") for index in range(torch.rustdev.device_count())]
    for _ in range(3):
        for tensor in tensors:
            dist.all_reduce(tensor)
    assert [tensor.tolist() for tensor in tensors] == [[8.0] * 4, [16.0] * 4]


def host_waits_without_pythons_lock() -> None:
    """Each way to read a tensor while an operation of it is under way, for which the other rank is late."""
    mesh = init_device_mesh("rustdev", (2,))
    whole = ones(8)
    first = torch.tensor(0.0, device=device())
    parts = distribute_tensor(torch.arange(8.0), mesh, [Shard(0)])

    def reduced(numbers: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(numbers.fill_(1.0))
        return numbers

    reads: dict[str, Callable[[], object]] = {
        "an index of the device": lambda: reduced(whole)[reduced(first).long() - 2].item(),
        "pickle": lambda: pickle.loads(pickle.dumps(reduced(whole))).tolist(),
        "torch.save": lambda: torch.save(reduced(whole), io.BytesIO()),
        "equal": lambda: torch.equal(reduced(whole), whole + 0),
        "bool of parts": lambda: bool((parts > 3).any()),
        "item of parts": lambda: parts.sum().item(),
        "parts on the host": lambda: parts.sum().full_tensor().cpu().tolist(),
        "equal parts": lambda: torch.equal(parts.sum().full_tensor(), parts.sum().full_tensor()),
    }
    answers = []
    for read in reads.values():
        if dist.get_rank() == 1:
            time.sleep(0.05)
        answers.append(read())
    own = [6.0, 22.0][dist.get_rank()]  # DTensor does not add up parts for `item`
    assert answers == [2.0, [2.0] * 8, None, True, True, own, 28.0, True]


def streams_go_on_without_python() -> None:
    """The stream behind an operation that ends while Python's lock is held."""
    tensor, event = ones(), torch.rustdev.Event()
    if dist.get_rank() == 1:
        time.sleep(0.2)
    dist.all_reduce(tensor)
    event.record()
    if dist.get_rank() == 0:
        assert not event.query()
        ctypes.PyDLL(None).usleep(2_000_000)  # such a call keeps the lock
        assert event.query()
    assert tensor.tolist() == [2.0] * 4


ASYNCHRONY = (
    host_waits_without_pythons_lock,
    streams_go_on_without_python,
    host_goes_on_while_another_rank_is_late,
    work_says_when_it_is_done,
    waiting_is_the_streams_own,
    issued_on_a_side_stream,
    futures_hold_streams,
    memory_stays_until_it_is_done,
    memory_is_given_back,
    many_in_flight,
    side_streams_are_bounded,
    both_devices_in_one_group,
)


def test_an_interrupted_call_does_not_hold_up_the_others() -> None:
    """Ctrl-C while Gloo gets an operation: it has failed, and what comes behind it is posted."""

    def interrupted() -> Work:
        raise KeyboardInterrupt

    group = GroupState("a group")
    work = RdcclWork("all_reduce", group, 0, [interrupted])
    with pytest.raises(KeyboardInterrupt):
        work.issue()
    assert group.is_posted()
    assert group.finish(10.0)
    with pytest.raises(dist.DistBackendError, match="all_reduce of a group failed: it was interrupted"):
        group.check()


@pytest.mark.clock
@pytest.mark.parametrize("check", ASYNCHRONY, ids=lambda function: function.__name__)
def test_asynchrony(pair: Workers, check: Callable[[], None]) -> None:
    pair.run(check)
