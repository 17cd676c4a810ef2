"""Sending tensors to another process during collectives on the same memory, which the send makes file-backed."""

import pickle
import threading
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
import torch.distributed as dist
from workers import Workers, device

#: Elements of a collective that takes a while.
LARGE = 1 << 21
ROUNDS = 10


def store() -> dist.Store:
    return dist.distributed_c10d._get_default_store()


def fresh(count: int) -> torch.Tensor:
    """A tensor of zeros in memory that no file has yet: other tensors would be in a segment that was sent."""
    torch.rustdev.synchronize(device())
    torch.rustdev.empty_cache()
    return torch.zeros(count, device=device())


def send_beside_a_collective() -> None:
    """Rank 0 sends half of a tensor while rank 1 is late for an operation on the other half, and then receives both halves."""
    if dist.get_rank() == 1:
        reduced = torch.full((LARGE,), 2.0, device=device())
        store().wait(["sending"])
        dist.all_reduce(reduced)
        assert reduced.unique().tolist() == [3.0]
        received = pickle.loads(store().get("message"))
        assert received.tolist() == [5.0] * 4
        store().set("received", "yes")
        return
    whole = fresh(LARGE + 4)
    reduced, sent = whole[:LARGE].fill_(1), whole[LARGE:].fill_(5)
    torch.rustdev.synchronize(device())
    work = dist.all_reduce(reduced, async_op=True)
    messages: list[bytes] = []
    thread = threading.Thread(target=lambda: messages.append(bytes(ForkingPickler.dumps(sent))))
    thread.start()
    thread.join(0.5)
    assert thread.is_alive(), "a send moved memory that a collective works on"
    store().set("sending", "yes")
    thread.join(60)
    assert len(messages) == 1
    work.wait()
    assert reduced.unique().tolist() == [3.0]
    store().set("message", messages[0])
    store().wait(["received"])


def test_a_send_waits_for_a_collective_in_the_same_segment(pair: Workers) -> None:
    pair.run(send_beside_a_collective)


def send_during_collectives(is_queued: bool) -> None:
    """Each rank sends while its collectives begin and end in the same segment."""
    for number in range(ROUNDS):
        whole = fresh(2 * LARGE)
        halves = whole.chunk(2)
        torch.rustdev.synchronize(device())
        thread = threading.Thread(target=lambda whole=whole: ForkingPickler.dumps(whole))
        if is_queued:
            torch.rustdev._sleep(number * 1_000_000)
        for half in halves:
            half.add_(1)
        works = [dist.all_reduce(halves[0], async_op=True)]
        thread.start()
        works.append(dist.all_reduce(halves[1], async_op=True))
        for work in works:
            work.wait()
        whole.mul_(3)
        thread.join(60)
        assert not thread.is_alive()
        assert whole.unique().tolist() == [3.0 * dist.get_world_size()]


@pytest.mark.parametrize("is_queued", [False, True])
def test_collectives_are_whole_whenever_a_send_comes(pair: Workers, is_queued: bool) -> None:
    pair.run(send_during_collectives, is_queued)


def send_and_leave_out_a_wait() -> list[str]:
    """A send waits for an operation by itself, which orders nothing for the program."""
    whole = fresh(LARGE + 4)
    torch.rustdev.synchronize(device())
    with torch.rustdev.sanitizer():
        work = dist.all_reduce(whole[:LARGE], async_op=True)
        ForkingPickler.dumps(whole[LARGE:])
        whole[:LARGE].add(1)
        kinds = [report.kind for report in torch.rustdev.sanitizer_reports()]
    work.wait()
    torch.rustdev.clear_sanitizer_reports()
    return kinds


def test_a_send_hides_no_race_with_a_collective(pair: Workers) -> None:
    assert pair.run(send_and_leave_out_a_wait) == [["unordered"]] * 2
