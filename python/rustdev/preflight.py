"""``python -m rustdev.preflight script.py``: run a program without computing, and report whether its memory fits.

    python -m rustdev.preflight [--profile NAME] [--json FILE] (script.py | -m module) [arguments]

The program runs as a dry run (:func:`rustdev.dry_run`): with ``--profile`` in the memory of that GPU, else in that of
``RUSTDEV_MEMORY_LIMIT`` or ``RUSTDEV_PROFILE``, else without a limit. Arguments, exit code and tracebacks of the program are as if
Python had run it directly. The report is printed to stderr after the program has ended.
"""

import argparse
import atexit
import json
import os
import sys
import time
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.optim import Optimizer, optimizer

from rustdev import _rustdev
from rustdev._program import _add_program, _run_program
from rustdev.memory import _record_memory_history, _size_text, _snapshot, attach_out_of_memory_observer
from rustdev.waits import _directories

__all__ = ["main"]

#: What memory is for, in the order of the report.
CATEGORIES = ("parameters", "gradients", "optimizer_states", "activations", "temporaries")


def _now() -> int:
    """Return the time in the unit of the memory history, microseconds since 1970."""
    return time.time_ns() // 1000


class _Watch:
    """Notes during the run what tensors are for, and what the program is at.

    A note has a time, so that it can be assigned to the events of the memory history afterwards.
    """

    def __init__(self) -> None:
        #: Time, address and category of storages.
        self.labels: list[tuple[int, int, str]] = []
        #: Times and names of the innermost module, from each time on.
        self.module_times: list[int] = [0]
        self.modules: list[str] = [""]
        #: Times at which steps of optimizers begin and end.
        self.step_times: list[int] = [0]
        #: The optimizer whose step is running.
        self._stepping: Optimizer | None = None
        self._stack: list[str] = []
        self._names: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._roots: weakref.WeakSet[nn.Module] = weakref.WeakSet()

    def begin(self) -> None:
        """Begin to watch."""
        hooks.register_module_forward_pre_hook(self._enter)
        hooks.register_module_forward_hook(self._leave, always_call=True)
        optimizer.register_optimizer_step_pre_hook(self._step)
        optimizer.register_optimizer_step_post_hook(self._stepped)
        attach_out_of_memory_observer(lambda *_: self.finish())
        _record_memory_history()

    def finish(self) -> None:
        """Label what is there at the end, or when memory runs out."""
        for root in list(self._roots):
            self._label_parameters(root.parameters())
        if self._stepping is not None:
            self._label_state(self._stepping)

    def _label(self, tensors: Iterable[Tensor | None], category: str) -> None:
        now = _now()
        for tensor in tensors:
            if tensor is not None and tensor.device.type == "rustdev" and tensor.layout is torch.strided:
                self.labels.append((now, tensor.untyped_storage().data_ptr(), category))

    def _label_parameters(self, parameters: Iterable[Tensor]) -> None:
        parameters = list(parameters)
        self._label(parameters, "parameters")
        self._label((parameter.grad for parameter in parameters), "gradients")

    def _mark(self) -> None:
        self.module_times.append(_now())
        self.modules.append(self._stack[-1] if self._stack else "")

    def _enter(self, module: nn.Module, _: Any) -> None:
        if not self._stack:
            if module not in self._roots:
                self._roots.add(module)
                kind = type(module).__name__
                self._names |= {part: ".".join(filter(None, (kind, name))) for name, part in module.named_modules()}
            self._label_parameters(module.parameters())
            self._label(module.buffers(), "parameters")
        self._stack.append(self._names.get(module, type(module).__name__))
        self._mark()

    def _leave(self, *_: Any) -> None:
        if self._stack:
            self._stack.pop()
        self._mark()

    def _step(self, stepping: Optimizer, *_: Any) -> None:
        self._stepping = stepping
        self._label_parameters(parameter for group in stepping.param_groups for parameter in group["params"])
        self.step_times.append(_now())

    def _stepped(self, stepping: Optimizer, *_: Any) -> None:
        self._stepping = None
        self.step_times.append(_now())
        self._label_state(stepping)

    def _label_state(self, stepping: Optimizer) -> None:
        values = (value for state in stepping.state.values() for value in state.values())
        self._label((value for value in values if isinstance(value, Tensor)), "optimizer_states")

    def module_at(self, moment: int) -> str:
        """Return the name of the innermost module at a time, or an empty string."""
        return self.modules[bisect_right(self.module_times, moment) - 1]

    def phase_of(self, event: dict[str, Any]) -> str:
        """Return "backward", "optimizer" or "forward", which is all else."""
        if any(frame["name"] == "_engine_run_backward" for frame in event["frames"]):
            return "backward"
        return "forward" if bisect_right(self.step_times, event["time_us"]) % 2 else "optimizer"


