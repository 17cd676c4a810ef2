"""Runs the device-generic test files of a directory in shards, with a process for each file and shard."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import plugin

TOOLS = Path(__file__).parents[1]
# Exit statuses of pytest: all passed, some failed, nothing to run.
USUAL = (0, 1, 5)


@dataclass(frozen=True)
class Plan:
    """What to run, and how.

    Attributes:
        directory: Directory of the tests.
        output: Directory for results and the output of the processes.
        exclusions: File of exclusions.
        shards: Number of shards of each file's tests.
        jobs: Number of concurrent processes.
        resume: Whether to keep the results of an earlier run and skip its tests.
        timeout: Seconds after which a process is killed and its test counts as crashed.
        arguments: Further arguments of pytest.
    """

    directory: Path
    output: Path
    exclusions: Path
    shards: int = 1
    jobs: int = 1
    timeout: float = 3600
    resume: bool = False
    arguments: list[str] = field(default_factory=list)


def test_directory(checkout: Path) -> Path:
    """Return the test directory of a checkout of PyTorch; a directory of tests is returned unchanged."""
    inside = checkout / "test"
    return inside if inside.is_dir() else checkout


def generic_files(directory: Path, names: list[str]) -> list[str]:
    """Return the files with device-generic tests, relative to the directory: those in ``names``, or all if it is empty."""
    files = sorted(path for path in directory.rglob("test_*.py") if not names or path.relative_to(directory).as_posix() in names)
    return [
        path.relative_to(directory).as_posix()
        for path in files
        if "instantiate_device_type_tests(" in path.read_text(errors="replace")
    ]


def run(plan: Plan, files: list[str]) -> dict[str, dict[str, Any]]:
    """Run the files and return the last line of each test; see :mod:`upstream.plugin`."""
    plan.output.mkdir(parents=True, exist_ok=True)
    units = [(file, shard) for file in files for shard in range(plan.shards)]
    with ThreadPoolExecutor(plan.jobs) as pool:
        parts = list(pool.map(lambda unit: _run_unit(plan, *unit), units))
    return {test: line for part in parts for test, line in part.items()}


def _run_unit(plan: Plan, file: str, shard: int) -> dict[str, dict[str, Any]]:
    """Run one shard of a file, with a new process after each test that kills its process."""
    stem = plan.output / f"{file.replace('/', '.').removesuffix('.py')}-{shard}"
    results, log = stem.with_name(stem.name + ".jsonl"), stem.with_name(stem.name + ".log")
    finished = [line for line in plugin.read(results).values() if line["outcome"] != "started"] if plan.resume else []
    results.unlink(missing_ok=True)
    for line in finished:
        plugin.write(results, **line)
    environment = _environment(plan, shard, results)
    with log.open("wb") as output:
        while True:
            ended = _run_process(plan, file, environment, output)
            if ended == "":
                break
            crashed = list(_unfinished(results))
            for test in crashed:
                plugin.write(results, test, "crashed", text=ended)
            if not crashed:
                plugin.write(results, file, "crashed", text=f"{ended} outside of a test: see {log.name}")
                break
    return plugin.read(results)


def _environment(plan: Plan, shard: int, results: Path) -> Mapping[str, str]:
    path = [str(TOOLS), str(plan.directory), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "RUSTDEV_DEVICE_COUNT": "2",
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "TORCH_TEST_DEVICES": str(Path(__file__).with_name("device.py")),
        plugin.RESULTS: str(results.resolve()),
        plugin.SHARD: f"{shard}/{plan.shards}",
        plugin.EXCLUSIONS: str(plan.exclusions.resolve()),
    }


def _run_process(plan: Plan, file: str, environment: Mapping[str, str], output: Any) -> str:
    """Run pytest on the rest of a file. Return how the process died, or an empty string."""
    quiet = ["-q", "-c", os.devnull, "--rootdir", str(plan.directory), "--noconftest", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-p", "upstream.plugin", *quiet, *plan.arguments, file]
    try:
        done = subprocess.run(
            command, cwd=plan.directory, env=environment, stdout=output, stderr=output, timeout=plan.timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end after {plan.timeout:g} s"
    if done.returncode in USUAL:
        return ""
    return f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"


def _unfinished(results: Path) -> Iterator[str]:
    return (test for test, line in plugin.read(results).items() if line["outcome"] == "started")
