"""torch.rustdev.wait_report and python -m rustdev.trace: lines and counts of all waits and copies, and of nothing else."""

import json
import os
import threading
import warnings
from html.parser import HTMLParser
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import children
import pytest
import torch
from rustdev.waits import WaitReport

BEGIN = "import torch\nx = torch.full((6,), 2.0, device='rustdev')\n"

#: Programs, and what a report says of them: line, kind, name, count.
PLANTED: dict[str, tuple[str, list[tuple[int, str, str, int]]]] = {
    "item": ("for _ in range(4):\n    x.sum().item()\nx[0].item()", [(4, "item", "item()", 4), (5, "item", "item()", 1)]),
    "numbers": ("float(x[0])\nint(x[1])", [(3, "item", "item()", 1), (4, "item", "item()", 1)]),
    "bool": ("if x[0] > 1:\n    pass\nassert x.any()", [(3, "item", "item()", 1), (5, "item", "item()", 1)]),
    "cpu": ("y = x + 1\ny.cpu()\ny.to('cpu')", [(n, "copy", "Memcpy DtoH (Device -> Pageable)", 1) for n in (4, 5)]),
    "tolist": ("x.tolist()", [(3, "copy", "Memcpy DtoH (Device -> Pageable)", 1)]),
    "to the device": (
        "torch.ones(6).to('rustdev')\ntorch.tensor([1.0], device='rustdev')",
        [(n, "copy", "Memcpy HtoD (Pageable -> Device)", 1) for n in (3, 4)],
    ),
    "pinned but blocking": (
        "host = torch.ones(6).pin_memory()\nx.copy_(host)\nhost.copy_(x)",
        [(4, "copy", "Memcpy HtoD (Pinned -> Device)", 1), (5, "copy", "Memcpy DtoH (Device -> Pinned)", 1)],
    ),
    "nonzero": (
        "x.nonzero()\nx[x > 1]",
        [(n, "result", "nonzero, masked_select or an index that is a mask", 1) for n in (3, 4)],
    ),
    "equal": ("torch.equal(x, x + 1)", [(3, "result", "equal", 1)]),
    "fallback": ("torch.geqrf(torch.eye(3, device='rustdev'))", [(3, "fallback", "aten::geqrf", 1)]),
    "synchronize": (
        "torch.rustdev.synchronize()\ntorch.accelerator.synchronize()",
        [(n, "device", "synchronize()", 1) for n in (3, 4)],
    ),
    "stream": ("torch.rustdev.current_stream().synchronize()", [(3, "stream", "Stream.synchronize()", 1)]),
    "event": ("e = torch.rustdev.Event()\ne.record()\ne.synchronize()", [(5, "event", "Event.synchronize()", 1)]),
    "in a function": ("def read():\n    return x[0].item()\nread(), read()", [(4, "item", "item()", 2)]),
    "in a backward": (
        "class F(torch.autograd.Function):\n"
        "    forward = staticmethod(lambda ctx, x: x * 2)\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        grad[0].item()\n"
        "        return grad\n"
        "F.apply(x.requires_grad_()).sum().backward()",
        [(7, "item", "item()", 1)],
    ),
    "in a thread": (
        "import threading\nthread = threading.Thread(target=lambda: x[0].item())\nthread.start()\nthread.join()",
        [(4, "item", "item()", 1)],
    ),
}
CLEAN = """
model = torch.nn.Linear(6, 3, device="rustdev")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
losses = torch.zeros(3, device="rustdev")
for step in range(3):
    optimizer.zero_grad()
    loss = model(x).square().sum()
    loss.backward()
    optimizer.step()
    losses[step] = loss.detach()
"""


def report_of(directory: Path, program: str) -> WaitReport:
    """Runs a program of that directory with a report."""
    path = directory / "planted.py"
    path.write_text(BEGIN + program)
    code = compile(path.read_text(), str(path), "exec")
    with torch.rustdev.wait_report() as report:
        exec(code, {"__name__": "planted"})
    return report


def found(report: WaitReport) -> list[tuple[int, str, str, int]]:
    """What a report says, by line; all of it is of the planted program."""
    waits = report.waits
    assert {os.path.basename(str(wait.filename)) for wait in waits} <= {"planted.py"}
    return sorted((wait.line, wait.kind, wait.name, wait.count) for wait in waits)


