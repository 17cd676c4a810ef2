"""Runs checks in child processes, and goes on after one that crashes or hangs."""

import collections
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

#: Seconds for PyTorch, the device and the databases to be imported.
START = 300


class RefusedError(Exception):
    """The device is not there. The message is one sentence."""


class Child:
    """A process that runs checks, one after the other.

    Args:
        options: The device, the level, the modules to import and the patterns of names.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - read after the child's end
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rustdev_conformance.child", json.dumps(options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, start_new_session=True,
            env=os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        )  # fmt: skip
        self.answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put("")

    def answer(self, seconds: float) -> dict[str, Any] | None:
        """Return the next answer, None if the child has ended; TimeoutError if it takes longer."""
        try:
            line = self.answers.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None
        return dict(json.loads(line)) if line else None

    def run(self, name: str, seconds: float) -> dict[str, Any]:
        """Run a check, and return how it ended; the child is gone after a crash or a hang."""
        assert self.process.stdin
        try:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write(json.dumps(name) + "\n")
                self.process.stdin.flush()
            answer = self.answer(seconds)
        except TimeoutError:
            self.end()
            return {"outcome": "hang", "message": f"took more than {seconds:g} s", "seconds": seconds, "fallbacks": None}
        if answer is not None:
            return answer
        self.process.wait()
        return {"outcome": "crash", "message": self.last_words(), "seconds": 0.0, "fallbacks": None}

    def last_words(self) -> str:
        """Return how the child ended, and the end of what it wrote."""
        status = self.process.returncode
        how = signal.Signals(-status).name if status and status < 0 else f"exit status {status}"
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace").strip().splitlines()
        shown = [line.strip() for line in said if not line.startswith(("Extension modules", "Current thread's C stack"))]
        return f"{how}: {' | '.join(shown[-12:])[:800]}"

    def end(self) -> None:
        """Kill the child and the processes that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def begin(self) -> dict[str, Any]:
        """Wait for the list of checks; RefusedError if the device is not there."""
        try:
            ready = self.answer(START)
        except TimeoutError:
            self.end()
            raise RefusedError(f"the device's process did not begin within {START} s") from None
        if ready is None:
            self.process.wait()
            raise RefusedError(f"the device's process ended before the first check: {self.last_words()}")
        if "refusal" in ready:
            raise RefusedError(ready["refusal"])
        return ready


def listed(options: dict[str, Any]) -> list[str]:
    """Return the names of the checks."""
    child = Child(options)
    try:
        return list(child.begin()["checks"])
    finally:
        child.end()


def run(
    options: dict[str, Any], jobs: int, seconds: float, tell: Callable[[dict[str, Any], int], None]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run all checks, and return what the child says of the device, and the results in the order of the list.

    Args:
        options: As of ``Child``.
        jobs: Number of children.
        seconds: Time limit of a check.
        tell: Called with each result and the number of all checks.
    """
    children = [Child(options) for _ in range(jobs)]
    results: dict[str, dict[str, Any]] = {}
    failures: list[BaseException] = []
    pending: collections.deque[str] = collections.deque()
    lock = threading.Lock()
    try:
        ready = children[0].begin()
        names = list(ready["checks"])
        pending.extend(names)

        def work(number: int) -> None:
            is_ready = number == 0
            while pending:
                try:
                    name = pending.popleft()
                except IndexError:
                    return
                if not is_ready:
                    children[number].begin()
                result = {"name": name, **children[number].run(name, seconds)}
                is_ready = result["outcome"] not in ("crash", "hang")
                with lock:
                    results[name] = result
                    tell(result, len(names))
                if not is_ready and pending:
                    children[number].end()
                    children[number] = Child(options)

        def guarded(number: int) -> None:
            try:
                work(number)
            except BaseException as failure:
                failures.append(failure)
                pending.clear()

        threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
    finally:
        pending.clear()
        for child in children:
            child.end()
    return ready["about"], [results[name] for name in names if name in results]