class _Block:
    """An allocation.

    Args:
        event: Its event in the memory history.
        watch: The notes of the run.
    """

    def __init__(self, event: dict[str, Any], watch: _Watch) -> None:
        self.begin, self.size = event["time_us"], event["size"]
        self.label = ""
        self.phase, self.module = watch.phase_of(event), watch.module_at(self.begin)
        self.is_freed_by_module = False

    @property
    def category(self) -> str:
        """Category of the memory. Activations are what modules allocate in their forward and do not free in it."""
        if self.label:
            return self.label
        is_activation = self.phase == "forward" and self.module and not self.is_freed_by_module
        return "activations" if is_activation else "temporaries"


def _line(frames: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return file, line and function of the innermost frame of the user's code."""
    library = tuple(path for paths in _directories() for path in paths)
    for frame in frames:
        if not frame["filename"].startswith(library) and "site-packages" not in frame["filename"]:
            return {"file": os.path.relpath(frame["filename"]), "line": frame["line"], "function": frame["name"]}
    return None


def _moment(event: dict[str, Any], watch: _Watch) -> dict[str, Any]:
    """Describe where a program is at an event."""
    phase, module = watch.phase_of(event), watch.module_at(event["time_us"])
    return {"phase": phase, "module": module or None, "line": _line(event["frames"])}


def _labelled(events: Sequence[dict[str, Any]], watch: _Watch) -> Iterator[tuple[dict[str, Any], _Block | None]]:
    """Yield the events, each with its block if it is an allocation or a free; blocks know their labels after the last event."""
    live: dict[int, _Block] = {}
    labels = iter(sorted(watch.labels, key=lambda label: label[0]))
    label = next(labels, None)
    for event in [*events, None]:
        while label is not None and (event is None or label[0] < event["time_us"]):
            if label[1] in live:
                live[label[1]].label = label[2]
            label = next(labels, None)
        if event is None:
            return
        block = None
        if event["action"] == "alloc":
            block = live[event["addr"]] = _Block(event, watch)
        elif event["action"] == "free_requested" and event["addr"] in live:
            block = live.pop(event["addr"])
            block.is_freed_by_module = watch.phase_of(event) == "forward" and watch.module_at(event["time_us"]) != ""
        yield event, block


def _examine(events: Sequence[dict[str, Any]], watch: _Watch) -> dict[str, Any]:
    """Find the peak of a device's allocated memory, and what it consists of."""
    found = list(_labelled(events, watch))
    allocated = reserved = peak = peak_reserved = 0
    at_peak = 0
    for index, (event, block) in enumerate(found):
        if block is not None:
            allocated += block.size if event["action"] == "alloc" else -block.size
        elif event["action"] in ("segment_alloc", "segment_free"):
            reserved += event["size"] if event["action"] == "segment_alloc" else -event["size"]
        if allocated >= peak:
            peak, at_peak = allocated, index
        peak_reserved = max(peak_reserved, reserved)
    live: dict[int, _Block] = {}
    for event, block in found[: at_peak + 1]:
        if block is not None and event["action"] == "alloc":
            live[event["addr"]] = block
        elif block is not None:
            live.pop(event["addr"], None)
    parts = dict.fromkeys(CATEGORIES, 0)
    for block in live.values():
        parts[block.category] += block.size
    shortages = [{"requested": event["size"], **_moment(event, watch)} for event, _ in found if event["action"] == "oom"]
    at = _moment(found[at_peak][0], watch) if found else None
    return {"peak_allocated": peak, "peak_reserved": peak_reserved, "peak": {"at": at, "parts": parts}, "shortages": shortages}


def _where(moment: dict[str, Any]) -> str:
    """Say in words where a program is."""
    line = moment["line"]
    module = f" of {moment['module']}" if moment["module"] else ""
    return f"{moment['phase']}{module}, " + (f"{line['file']}:{line['line']} in {line['function']}" if line else "no Python frame")


def _report(watch: _Watch) -> dict[str, Any]:
    """Make the report."""
    watch.finish()
    devices = []
    for index, trace in enumerate(_snapshot()["device_traces"]):
        events = [event for event in trace if event["action"] != "snapshot"]
        if events:
            devices.append({"device": index, "total": _rustdev.total_memory(), **_examine(events, watch)})
    profile = os.environ.get("RUSTDEV_PROFILE")
    return {"profile": profile, "fits": not any(device["shortages"] for device in devices), "devices": devices}


def _text(report: dict[str, Any]) -> str:
    """Return the report as text."""
    verdict = "the program fits" if report["fits"] else "the program DOES NOT FIT"
    lines = [f"rustdev preflight: {verdict}" + (f" on {report['profile']}" if report["profile"] else "")]
    for device in report["devices"]:
        peak = device["peak"]
        lines.append(
            f"device {device['device']}: peak {_size_text(device['peak_allocated'])} allocated, "
            f"{_size_text(device['peak_reserved'])} reserved, of {_size_text(device['total'])}"
        )
        lines.append(f"  at the peak: {_where(peak['at'])}")
        lines += [f"  {name.replace('_', ' '):<17} {_size_text(size):>10}" for name, size in peak["parts"].items()]
        for shortage in device["shortages"][:1]:
            lines.append(f"  out of memory: {_size_text(shortage['requested'])} more for the {_where(shortage)}")
    return "\n".join(lines if report["devices"] else [*lines, "  it has not used the device"])


def _finish(watch: _Watch, path: str | None) -> None:
    """Print the report, and write it as JSON if ``path`` is given."""
    report = _report(watch)
    print(_text(report), file=sys.stderr)
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)


