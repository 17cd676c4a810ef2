"""The process that runs checks: it reads their names, a line each, and writes lines of JSON about them.

    python -m rustdev_conformance.child OPTIONS

A crash or a hang ends this process alone; the parent (``run``) knows which check it was, and starts another one.
"""

import faulthandler
import json
import os
import platform
import sys
import time
import traceback
import warnings
from typing import Any

import torch

from rustdev_conformance import checks

MOST = 800


def fallbacks(device: checks.Device) -> int | None:
    """Return how many calls fell back to the CPU, where the device's module has them by operator: numbers, or their ``calls``."""
    count = getattr(getattr(torch, device.name, None), "fallback_stats", None)
    if not callable(count):
        return None
    counted = count()
    return sum(int(getattr(calls, "calls", calls)) for calls in counted.values())


def blamed(error: BaseException) -> str:
    """Return an exception in one line, with the line of the kit or of the device that raised it."""
    frames = [it for it in traceback.extract_tb(error.__traceback__) if "rustdev_conformance" in it.filename]
    text = " ".join(str(error).split()) or (frames[-1].line if frames else "")
    where = f" [{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}]" if frames else ""
    return f"{type(error).__name__}: {text}"[:MOST] + where


def execute(check: checks.Check, device: checks.Device) -> dict[str, Any]:
    """Run a check, and return how it ended."""
    before, start, result = fallbacks(device), time.perf_counter(), {"outcome": "pass", "message": ""}
    try:
        note = check.run(device)
        device.synchronize()
        result["message"] = note or ""
    except checks.Absent as absence:
        result = {"outcome": "absent", "message": str(absence)}
    except checks.Skipped as reason:
        result = {"outcome": "skipped", "message": str(reason)}
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        is_refusal = isinstance(error, NotImplementedError) or "not implemented for '" in str(error)
        result = {"outcome": "unsupported" if is_refusal else "fail", "message": blamed(error)}
        try:
            device.synchronize()
        except Exception as late:
            result["message"] += f"; then, at synchronize: {str(late)[:200]}"
    after = fallbacks(device)
    took = None if before is None or after is None else max(after - before, 0)
    return {**result, "seconds": round(time.perf_counter() - start, 3), "fallbacks": took}


def about(device: checks.Device) -> dict[str, Any]:
    """Return what the scorecard says of the device and its surroundings."""
    try:
        named = str(device.function("get_device_name")())
    except Exception:
        named = device.name
    return {"device": device.name, "hardware": named, "torch": torch.__version__, "python": platform.python_version()}


def main(arguments: list[str]) -> None:
    """Run checks as the parent says, until its end of the pipe is closed."""
    options = json.loads(arguments[0])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what checks print is no answer
    faulthandler.enable()
    warnings.simplefilter("ignore")
    device = checks.Device(options["device"], options["level"], tuple(options["imports"]))

    def tell(**line: Any) -> None:
        answers.write(json.dumps(line) + "\n")

    try:
        device.load()
    except (ImportError, ValueError) as refusal:
        tell(refusal=" ".join(str(refusal).split()))
        return
    try:
        names = checks.chosen(device.level, options["only"])
    except ImportError as refusal:
        tell(refusal=f"{refusal}: pip install 'rustdev[conformance]' installs what PyTorch's databases import")
        return
    tell(checks=names, about=about(device))
    for line in sys.stdin:
        tell(**execute(checks.REGISTRY[json.loads(line)], device))


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # some libraries take seconds to end
