"""Run the targets of the Makefile that take too long for each change, and write a report: ``make nightly``.

    python tools/nightly.py [--only TARGET ...] [--again] [--older]

An interrupted run is continued if the commit and the sources are unchanged. With `--older`, results of other commits are accepted,
too, and the report names the commits. Each target has a time limit. The output of the targets is in ``target/nightly/logs/``, the
report in ``target/nightly/report.md``. The exit status is 1 if a target failed.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import pages
import processes

ROOT = Path(__file__).resolve().parents[1]
DIRECTORY = ROOT / "target/nightly"
STATE = DIRECTORY / "state.json"
REPORT = DIRECTORY / "report.md"

#: Targets of make with time limits in minutes, several times what they take on two cores. Targets that replace the installed module
#: are last.
TARGETS = {
    "lint-cpp": 60,
    "asan": 60,
    "tsan": 60,
    "heap": 30,
    "fuzz": 60,
    "soak MINUTES=60": 120,
    "test-libraries": 120,
    "test-backend": 60,
    "programs": 360,
    "conformance": 360,
    "conformance-compile": 360,
    "mutants": 360,
    "test-hardware": 180,
    "asan-python": 180,
    "tsan-python": 240,
    "test-aarch64": 180,
    "test-portable": 180,
    "test-python TORCH=2.13.0": 240,
    "test-python TORCH=2.14.1": 240,
}
#: Variables that make sets for its recursive calls.
_OF_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass
class Result:
    """Result of a target, with the version that it ran on."""

    of: str = ""
    outcome: str = "not run"
    seconds: float = 0
    closing: str = ""

    def time(self) -> str:
        """Return the duration in minutes, or in seconds below ten minutes."""
        return f"{self.seconds / 60:.0f} min" if self.seconds >= 600 else f"{self.seconds:.0f} s"


def version() -> str:
    """Return the version of the sources: the commit, and a hash of uncommitted changes outside docs/ and benches/.

    Targets write files in these two directories.
    """
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()
    changes = subprocess.check_output(["git", "diff", "HEAD", "--", ".", ":!docs", ":!benches"], cwd=ROOT)
    return f"{commit}+{hashlib.sha256(changes).hexdigest()[:8]}" if changes else commit


def read() -> dict[str, Result]:
    """Return the stored results, of any version."""
    return {name: Result(**result) for name, result in json.loads(STATE.read_text()).items()} if STATE.exists() else {}


def save(results: dict[str, Result]) -> None:
    """Store the results, atomically."""
    text = json.dumps({name: asdict(result) for name, result in results.items()}, indent=1)
    STATE.with_suffix(".new").write_text(text + "\n")
    STATE.with_suffix(".new").replace(STATE)


def log_of(target: str) -> Path:
    """Return the log file of a target."""
    return DIRECTORY / "logs" / f"{re.sub(r'[^A-Za-z0-9.-]+', '-', target)}.log"


def closing_line(log: Path) -> str:
    """Return the last line of a log that is not empty and not from make."""
    lines = [_ESCAPES.sub("", line).strip(" =\r") for line in log.read_text(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line and not line.startswith("make")), "")


def run(of: str, target: str, minutes: float) -> Result:
    """Run a target, which may have variables, on a version of the sources."""
    log = log_of(target)
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in _OF_MAKE}
    begin = time.monotonic()
    with log.open("wb") as output:
        command = ["make", *shlex.split(target)]
        status = processes.run(command, minutes * 60, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    outcome = {0: "passed", None: f"no end within {minutes:g} minutes"}.get(status, f"failed ({status})")
    return Result(of, outcome, round(time.monotonic() - begin, 1), closing_line(log))


def processor() -> str:
    """Return the name of the processor and the number of available cores."""
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{found[1] if found else 'processor'}, {len(os.sched_getaffinity(0))} cores"


def write(targets: list[str], results: dict[str, Result]) -> None:
    """Write the report on the requested targets."""
    rows = []
    for target in targets:
        result = results.get(target, Result())
        commit, plus, _ = result.of.partition("+")  # a "+" says that there were uncommitted changes
        rows.append((f"`make {target}`", result.outcome, commit[:10] + plus, result.time(), result.closing[:200]))
    lines = ["# Nightly", "", f"On {processor()}.", "", *pages.table("target | outcome | commit | time | closing line", rows)]
    failed = [target for target in targets if target in results and results[target].outcome != "passed"]
    if failed:
        lines += ["", "## To repeat what failed", ""]
        lines += [f"- `make {target}`; the log is `{log_of(target).relative_to(ROOT)}`" for target in failed]
    REPORT.write_text("\n".join(lines) + "\n")


def main() -> int:
    """Run the targets without a result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", default=list(TARGETS), metavar="TARGET", help="some targets, with their variables")
    parser.add_argument("--again", action="store_true", help="run anew what failed")
    parser.add_argument("--older", action="store_true", help="have results of other commits count")
    arguments = parser.parse_args()
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    of, results = version(), read()
    for name, result in list(results.items()):
        if (result.of != of and not arguments.older) or (result.outcome != "passed" and arguments.again):
            del results[name]
    try:
        for target in arguments.only:
            if target not in results:
                print(f"nightly: make {target}", flush=True)
                result = results[target] = run(of, target, TARGETS.get(target, 60))
                save(read() | {target: result})
                print(f"nightly: {result.outcome}, {result.time()}: {result.closing}", flush=True)
    finally:
        write(arguments.only, results)
        print(f"nightly: the report is {REPORT.relative_to(ROOT)}")
    return 0 if all(results[target].outcome == "passed" for target in arguments.only) else 1


if __name__ == "__main__":
    sys.exit(main())
