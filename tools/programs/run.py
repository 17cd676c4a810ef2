"""Runs the selected tests of a program in child processes, once without rustdev and once with it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from . import fetch, record
from .listed import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .listed import Program

TOOLS = Path(__file__).parents[1]
# Exit statuses of pytest: all passed, some failed, nothing to run.
USUAL = (0, 1, 5)
#: A closed port as proxy, so that downloads fail at once.
NOWHERE = "http://127.0.0.1:9"
OFFLINE = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"), NOWHERE) | {
    "no_proxy": "localhost,127.0.0.1",
    "NO_PROXY": "localhost,127.0.0.1",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "WANDB_MODE": "disabled",
}


@dataclass(frozen=True)
class Limits:
    """Time limits of a test and of a selection in seconds, and the memory of the devices."""

    test: float = 300
    selection: float = 1200
    memory: str = "4G"


def run(program: Program, releases: Mapping[str, str], root: Path, limits: Limits) -> dict[str, Any]:
    """Return the outcome of each test without rustdev and with it, by test name.

    Raises:
        fetch.UnavailableError: If a distribution is unavailable.
    """
    packages = [fetch.installed(root, name, releases[name]) for name in (program.name, *program.takes)]
    folder = EXAMPLES if program.way == "example" else fetch.source(root, program.name, releases[program.name])
    results = root / "results" / program.name
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    begun = time.monotonic()
    host = {} if program.way == "example" else _selection(program, packages, folder, results / "host", False, limits)
    device = _selection(program, packages, folder, results / "device", True, limits)
    fallbacks = device.pop(record.SESSION, {}).get("fallbacks", [])
    host.pop(record.SESSION, None)
    return {"host": host, "device": device, "fallbacks": fallbacks, "seconds": round(time.monotonic() - begun)}


def _selection(
    program: Program, packages: list[Path], folder: Path, stem: Path, on_device: bool, limits: Limits
) -> dict[str, dict[str, Any]]:
    """Run the selection, with a new process after each test that kills its process."""
    results, log = stem.with_suffix(".jsonl"), stem.with_suffix(".log")
    environment = _environment(program, packages, results, on_device, limits)
    ends = time.monotonic() + limits.selection
    with log.open("w") as output:
        while True:
            ended = _process(program, folder, environment, on_device, output, ends)
            unfinished = [test for test, line in record.read(results).items() if line["outcome"] == "started"]
            if not ended and not unfinished:
                break
            for test in unfinished:
                record.write(results, test, "crashed", text=ended or f"no end after {limits.test:g} s", used=on_device)
            if not unfinished or time.monotonic() > ends:
                record.write(results, "the whole selection", "crashed", text=f"{ended}: see {log.name}", used=False)
                break
    return record.read(results)


def _environment(program: Program, packages: list[Path], results: Path, on_device: bool, limits: Limits) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RUSTDEV_", "PYTEST_"))}
    path = [*map(str, packages), str(TOOLS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return kept | OFFLINE | {
        "HOME": str(_made(results.parent / "home")),
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        # The tests are small: several threads would only wait for each other.
        "OMP_NUM_THREADS": "1",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(on_device)),
        "RUSTDEV_DEVICE_COUNT": str(program.devices),
        "RUSTDEV_MEMORY_LIMIT": limits.memory,
        record.RESULTS: str(results.resolve()),
        record.DEVICE: "rustdev" if on_device and program.way == "default" else "",
        record.SECONDS: str(limits.test),
        record.WITHOUT: json.dumps(program.without),
    } | program.environment | (program.device_environment if on_device else {})  # fmt: skip


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder.resolve()


def _process(program: Program, folder: Path, environment: Mapping[str, str], on_device: bool, output: IO[str], ends: float) -> str:
    """Run pytest on the rest of the selection. Return how the process died, or an empty string."""
    quiet = ["-q", "-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider", "-W", "ignore", "--tb", "short"]
    plugins = ["-p", "programs.record", "--continue-on-collection-errors"]
    plugins += ["-p", "rustdev_pytest"] if on_device else ["-p", "no:rustdev_pytest"]
    plugins += ["--rustdev-as-cuda"] if on_device and program.way == "cuda" else []
    command = [sys.executable, "-m", "pytest", *plugins, *quiet, *program.arguments]
    command += [*(program.device_arguments if on_device else []), *program.tests]
    child = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        code = child.wait(max(1.0, ends - time.monotonic()))
    except subprocess.TimeoutExpired:
        return "no end of the selection in its time"
    finally:
        # Kills processes that a test has started and left, too.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    if code in USUAL:
        return ""
    return f"signal {-code}" if code < 0 else f"exit status {code}"
