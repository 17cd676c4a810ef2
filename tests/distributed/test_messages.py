"""Messages from one rank to another: in any order, of any tensor, with tags, from any source, in batches."""

import time
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from test_collectives import MOVED, data, expect
from workers import Workers, device


def other() -> int:
    return 1 - dist.get_rank()


def empty(dtype: torch.dtype = torch.float32, *shape: int) -> torch.Tensor:
    return torch.zeros(shape or (3, 4), dtype=dtype, device=device())


def ping_pong() -> None:
    for dtype in MOVED:
        received = empty(dtype)
        if dist.get_rank() == 0:
            dist.send(data(0, dtype).to(device()), 1)
            assert dist.recv(received, 1) == 1
        else:
            assert dist.recv(received, 0) == 0
            dist.send(data(1, dtype).to(device()), 0)
        expect(received, data(other(), dtype))


def both_send_first() -> None:
    # Far more than sockets buffer, so that no send is over before the other rank receives.
    received = empty(torch.float32, 1 << 20)
    works = [dist.isend(data(dist.get_rank(), torch.float32, 1 << 20).to(device()), other()), dist.irecv(received, other())]
    for work in works:
        work.wait()
    expect(received, data(other(), torch.float32, 1 << 20))


def tags_in_another_order() -> None:
    if dist.get_rank() == 0:
        for tag in (1, 2, 3):
            dist.isend(data(tag, torch.float32, 1 << 18).to(device()), 1, tag=tag)
    else:
        for tag in (3, 1, 2):
            received = empty(torch.float32, 1 << 18)
            dist.recv(received, 0, tag=tag)
            expect(received, data(tag, torch.float32, 1 << 18))
    dist.barrier()


def any_source() -> None:
    if dist.get_rank() == 0:
        received = empty()
        assert dist.recv(received) == 1
        expect(received, data(1, torch.float32))
    else:
        dist.send(data(1, torch.float32).to(device()), 0)


def batch() -> None:
    received = [empty(torch.float32, size) for size in (4, 5)]
    sent = [data(dist.get_rank(), torch.float32, size).to(device()) for size in (4, 5)]
    ops = [dist.P2POp(dist.isend, tensor, other()) for tensor in sent]
    ops += [dist.P2POp(dist.irecv, tensor, other()) for tensor in received]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    for tensor in received:
        expect(tensor, data(other(), torch.float32, len(tensor)))


def received_in_a_later_order_than_sent() -> None:
    # Rank 0 waits for its second message first, and the first one is sent when the second has been answered.
    if dist.get_rank() == 0:
        early, late = empty(torch.float32, 4), empty(torch.float32, 4)
        first, second = dist.irecv(early, 1, tag=1), dist.irecv(late, 1, tag=2)
        second.wait()
        dist.send(late, 1, tag=3)
        first.wait()
        expect(early, torch.full((4,), 6.0))
    else:
        late = torch.full((4,), 3.0, device=device())
        dist.send(late, 0, tag=2)
        answer = empty(torch.float32, 4)
        dist.recv(answer, 0, tag=3)
        dist.send(answer * 2, 0, tag=1)


def completion_is_seen() -> None:
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 0:
        work = dist.irecv(received := empty(), 1)
        assert not work.is_completed()
        store.set("posted", "yes")
        while not work.is_completed():
            time.sleep(0.001)
        assert work.is_success()
        assert work.source_rank() == 1
        expect(received, data(1, torch.float32))
    else:
        store.wait(["posted"])
        dist.send(data(1, torch.float32).to(device()), 0)


MESSAGES = (
    ping_pong,
    both_send_first,
    tags_in_another_order,
    any_source,
    batch,
    received_in_a_later_order_than_sent,
    completion_is_seen,
)


@pytest.mark.parametrize("exchange", MESSAGES, ids=lambda function: function.__name__)
def test_messages(pair: Workers, exchange: Callable[[], None]) -> None:
    pair.run(exchange)
