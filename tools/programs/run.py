"""Runs the selected tests of a program, once without rustdev and once with it."""

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import recorded

from . import fetch
from .listed import EXAMPLES, Program

#: Time limits of a test and of a selection in seconds, and the memory of the devices.
TEST_SECONDS, SELECTION_SECONDS, MEMORY = 300, 1200, "4G"
#: A closed port as proxy, so that downloads fail at once.
NOWHERE = "http://127.0.0.1:9"
OFFLINE = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"), NOWHERE) | {
    "no_proxy": "localhost,127.0.0.1",
    "NO_PROXY": "localhost,127.0.0.1",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "WANDB_MODE": "disabled",
}


def run(program: Program, releases: Mapping[str, str], root: Path) -> dict[str, Any]:
    """Return the outcome of each test without rustdev and with it, by test name."""
    packages = [fetch.installed(root, name, releases[name]) for name in (program.name, *program.takes)]
    folder = EXAMPLES if program.way == "example" else fetch.source(root, program.name, releases[program.name])
    results = root / "results" / program.name
    shutil.rmtree(results, ignore_errors=True)
    (results / "home").mkdir(parents=True)
    begun = time.monotonic()
    host = {} if program.way == "example" else _selection(program, packages, folder, results, False)
    device = _selection(program, packages, folder, results, True)
    fallbacks = device.pop(recorded.SESSION, {}).get("fallbacks", [])
    host.pop(recorded.SESSION, None)
    return {"host": host, "device": device, "fallbacks": fallbacks, "seconds": round(time.monotonic() - begun)}


def _selection(program: Program, packages: list[Path], folder: Path, results: Path, on_device: bool) -> recorded.Lines:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RUSTDEV_", "PYTEST_"))}
    environment = kept | OFFLINE | {
        "HOME": str(results / "home"),
        "PYTHONPATH": os.pathsep.join([*map(str, packages), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        # The tests are small: several threads would only wait for each other.
        "OMP_NUM_THREADS": "1",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(on_device)),
        "RUSTDEV_DEVICE_COUNT": str(program.devices),
        "RUSTDEV_MEMORY_LIMIT": MEMORY,
    } | program.environment | (program.device_environment if on_device else {})  # fmt: skip
    arguments = ["-W", "ignore", "--tb", "short", "--continue-on-collection-errors"]
    arguments += ["-p", "rustdev_pytest"] if on_device else ["-p", "no:rustdev_pytest"]
    arguments += ["--rustdev-as-cuda"] if on_device and program.way == "cuda" else []
    arguments += [*program.arguments, *(program.device_arguments if on_device else []), *program.tests]
    device = "rustdev" if on_device and program.way == "default" else ""
    lines = str(results / f"{'device' if on_device else 'host'}.jsonl")
    options = recorded.Options(lines, without=program.without, seconds=TEST_SECONDS, device=device)
    return recorded.run(arguments, options, folder, environment, whole=SELECTION_SECONDS, own_group=True)