@pytest.mark.parametrize("program", PLANTED)
def test_a_planted_wait_is_reported_at_its_line(tmp_path: Path, program: str) -> None:
    text, expected = PLANTED[program]
    report = report_of(tmp_path, text)
    assert found(report) == expected
    lines = (tmp_path / "planted.py").read_text().splitlines()
    assert all(wait.source == lines[wait.line - 1].strip() and wait.advice for wait in report.waits)
    assert all(wait.title in report.table() and wait.source in report.table() for wait in report.waits)


def test_printing_is_one_row_of_all_its_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(tmp_path, "print(x)")
    assert "device='rustdev:0'" in capsys.readouterr().out
    (wait,) = report.waits
    assert (wait.line, wait.kind, wait.name) == (3, "print", "printing a tensor")
    torch.rustdev.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            repr(torch.full((6,), 2.0, device="rustdev"))
    finally:
        torch.rustdev.set_sync_debug_mode("default")
    assert wait.count == len(caught)


def test_a_clean_loop_reports_nothing(tmp_path: Path) -> None:
    report = report_of(tmp_path, CLEAN)
    assert (report.waits, report.copies) == ([], [])
    assert "waited for nothing" in report.table()


def test_copies_that_do_not_wait_are_copies_alone(tmp_path: Path) -> None:
    report = report_of(tmp_path, "host = torch.ones(6).pin_memory()\nx.copy_(host, non_blocking=True)\nx.cpu()")
    assert [(wait.line, wait.bytes) for wait in report.waits] == [(5, 24)]
    copies = sorted((copy.line, copy.name, copy.bytes, copy.blocking) for copy in report.copies)
    assert copies == [(4, "Memcpy HtoD (Pinned -> Device)", 24, False), (5, "Memcpy DtoH (Device -> Pageable)", 24, True)]
    (quiet,) = (copy for copy in report.copies if not copy.blocking)
    assert (quiet.idle, quiet.seconds, quiet.advice) == (0, 0, "")
    assert "did not wait for" in report.table()


def test_what_found_the_stream_idle_is_counted_apart(tmp_path: Path) -> None:
    sleep = "torch.rustdev._sleep(300_000_000)\n"
    report = report_of(tmp_path, f"e = torch.rustdev.Event()\n{sleep}x[0].item()\nx[0].item()\n{sleep}e.record()\ne.synchronize()")
    by_line = {wait.line: (wait.count, wait.idle) for wait in report.waits}
    assert by_line == {5: (1, 0), 6: (1, 1), 9: (1, 0)}
    assert {report.waits[0].line, report.waits[1].line} == {5, 9}
    assert report.waits[-1].seconds < report.waits[0].seconds <= report.seconds


def test_reports_may_be_nested(tmp_path: Path) -> None:
    x = torch.ones(2, device="rustdev")
    with torch.rustdev.wait_report() as outer:
        x[0].item()
        with torch.rustdev.wait_report() as inner:
            assert report_of(tmp_path, "x[0].item()").waits[0].count == 1
            assert [wait.count for wait in inner.waits] == [1]  # while it is being taken
            x[0].item()
        x[0].item()
    x[0].item()
    assert sum(wait.count for wait in inner.waits) == 2
    assert sum(wait.count for wait in outer.waits) == 4
    assert len(outer.waits) == 4
    assert len(outer._spans()) == 4
    with torch.rustdev.wait_report() as later:
        pass
    assert later.waits == []


def test_a_wait_that_fails_is_reported_and_raises_and_ends_the_report() -> None:
    def fail() -> None:
        raise ValueError("planted")

    x = torch.ones(2, device="rustdev")
    torch.rustdev.launch_host_func(fail, torch.rustdev.current_stream())
    with pytest.raises(torch.AcceleratorError, match="planted"), torch.rustdev.wait_report() as report:
        x[0].item()
    x[0].item()
    assert [wait.count for wait in report.waits] == [1]


def test_a_library_is_named_beside_the_users_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "planted_library.py").write_text("def read(x):\n    return x[0].item()\n")
    monkeypatch.syspath_prepend(str(library))
    (wait,) = report_of(tmp_path, "import planted_library\nplanted_library.read(x)").waits
    assert (wait.line, wait.library) == (4, f"{library}/planted_library.py:2 in read")


