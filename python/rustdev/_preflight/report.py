"""The report of a dry run: as numbers, and as text."""

import os
import re
from collections.abc import Iterable
from typing import Any

from rustdev import _rustdev
from rustdev._profiles import _imitated
from rustdev.memory import _size_text, _snapshot

from .._name import NAME, variable
from .examine import examine
from .watch import Watch

#: The number of rows of activations in a text.
ROWS = 8
_KIB = 1 << 10


def make_report(watch: Watch) -> dict[str, Any]:
    """Return the report on a run. Its memory is in bytes."""
    watch.finish()
    devices = []
    for index, trace in enumerate(_snapshot()["device_traces"]):
        events = [event for event in trace if event["action"] != "snapshot"]
        if events:
            devices.append({"device": index, "total": _rustdev.total_memory(), **examine(events, watch)})
    rank = os.environ.get("RANK")
    return {
        "profile": os.environ.get(variable("PROFILE")),
        "rank": None if rank is None else int(rank),
        "fits": not any(device["shortages"] for device in devices),
        "devices": devices,
        "steps": [{"seconds": seconds, "flops": flops} for seconds, flops in watch.steps()],
        "beside": _beside(max((device["streams"] for device in devices), default=0)),
    }


def _cublas_workspace() -> int:
    """Return the size of a workspace of cuBLAS in PyTorch, in bytes."""
    config = os.environ.get("CUBLAS_WORKSPACE_CONFIG", "")
    chosen = re.findall(r":(\d+):(\d+)", config)
    if not chosen:
        profile = _imitated()
        chosen = [(4096, 8)] if profile and profile.capability >= (9, 0) else [(4096, 2), (16, 8)]
    return sum(int(size) * int(count) for size, count in chosen) * _KIB


def _beside(streams: int) -> list[dict[str, Any]]:
    """Return what a GPU's libraries take beside the memory of the report, with the sources; bytes are None where they are unknown.

    Args:
        streams: Number of streams that have allocated memory.
    """
    workspace = _cublas_workspace()
    return [
        {
            "what": "cuBLAS workspaces",
            "bytes": workspace * streams * 2,
            "note": f"{_size_text(workspace)} for each handle and stream: two threads, of forward and backward, streams: {streams}",
            "source": "4096:2:16:8 KiB by default, 32 MiB from capability 9.0 on: pytorch, aten/src/ATen/cuda/CublasHandlePool.cpp",
        },
        {
            "what": "cuDNN workspaces",
            "bytes": None,
            "note": "during a convolution; the size depends on the algorithm that cuDNN chooses",
            "source": "pytorch, aten/src/ATen/native/cudnn/Conv_v8.cpp: run_conv_plan",
        },
        {
            "what": "CUDA context",
            "bytes": None,
            "note": "some hundred MiB outside of all counters, such as 287 MB with modules that are loaded lazily",
            "source": "https://github.com/pytorch/pytorch/issues/86509",
        },
    ]


def where(moment: dict[str, Any]) -> str:
    """Say in words where a program is."""
    line = moment["line"]
    step = f"step {moment['step']}, " if moment["step"] else ""
    module = f" of {moment['module']}" if moment["module"] else ""
    place = f"{line['file']}:{line['line']} in {line['function']}" if line else "no Python frame"
    return f"{step}{moment['phase']}{module}, {place}"


def steps_text(report: dict[str, Any]) -> list[str]:
    """Say in words how long the last step takes, if the program fits. The first one has the making of the model as well."""
    steps = report["steps"]
    if not steps or not report["fits"]:
        return []
    seconds, flops = steps[-1]["seconds"], steps[-1]["flops"]
    rate = flops / seconds / 1e12 if seconds else 0.0
    return [f"simulated time of step {len(steps)}: {_duration_text(seconds)}, {rate:.1f} TFLOP/s"]


def _duration_text(seconds: float | None) -> str:
    """Return a duration as text; a dash for None."""
    return "-" if seconds is None else f"{seconds * 1e3:,.1f} ms"


def spoken(category: str) -> str:
    """Return the name of a category in words."""
    return category.replace("_", " ")