def _begin(path: str | None) -> None:
    """Begin the watch, and have it end with the program."""
    watch = _Watch()
    atexit.register(_finish, watch, path)
    watch.begin()


def main(arguments: Sequence[str]) -> None:
    """Run a program as a dry run, with a report of its memory.

    Args:
        arguments: Command-line arguments.

    Raises:
        SystemExit: If the program raises it, or raises another exception, whose traceback is printed.
    """
    parser = argparse.ArgumentParser("python -m rustdev.preflight", description="Run a program without computing: does it fit?")
    parser.add_argument("--profile", choices=[name for name, *_ in _rustdev.profiles()], help="the GPU whose memory it has")
    parser.add_argument("--json", metavar="FILE", help="also write the report as JSON")
    _add_program(parser)
    options = parser.parse_args(arguments)
    wanted = {"RUSTDEV_COMPUTE": "none"} | ({"RUSTDEV_PROFILE": options.profile} if options.profile else {})
    if not wanted.items() <= os.environ.items():
        # The environment is read once, at the import of the package.
        os.execve(sys.executable, [sys.executable, "-m", "rustdev.preflight", *arguments], os.environ | wanted)
    path = os.path.abspath(options.json) if options.json else None
    _run_program(options, lambda: _begin(path))


if __name__ == "__main__":
    main(sys.argv[1:])
