"""The watchdog: tasks that do not end are reported, and waits for them raise."""

import os
import re
import textwrap

import children

#: Longer than any task of these tests takes. Under a compiler's sanitizer they take many times as long.
LIMIT, NANOSECONDS = ("3s", 3_000_000_000) if {"ASAN_OPTIONS", "TSAN_OPTIONS"} & os.environ.keys() else ("300ms", 300_000_000)

PREAMBLE = """
import threading
import torch

x = torch.ones(4, device="rustdev")
side, other = torch.rustdev.Stream(), torch.rustdev.Stream()
torch.rustdev.synchronize()

def attempt(wait):
    try:
        wait()
    except torch.AcceleratorError as error:
        print(error)
    else:
        print("done")
"""


def run(code: str, **environment: str) -> tuple[list[str], str]:
    """What a program prints, and its errors; a wait that does not end ends the test."""
    done = children.run(PREAMBLE + textwrap.dedent(code), **{"RUSTDEV_TIMEOUT": LIMIT} | environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_a_hang_ends_with_an_error_and_the_stream_works_on() -> None:
    code = """
        before = torch.rustdev.memory_allocated()
        with torch.rustdev.inject_faults("hang:mul:2"):
            y, z = x * 2, x * 3
            a = z + 1
            b = a - 1
        attempt(torch.rustdev.synchronize)
        attempt(torch.rustdev.synchronize)
        print(y.tolist(), (x * 5).tolist())
        del y, z, a, b
        print(torch.rustdev.memory_allocated() - before)
    """
    printed, errors = run(code)
    assert printed[0].startswith(f"mul failed on stream 0 of device rustdev:0: mul has not ended for longer than {LIMIT}")
    assert printed[1:] == ["done", "[2.0, 2.0, 2.0, 2.0] [5.0, 5.0, 5.0, 5.0]", "0"]
    assert re.search(r"stream 0 of device rustdev:0: mul has not ended for [\d.]+m?s, since \d\d:\d\d:\d\d UTC", errors), errors
    assert "tasks behind it: 2: add, sub" in errors


def test_what_waits_for_a_hang_goes_on_when_it_ends() -> None:
    code = """
        with torch.rustdev.inject_faults("hang:mul"), torch.rustdev.stream(side):
            x * 2
        other.wait_stream(side)
        with torch.rustdev.stream(other):
            y = x + 1
        attempt(other.synchronize)
        attempt(side.synchronize)
        print(y.tolist())
    """
    printed, _ = run(code)
    assert printed[0] == "done"
    assert printed[1].startswith("mul failed on")
    assert printed[2] == "[2.0, 2.0, 2.0, 2.0]"


def test_a_wait_for_what_cannot_be_ended_raises() -> None:
    code = """
        gate = threading.Event()
        torch.rustdev.launch_host_func(gate.wait, side)
        other.wait_stream(side)
        with torch.rustdev.stream(other):
            y = x + 1
        attempt(side.synchronize)
        attempt(other.synchronize)
        event = torch.rustdev.Event()
        event.record(other)
        attempt(event.synchronize)
        attempt(torch.rustdev.current_stream().synchronize)
        gate.set()
        while not side.query() or not other.query():
            pass
        attempt(torch.rustdev.synchronize)
        print(y.tolist())
    """
    printed, errors = run(code)
    assert re.match(rf"stream \d+ of device rustdev:0 does not get on: host_func has not ended for longer than {LIMIT}", printed[0])
    assert re.match(r"stream \d+ of .* does not get on: event_wait waits for stream \d+ of", printed[1])
    assert re.match(r"stream \d+ of .* does not get on", printed[2])
    assert printed[3:] == ["done", "done", "[2.0, 2.0, 2.0, 2.0]"]
    assert errors.count("host_func has not ended") == 1, "it is reported once"


def test_a_stream_that_gets_on_is_left_alone() -> None:
    code = f"""
        for _ in range(12):
            torch.rustdev._sleep({NANOSECONDS // 6})
        torch.rustdev.synchronize()
        y = x
        for _ in range(2000):
            y = y + 1
        print(y.sum().item())
    """
    assert run(code) == (["8004.0"], "")


def test_there_is_a_thread_only_where_it_is_asked_for() -> None:
    code = """
        from contextlib import suppress
        from pathlib import Path
        names = []
        for task in Path("/proc/self/task").iterdir():
            with suppress(FileNotFoundError):  # a thread that has ended since
                names.append((task / "comm").read_text().strip())
        print("rustdev-watchdo" in names)
    """
    assert run(code)[0] == ["True"]
    done = children.run(PREAMBLE + textwrap.dedent(code), check=True)
    assert done.stdout == "False\n"
