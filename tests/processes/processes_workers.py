"""The other process of these tests: it calls the functions that it is sent, and keeps the objects that it receives."""

import contextlib
import gc
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.multiprocessing as mp

#: What the process keeps, by name.
HELD: dict[str, Any] = {}

_TIMEOUT = 120


class Worker:
    """A process that serves calls.

    Args:
        method: How it is started.
        first: What it keeps as "first", passed as an argument of the process.
    """

    def __init__(self, method: str = "spawn", first: Any = None) -> None:
        context = mp.get_context(method)
        self.connection, theirs = context.Pipe()
        self.queue, self.simple_queue = context.Queue(), context.SimpleQueue()
        arguments = (theirs, self.queue, self.simple_queue, first)
        self.process = context.Process(target=serve, args=arguments, daemon=True)
        self.process.start()
        theirs.close()

    def start(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Have a function of this module called."""
        self.connection.send((function, arguments))

    def result(self) -> Any:
        """Return what the oldest call returned, or raise what it raised."""
        if not self.connection.poll(_TIMEOUT):
            raise TimeoutError("the other process does not answer")
        result, error = self.connection.recv()
        if error is not None:
            raise error
        return result

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function of this module returns there."""
        self.start(function, *arguments)
        return self.result()

    def kill(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()

    def close(self) -> None:
        """End the process."""
        if self.process.is_alive():
            with contextlib.suppress(OSError):
                self.connection.send(None)
            self.process.join(_TIMEOUT)
        self.connection.close()
        self.queue.close()
        self.simple_queue.close()


def serve(connection: Connection, queue: Any, simple_queue: Any, first: Any) -> None:
    """Do calls until there is none."""
    HELD.update(first=first, queue=queue, simple_queue=simple_queue)
    del first
    while (call := connection.recv()) is not None:
        function, arguments = call
        del call
        try:
            connection.send((function(*arguments), None))
        except Exception as error:
            connection.send((None, error))
        del function, arguments
    HELD.clear()


def keep(name: str, value: Any) -> None:
    """Keep a value."""
    HELD[name] = value


def take(name: str, queue: str) -> None:
    """Keep the next value of a queue."""
    HELD[name] = HELD[queue].get()


def drop(name: str) -> None:
    """Let a value go."""
    del HELD[name]
    gc.collect()
    torch.rustdev.synchronize()


def read(name: str) -> list[Any]:
    """Return a tensor's values."""
    return HELD[name].tolist()  # type: ignore[no-any-return]


def fill(name: str, value: float) -> None:
    """Fill a tensor and wait for that."""
    with torch.no_grad():
        HELD[name].fill_(value)
    torch.rustdev.synchronize()


def evaluate(expression: str, **names: Any) -> Any:
    """Return the value of an expression over what is kept."""
    return eval(expression, {"torch": torch, "os": os, **HELD, **names})


def execute(code: str) -> None:
    """Run code over what is kept, which it may add to."""
    exec(code, {"torch": torch, "os": os}, HELD)


def make(name: str, *size: int) -> torch.Tensor:
    """Return a tensor of ones, which is kept."""
    HELD[name] = torch.ones(size, device="rustdev")
    return HELD[name]  # type: ignore[no-any-return]


def pickled(name: str) -> bytes:
    """Return the message with a kept tensor."""
    return bytes(mp.reductions.reduction.ForkingPickler.dumps(HELD[name]))


def unpickle(message: bytes) -> list[Any]:
    """Return the values of the tensor in a message, twice received."""
    tensor = mp.reductions.reduction.ForkingPickler.loads(message)
    values = tensor.tolist()
    mp.reductions.reduction.ForkingPickler.loads(message)
    return values  # type: ignore[no-any-return]


def fill_argument(_: int, tensor: torch.Tensor) -> None:
    """Fill an argument of ``torch.multiprocessing.spawn``."""
    tensor.fill_(6)
    torch.rustdev.synchronize()
