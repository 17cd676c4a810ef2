"""Runs the programs of one mode, in this process: ``python -m soak.worker``.

``python -m soak`` starts it with the environment variables of the mode.
"""

import argparse
import contextlib
import ctypes
import gc
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

# Both variables are read when torch and the package are imported. oneDNN caches kernels for the last 1024 shapes, and programs have
# ever new shapes: the cache would look like a leak.
os.environ |= {"RUSTDEV_DEVICE_COUNT": "2", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "0"}

import rustdev

from .machines import DEVICES, Host, Step, settle
from .modes import MODES, SHORTAGE
from .program import Maker, Outcome, run, smaller
from .ranks import fault
from .report import Report
from .resources import Sample, held

#: Fraction of a run before the first sample, in which caches fill, and number of samples after it.
WARM_UP, SAMPLES = 0.2, 24
#: Time limit in seconds for shrinking a program with a difference.
SHRINKING = 300


class Pace:
    """Progress of a run, by time, or by the number of programs if that is limited."""

    def __init__(self, seconds: float, programs: int | None) -> None:
        self.start, self.seconds, self.programs = time.monotonic(), seconds, programs
        self.due = 0

    def progress(self, done: int) -> float:
        """Return the completed fraction of the run; 1 at its end."""
        return max((time.monotonic() - self.start) / self.seconds, done / self.programs if self.programs else 0.0)

    def takes_sample(self, done: int) -> bool:
        """Return whether a sample is due, once for each sampling point."""
        progress, before = self.progress(done), self.due
        while self.due <= SAMPLES and progress >= WARM_UP + self.due * (1 - WARM_UP) / SAMPLES:
            self.due += 1
        return self.due > before


def sample() -> Sample:
    """Return the resources of the process after its caches are released."""
    gc.collect()
    settle()
    rustdev.empty_cache()
    rustdev.empty_host_cache()
    # Once more: releasing memory is when the memory sanitizer detects writes after free.
    settle()
    ctypes.CDLL(None).malloc_trim(0)
    return held() | {"device": sum(rustdev.memory_allocated(device) for device in range(DEVICES))}


class Worker:
    """Runs the programs of one mode and writes its report.

    Args:
        mode: Name of the mode.
        seed: Seed of the run; together with its number it determines a program.
        path: File of the report.
    """

    def __init__(self, mode: str, seed: int, path: Path) -> None:
        self.report, self.seed, self.path = Report(mode), seed, path

    def run(self, pace: Pace, first: int) -> None:
        """Run programs until the end of the run or the first failure."""
        while self.report.programs == 0 or pace.progress(self.report.programs) < 1:
            self.report.program = first + self.report.programs
            self.report.save(self.path)
            if not self.program() or (pace.takes_sample(self.report.programs) and not self.sample()):
                break
        self.report.is_over = True
        self.report.save(self.path)

    def program(self) -> bool:
        """Run the next program, and return whether it was right."""
        maker = Maker(f"{self.seed}:{self.report.program}")
        outcome = self.attempt(maker.steps(), maker.host, is_fresh=False)
        self.report.programs += 1
        self.report.shortages += outcome.shortages
        if outcome.difference is not None:
            self.report.findings += outcome.difference.is_finding
            self.report.differences += not outcome.difference.is_finding
            self.tell(outcome)
        return outcome.difference is None

    def attempt(self, steps: Iterator[Step] | list[Step], host: Host, *, is_fresh: bool) -> Outcome:
        """Run steps in the mode's context."""
        return run(steps, host, is_fresh=is_fresh, tries=MODES[self.report.mode].tries, around=self.around)

    def around(self) -> contextlib.AbstractContextManager[object]:
        """Return the context of a program, which makes its behaviour independent of earlier programs."""
        seed = (1_000_003 * self.seed + self.report.program) % (1 << 32)
        if self.report.mode == "random":
            return rustdev.schedule(f"random:{seed}")
        if self.report.mode == "faults":
            return rustdev.inject_faults(f"oom:p={SHORTAGE},seed={seed}")
        # On exit the sanitizer raises what it found in a free.
        return rustdev.sanitizer("error") if self.report.mode == "race" else contextlib.nullcontext()

    def where(self) -> str:
        """Return the options that run the current program again."""
        return f"--modes {self.report.mode} --seed {self.seed} --first {self.report.program}"

    def tell(self, outcome: Outcome) -> None:
        """Print a difference, and a minimal subset of the program's steps that shows it."""
        found = outcome.difference
        assert found is not None
        what = "finding" if found.is_finding else "difference"
        print(f"soak: a {what} with {self.where()}, behind step %{found.step.number}:")
        print(f"  %{found.value}: {found.text}", flush=True)
        least = smaller(outcome.steps, lambda steps: self.attempt(steps, Host(), is_fresh=True).difference is not None, SHRINKING)
        again = self.attempt(least, Host(), is_fresh=True).difference
        print(f"{len(least)} of its {len(outcome.steps)} steps show it still:")
        print(*(f"  {step}" for step in least), sep="\n")
        print(f"  {again.text}" if again else "  (not each time)", flush=True)

    def sample(self) -> bool:
        """Take a sample. Return whether nothing failed."""
        try:
            self.report.samples.append(sample())
        except Exception as error:
            self.report.findings += 1
            print(f"soak: a finding at the end of a batch, with {self.where()} or a program before it:")
            print(f"  {type(error).__name__}: {error}", flush=True)
            return False
        return True


class RanksWorker(Worker):
    """Runs the programs of the mode "ranks". They run in other processes, so resources of this process are not sampled."""

    def program(self) -> bool:
        """Run the next program, and return whether it was right."""
        wrong = fault(f"{self.seed}:{self.report.program}")
        self.report.programs += 1
        if wrong is not None:
            self.report.findings += 1
            print(f"soak: a finding with {self.where()}: {wrong}", flush=True)
        return wrong is None

    def sample(self) -> bool:
        """Do nothing: no samples in this mode."""
        return True


def main(arguments: list[str] | None = None) -> int:
    """Run the programs of a mode. Return 1 if there is a failure."""
    parser = argparse.ArgumentParser(prog="soak.worker", description="Run the programs of one mode in this process.")
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("report", type=Path, help="the file for the report")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--programs", type=int)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args(arguments)
    rustdev.set_fallback_mode("allow")
    worker = (RanksWorker if options.mode == "ranks" else Worker)(options.mode, options.seed, options.report)
    worker.run(Pace(options.seconds, options.programs), options.first)
    return 0 if worker.report.is_clean() else 1


if __name__ == "__main__":
    sys.exit(main())