def merged(modules: dict[str, int]) -> list[tuple[str, int, int]]:
    """Merge modules that differ in numbers, such as the layers of a list.

    Args:
        modules: Bytes by name.

    Returns:
        Name with ``*`` for the numbers, count of modules and sum of bytes, the largest first.
    """
    sums: dict[str, tuple[int, int]] = {}
    for name, size in modules.items():
        pattern = re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name)
        count, total = sums.get(pattern, (0, 0))
        sums[pattern] = count + 1, total + size
    return sorted(((name, count, total) for name, (count, total) in sums.items()), key=lambda row: -row[2])


def _row(name: str, size: int) -> str:
    return f"  {name:<21} {_size_text(size):>10}"


def _device_text(device: dict[str, Any]) -> Iterable[str]:
    peak = device["peak"]
    yield (
        f"device {device['device']}: peak {_size_text(device['peak_allocated'])} allocated, "
        f"{_size_text(device['peak_reserved'])} reserved, of {_size_text(device['total'])}"
    )
    yield f"  at the peak: {where(peak['at'])}"
    for name, size in peak["parts"].items():
        if size or name != "communication":
            yield _row(spoken(name), size)
    yield _row("fragmentation", peak["fragmentation"])
    yield _row("unused segments", peak["unused_segments"])
    rows = merged(peak["activations_by_module"])
    if rows:
        yield "  activations by module:"
    for name, count, size in rows[:ROWS]:
        yield f"    {_size_text(size):>10}  {name}" + (f", {count} of them" if count > 1 else "")
    if len(rows) > ROWS:
        yield f"    {_size_text(sum(size for *_, size in rows[ROWS:])):>10}  {len(rows) - ROWS} more"
    for shortage in device["shortages"][:1]:
        yield f"  out of memory: {_size_text(shortage['requested'])} more in {where(shortage)}"


def _table(heads: list[str], rows: list[list[str]]) -> Iterable[str]:
    """Yield a table with the first column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        cells = (
            f"{text:<{width}}" if index == 0 else f"{text:>{width}}"
            for index, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  " + "  ".join(cells).rstrip()


def fit_rows(fit: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows of the trials of ``--fit``."""
    rows = [
        [
            str(trial["value"]),
            "fits" if trial["fits"] else "out of memory",
            *map(_size_text, (trial["allocated"], trial["reserved"])),
            _duration_text(trial["step_seconds"]),
        ]
        for trial in sorted(fit["trials"], key=lambda trial: trial["value"])
    ]
    return [fit["name"], "outcome", "allocated", "reserved", "step"], rows


def fit_verdict(fit: dict[str, Any]) -> str:
    """Say in words what ``--fit`` has found."""
    name, low, high, largest = fit["name"], fit["low"], fit["high"], fit["largest"]
    return (
        f"no {name} from {low} to {high} fits"
        if largest is None
        else f"the largest {name} from {low} to {high} that fits: {largest}"
    )


def comparison_rows(runs: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows of the runs of ``--compare``."""
    parts = [part for part in runs[0]["parts"] if part != "communication" or any(run["parts"][part] for run in runs)]
    rows = [
        [
            run["switches"] or "as given",
            "fits" if run["fits"] else "out of memory",
            _duration_text(run["step_seconds"]),
            *map(_size_text, (run["allocated"], run["reserved"], *(run["parts"][part] for part in parts))),
        ]
        for run in runs
    ]
    return ["switches", "outcome", "step", "allocated", "reserved", *map(spoken, parts)], rows


def verdict(report: dict[str, Any]) -> str:
    """Say in words whether the program fits."""
    found = "the program fits" if report["fits"] else "the program DOES NOT FIT"
    rank = "" if report["rank"] is None else f", rank {report['rank']}"
    return found + (f" on {report['profile']}" if report["profile"] else "") + rank


def text(report: dict[str, Any]) -> str:
    """Return the report as text."""
    lines = [f"{NAME} preflight: {verdict(report)}"]
    for device in report["devices"]:
        lines += _device_text(device)
    if not report["devices"]:
        return "\n".join([*lines, "  it has not used the device"])
    lines += steps_text(report)
    lines.append("beside it on a GPU:")
    for item in report["beside"]:
        size = "unknown" if item["bytes"] is None else _size_text(item["bytes"])
        lines += [f"  {item['what']:<17} {size:>9}: {item['note']}", f"{'':31}{item['source']}"]
    if "fit" in report:
        lines += [fit_verdict(report["fit"]), *_table(*fit_rows(report["fit"]))]
    if "comparison" in report:
        lines += ["with other switches:", *_table(*comparison_rows(report["comparison"]))]
    return "\n".join(lines)