def test_a_thread_without_the_users_code_has_no_frame() -> None:
    x = torch.ones(2, device="rustdev")[0]
    with torch.rustdev.wait_report() as report:
        thread = threading.Thread(target=x.item)
        thread.start()
        thread.join()
    (wait,) = report.waits
    assert (wait.where, wait.count) == ("no Python frame", 1)
    assert "threading.py" in wait.library


def test_waits_of_autograds_threads(tmp_path: Path) -> None:
    program = BEGIN + PLANTED["in a backward"][0] + "\n"
    (tmp_path / "program.py").write_text(program)
    done = trace(tmp_path, "program.py", RUSTDEV_AUTOGRAD_THREADS="1")
    assert "item() at program.py:7\n" in done.stderr


class Page(HTMLParser):
    """The cells and the data of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.data = ""
        self.links: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"] and data.startswith("{"):
            self.data += data
        self.texts.append(data)


def test_the_page_holds_the_lines_and_the_timeline(tmp_path: Path) -> None:
    path = tmp_path / "planted.py"
    path.write_text(BEGIN + "y = x @ torch.ones(6, device='rustdev')\nassert y.item() > 0 and '</script><b>'")
    with torch.rustdev.wait_report(tasks=True) as report:
        exec(compile(path.read_text(), str(path), "exec"), {"__name__": "planted"})
    assert report.tasks is not None
    report.save_html(tmp_path / "page.html")
    page = Page((tmp_path / "page.html").read_text())
    assert page.links == []
    assert any(text.endswith("planted.py:4") for text in page.texts)
    assert "assert y.item() > 0 and '</script><b>'" in page.texts
    data: dict[str, Any] = json.loads(page.data)
    lanes = {lane["name"]: lane["bars"] for lane in data["lanes"]}
    assert {"MainThread", "rustdev:0 stream 0"} <= lanes.keys()
    assert len(lanes["MainThread"]) == 1
    assert len(lanes["rustdev:0 stream 0"]) == len([task for task in report.tasks if task.run != (0, 0)])


def test_a_report_goes_without_tasks_while_a_trace_is_taken(tmp_path: Path) -> None:
    with torch.rustdev.profiler.profile(), torch.rustdev.wait_report(tasks=True) as report:
        torch.ones(2, device="rustdev")[0].item()
    assert report.tasks is None
    report.save_html(tmp_path / "page.html")
    assert "The streams' work was not recorded." in Page((tmp_path / "page.html").read_text()).texts


def trace(directory: Path, *arguments: str, code: int = 0, **environment: str) -> CompletedProcess[str]:
    """Runs a program with a report."""
    variables = {"RUSTDEV_DEVICE_COUNT": "1"} | environment
    done = children.python("-m", "rustdev.trace", *arguments, directory=directory, **variables)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_the_report_comes_behind_threads_and_tracebacks(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import threading, time\nimport torch\n"
        "check = lambda: (time.sleep(0.2), print(torch.ones(1, device='rustdev').item(), flush=True))  # outlives the main thread\n"
        "threading.Thread(target=check).start()\nraise LookupError('text')\n"
    )
    traced = trace(tmp_path, "program.py", code=1)
    assert traced.stdout == "1.0\n"
    error, _, report = traced.stderr.partition("LookupError: text\n")
    assert error.startswith("Traceback")
    assert report.startswith("rustdev: waits of the host: 1, ")
    assert "item() at program.py:3\n" in report


def test_modules_are_run_and_pages_written(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(
        "import os, sys, torch\nos.chdir('/')\nprint(torch.ones(1, device='rustdev').item(), sys.argv[1:])"
    )
    done = trace(tmp_path, "--html", "page.html", "-m", "package", "-x", "1")
    assert done.stdout == "1.0 ['-x', '1']\n"
    assert f"item() at {os.path.join('package', '__main__.py')}:3\n" in done.stderr
    assert done.stderr.endswith(f"rustdev: wrote {tmp_path / 'page.html'}\n")
    texts = Page((tmp_path / "page.html").read_text()).texts
    assert os.path.join("package", "__main__.py") + ":3" in texts
    assert "No module named no_such_thing" in trace(tmp_path, "-m", "no_such_thing", code=1).stderr


def test_a_page_that_cannot_be_written_is_said_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("print(1)")
    done = trace(tmp_path, "--html", "missing/page.html", "program.py")
    assert done.stdout == "1\n"
    assert "cannot write" in done.stderr
    assert "Traceback" not in done.stderr
