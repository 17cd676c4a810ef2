"""Processes of a group that live over many tests, since starting one takes seconds."""

import faulthandler
import os
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

#: After which a test that hangs fails, and after which the start of the processes does.
SECONDS = 90
START_SECONDS = 240
#: How long an operation of a group may take.
TIMEOUT = timedelta(seconds=30)


#: The rank of this process among those of a group.
own_rank = 0


def device() -> torch.device:
    """This rank's device: ranks have different ones, so that what mixes indices up fails."""
    return torch.device("rustdev", dist.get_rank() % torch.rustdev.device_count())


def serve(rank: int, size: int, store: str, backend: str | None, connection: Connection) -> None:
    """A worker: joins the group, then calls the functions that it is sent and answers with what they return or raise."""
    global own_rank
    own_rank = rank
    if backend is not None:
        dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=size, timeout=TIMEOUT)
        torch.rustdev.set_device(device())
    connection.send((True, None))
    while (call := connection.recv()) is not None:
        function, arguments = call
        faulthandler.dump_traceback_later(SECONDS - 10)
        try:
            torch.manual_seed(0)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                answer = (True, function(*arguments))
            for index in range(torch.rustdev.device_count()):
                torch.rustdev.synchronize(index)
        except BaseException:
            answer = (False, traceback.format_exc())
        faulthandler.cancel_dump_traceback_later()
        connection.send(answer)
    if dist.is_initialized():
        dist.destroy_process_group()


def join(store: str, seconds: float = 60, **options: Any) -> int:
    """Join a group of two that finds itself in a file, and return the rank."""
    timeout = timedelta(seconds=seconds)
    dist.init_process_group(init_method=f"file://{store}", rank=own_rank, world_size=2, timeout=timeout, **options)
    return own_rank


def joined(store: str) -> tuple[int, torch.Tensor]:
    """Join a group of two; return the rank, and a tensor that both have reduced to [2, 2, 2, 2]."""
    rank, tensor = join(store), torch.ones(4, device="rustdev")
    dist.all_reduce(tensor)
    assert tensor.tolist() == [2.0] * 4
    return rank, tensor


class Workers:
    """The processes of a group, started when they are needed and again after a test that broke them.

    Args:
        size: how many.
        directory: where the ranks find each other.
        backend: what init_process_group is given; None to leave that to the functions.
    """

    def __init__(self, size: int, directory: Path, backend: str | None = "cpu:gloo,rustdev:rdccl") -> None:
        self.size = size
        self.directory = directory
        self.backend = backend
        self.starts = 0
        self.processes: list[Any] = []
        self.connections: list[Connection] = []

    def start(self) -> None:
        self.starts += 1
        context = mp.get_context("spawn")
        store = str(self.directory / f"store{self.starts}")
        before = dict(os.environ)
        os.environ |= {"OMP_NUM_THREADS": "1", "RUSTDEV_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        try:
            for rank in range(self.size):
                ours, theirs = context.Pipe()
                process = context.Process(target=serve, args=(rank, self.size, store, self.backend, theirs), daemon=True)
                process.start()
                theirs.close()
                self.processes.append(process)
                self.connections.append(ours)
        finally:
            os.environ.clear()
            os.environ.update(before)
        self.collect("start", START_SECONDS)

    def run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Calls a function on every rank and returns what each answers.

        Args:
            function: one that a module has by name; it is sent as that.
            arguments: what it is given.
        """
        if not self.processes:
            self.start()
        for connection in self.connections:
            connection.send((function, arguments))
        return self.collect(function.__name__)

    def collect(self, name: str, seconds: float = SECONDS) -> list[Any]:
        answers: dict[int, tuple[bool, Any]] = {}
        while len(answers) < self.size:
            waiting = [connection for rank, connection in enumerate(self.connections) if rank not in answers]
            ready = wait(waiting, seconds)
            for connection in ready:
                rank = self.connections.index(connection)
                try:
                    answers[rank] = connection.recv()
                except EOFError:
                    answers[rank] = (False, f"the process has ended, exit code {self.processes[rank].exitcode}")
            if not ready:
                answers |= {rank: (False, f"no answer after {seconds} s") for rank in range(self.size) if rank not in answers}
        failures = [f"rank {rank}: {answer}" for rank, (is_well, answer) in sorted(answers.items()) if not is_well]
        if failures:
            self.stop()
            raise AssertionError(f"{name} failed\n" + "\n".join(failures))
        return [answers[rank][1] for rank in range(self.size)]

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        self.processes, self.connections = [], []

    def close(self) -> None:
        """Lets the processes end by themselves; says so if one does not, or not well."""
        for connection in self.connections:
            connection.send(None)
        for process in self.processes:
            process.join(30)
        codes = [process.exitcode for process in self.processes]
        self.stop()
        assert all(code == 0 for code in codes), f"workers ended with {codes}"
