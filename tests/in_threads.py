"""Calls in other threads."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any


def in_thread(function: Callable[[], Any]) -> Any:
    """Return what a function returns in a new thread, or raise what it raises."""
    return in_threads(lambda _: function(), [None])[0]


def in_threads(function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
    """Return what a function returns for each argument, in a new thread for each, or raise what one raises."""

    def call(future: Future[Any], argument: Any) -> None:
        try:
            future.set_result(function(argument))
        except BaseException as error:
            future.set_exception(error)

    futures: list[tuple[Future[Any], Any]] = [(Future(), argument) for argument in arguments]
    threads = [threading.Thread(target=call, args=each) for each in futures]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return [future.result(0) for future, _ in futures]
