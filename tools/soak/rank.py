"""One process of a program of ``ranks``: makes the calls, with the delays of the program, and compares the results."""

import ctypes
import faulthandler
import io
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import rustdev
import torch
import torch.distributed as dist
from rustdev.streams import _sleep
from torch import Tensor

from .ranks import BREAKS, Call, Program

#: Timeout of an operation, less than that of a program.
TIMEOUT = timedelta(seconds=120)
STREAMS = 2


class Wrong(Exception):  # noqa: N818
    """A value differs from what a single process computes."""


class Leaves(Exception):  # noqa: N818
    """The exception by which a rank leaves the group."""


def data(call: Call, rank: int, elements: int) -> Tensor:
    """Return the input of a rank: small integers, whose sums do not depend on the order."""
    generator = torch.Generator().manual_seed(1000 * call.number + rank)
    return torch.randint(0, 9, (elements,), generator=generator).float()


def begin(call: Call, rank: int, ranks: int) -> tuple[list[Any], list[tuple[Tensor, Tensor]]]:
    """Make a call. Return its works, and (output, expected value) pairs."""
    everyone = range(ranks)
    sizes = [call.elements + it * call.collective.endswith("of different sizes") for it in everyone]
    inputs = [data(call, it, sizes[it]) for it in everyone]

    def part(source: int, target: int) -> Tensor:
        return data(call, ranks * (source + 1) + target, sizes[target])

    mine, parts, received = here(inputs[rank]), [here(part(rank, it)) for it in everyone], [part(it, rank) for it in everyone]
    output, outputs, whole = new(sizes[rank]), [new(size) for size in sizes], new(sum(sizes))
    root, is_root = call.root, call.root == rank
    later: dict[str, Any] = {"async_op": True}
    after, before = (rank + 1) % ranks, (rank - 1) % ranks

    def total(tensors: list[Tensor]) -> Tensor:
        return torch.stack(tensors).sum(0)

    def pairs(found: list[Tensor], wanted: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
        return list(zip(found, wanted, strict=True))

    if call.collective == "coalesced all_reduce":
        with dist.distributed_c10d._coalescing_manager(device=mine.device, async_ops=True) as manager:
            for it in parts:
                dist.all_reduce(it)
        return manager.works, pairs(parts, [total([part(source, it) for source in everyone]) for it in everyone])
    if call.collective == "send and recv":  # the even ranks send first, so that there is no deadlock
        for is_send in (rank % 2 == 0, rank % 2 == 1):
            dist.send(mine, after) if is_send else dist.recv(output, before)
        return [], [(output, inputs[before])]
    if call.collective == "isend and irecv":
        return [dist.irecv(output, before), dist.isend(mine, after)], [(output, inputs[before])]
    calls: dict[str, Callable[[], tuple[Any, list[tuple[Tensor, Tensor]]]]] = {
        "all_reduce": lambda: (dist.all_reduce(mine, **later), [(mine, total(inputs))]),
        "reduce": lambda: (dist.reduce(mine, root, **later), [(mine, total(inputs) if is_root else inputs[rank])]),
        "broadcast": lambda: (dist.broadcast(mine, root, **later), [(mine, inputs[root])]),
        "all_gather": lambda: (dist.all_gather(outputs, mine, **later), pairs(outputs, inputs)),
        "all_gather_into_tensor": lambda: (dist.all_gather_into_tensor(whole, mine, **later), [(whole, torch.cat(inputs))]),
        "gather": lambda: (
            dist.gather(mine, outputs if is_root else None, root, **later),
            pairs(outputs, inputs) if is_root else [],
        ),
        "scatter": lambda: (dist.scatter(output, parts if is_root else None, root, **later), [(output, part(root, rank))]),
        "reduce_scatter": lambda: (dist.reduce_scatter(output, parts, **later), [(output, total(received))]),
        "reduce_scatter_tensor": lambda: (
            dist.reduce_scatter_tensor(output, torch.cat(parts), **later),
            [(output, total(received))],
        ),
        "all_to_all": lambda: (dist.all_to_all(outputs, parts, **later), pairs(outputs, received)),
        "all_to_all_single": lambda: (dist.all_to_all_single(whole, torch.cat(parts), **later), [(whole, torch.cat(received))]),
        "barrier": lambda: (dist.barrier(device_ids=[rustdev.current_device()], **later), []),
    }
    work, results = calls[call.collective.removesuffix(" of different sizes")]()
    return [work], results


def here(tensor: Tensor) -> Tensor:
    """Copy a tensor to this rank's device, on the current stream."""
    return tensor.pin_memory().to("rustdev", non_blocking=True)


def new(elements: int) -> Tensor:
    """Return an output tensor, filled with a value that no collective writes."""
    return torch.full((elements,), -1.0, device="rustdev")


def saved(tensor: Tensor) -> Tensor:
    """Save a tensor and load it again."""
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    loaded: Tensor = torch.load(file, map_location="cpu")
    return loaded


#: Ways in which the host reads a tensor: each returns what it has read, and the expected value.
READS: dict[str, Callable[[Tensor, Tensor], tuple[object, object]]] = {
    "tolist": lambda it, wanted: (it[:9].tolist(), wanted[:9].tolist()),
    "item": lambda it, wanted: (it[-1].item(), wanted[-1].item()),
    "bool": lambda it, wanted: (bool((it > 3).any()), bool((wanted > 3).any())),
    "equal": lambda it, wanted: (torch.equal(it, here(wanted)), True),
    "index": lambda it, wanted: (it[(it[:1] >= 0).sum() - 1].cpu().tolist(), wanted[0].tolist()),
    "nonzero": lambda it, wanted: (it.nonzero().numel(), wanted.nonzero().numel()),
    "pickle": lambda it, wanted: (pickle.loads(pickle.dumps(it)).cpu().tolist()[:9], wanted[:9].tolist()),
    "save": lambda it, wanted: (saved(it).tolist()[-9:], wanted[-9:].tolist()),
}


class Rank:
    """Makes the calls of a rank."""

    def __init__(self, program: Program, rank: int) -> None:
        self.program, self.rank = program, rank
        self.streams = [rustdev.Stream() for _ in range(STREAMS)]
        #: Calls whose works are not waited for or whose results are not compared yet.
        self.open: list[tuple[Call, list[Any], list[tuple[Tensor, Tensor]]]] = []

    def make(self, call: Call) -> None:
        """Make a call and wait for it, with the delays of the program if this rank is the late one."""
        is_late = call.late == self.rank
        if is_late and call.locked:
            threading.Thread(target=ctypes.PyDLL(None).usleep, args=(1000 * call.locked,)).start()
        if is_late:
            time.sleep(call.before / 1000)
        with rustdev.stream(self.streams[call.stream]):
            if is_late and call.busy:
                _sleep(1_000_000 * call.busy)
            works, results = begin(call, self.rank, self.program.ranks)
            self.open.append((call, works, results))
            if is_late:
                time.sleep(call.behind / 1000)
            self.wait(call, works, results)

    def wait(self, call: Call, works: list[Any], results: list[tuple[Tensor, Tensor]]) -> None:
        """Wait for a call as it specifies."""
        if call.wait == "none":
            return
        if call.wait == "other stream":
            with rustdev.stream(self.streams[1 - call.stream]):
                for work in works:
                    work.wait()
            return
        for work in works:
            if call.wait == "future" and call.collective not in ("barrier", "send and recv"):
                work.get_future().wait()
            else:
                work.wait()
        if call.wait == "synchronize":
            rustdev.synchronize()
        elif call.wait == "event":
            rustdev.current_stream().record_event().synchronize()
        elif call.wait == "stream":
            rustdev.current_stream().synchronize()
        elif call.wait in READS:
            for tensor, wanted in results:
                found, right = READS[call.wait](tensor, wanted)
                if found != right:
                    raise Wrong(f"{call}: {str(found)[:200]} in place of {str(right)[:200]}")
        elif call.wait == "cpu":
            self.compare(call, results)

    def compare_all(self) -> None:
        """Wait for all open calls and compare their results."""
        for call, works, results in self.open:
            with rustdev.stream(self.streams[call.stream]):
                for work in works:
                    work.wait()
                self.compare(call, results)
        self.open.clear()

    def compare(self, call: Call, results: list[tuple[Tensor, Tensor]]) -> None:
        """Compare the results of a call."""
        for tensor, wanted in results:
            if not torch.equal(found := tensor.cpu(), wanted):
                place = int((found != wanted).nonzero()[0])
                raise Wrong(
                    f"{call}: {found[place : place + 9].tolist()} in place of {wanted[place : place + 9].tolist()} at {place}"
                )

    def leave(self) -> None:
        """Leave the group as the only rank, as the program specifies."""
        if self.program.end == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.program.end == "exception":
            raise Leaves
        dist.destroy_process_group()
        sys.exit()

    def run(self) -> None:
        """Run the whole program."""
        for call in self.program.calls:
            if call.number == self.program.point:
                if self.rank == self.program.leaver:
                    self.leave()
                if self.program.end != "kill":
                    self.compare_all()  # what was called before it left
            self.make(call)
        if self.program.end == "return" or (self.program.end == "exit" and self.rank == self.program.leaver):
            return  # the process exits with queued work
        if self.program.end == "destroy":
            dist.destroy_process_group()
        self.compare_all()


def run(program: Program, rank: int, store: Path) -> None:
    """Run one rank of a program; the ranks connect by a file. Errors are raised, and end the process with an exit code."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    rustdev.set_num_threads(1)
    rustdev.set_device(rank % rustdev.device_count())
    dist.init_process_group("rdccl", init_method=f"file://{store}", rank=rank, world_size=program.ranks, timeout=TIMEOUT)
    this = Rank(program, rank)
    try:
        this.run()
    except (Wrong, Leaves):
        raise
    except Exception as error:
        if program.end not in BREAKS:
            raise
        print(f"told of the end: {type(error).__name__}: {error}", flush=True)
        for stream in this.streams:
            try:
                stream.synchronize()
            except Exception as later:  # noqa: PERF203 - two streams
                print(f"and: {type(later).__name__}: {later}", flush=True)
        assert (torch.ones(4, device="rustdev") * 3).tolist() == [3.0] * 4
    if dist.is_initialized() and program.end in BREAKS:
        dist.destroy_process_group()
