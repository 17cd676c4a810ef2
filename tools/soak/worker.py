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
from collections.abc import Iterable
from pathlib import Path

# Both variables are read when torch and the package are imported. oneDNN caches kernels for the last 1024 shapes, and programs have
# ever new shapes: the cache would look like a leak.
os.environ |= {"RUSTDEV_DEVICE_COUNT": "2", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "0"}

import rustdev

from .machines import DEVICES, Host, Step, settle
from .modes import MODES, SHORTAGE
from .program import Maker, Outcome, run, smaller
from .ranks import fault
from .report import Report, Sample, held

#: Fraction of a run before the first sample, in which caches fill, and number of samples after it.
WARM_UP, SAMPLES = 0.2, 24
#: Time limit in seconds for shrinking a program with a difference.
SHRINKING = 300


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
    """Runs the programs of one mode and writes its report. A program is determined by the seed and its number."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.report, self.start = options, Report(options.mode), time.monotonic()

    def run(self) -> None:
        """Run programs until the end of the run or the first failure."""
        due = 0
        while self.report.programs == 0 or self.progress() < 1:
            self.report.program = self.options.first + self.report.programs
            self.report.save(self.options.report)
            is_right = self.ranks() if self.report.mode == "ranks" else self.program()
            self.report.programs += 1
            before = due
            while due <= SAMPLES and self.progress() >= WARM_UP + due * (1 - WARM_UP) / SAMPLES:
                due += 1
            if not is_right or (due > before and not self.sample()):
                break
        self.report.is_over = True
        self.report.save(self.options.report)

    def progress(self) -> float:
        """Return the completed fraction of the run, by time, or by the number of programs if that is limited; 1 at its end."""
        done: float = self.report.programs / self.options.programs if self.options.programs else 0.0
        passed: float = (time.monotonic() - self.start) / self.options.seconds
        return max(passed, done)

    def program(self) -> bool:
        """Run the next program, and return whether it was right."""
        maker = Maker(f"{self.options.seed}:{self.report.program}")
        outcome = self.attempt(maker.steps(), maker.host, is_fresh=False)
        self.report.shortages += outcome.shortages
        if outcome.difference is not None:
            self.report.findings += outcome.difference.is_finding
            self.report.differences += not outcome.difference.is_finding
            self.tell(outcome)
        return outcome.difference is None

    def ranks(self) -> bool:
        """Run the next program of several processes, and return whether it was right."""
        wrong = fault(f"{self.options.seed}:{self.report.program}")
        if wrong is not None:
            self.report.findings += 1
            print(f"soak: a finding with {self.where()}: {wrong}", flush=True)
        return wrong is None

    def attempt(self, steps: Iterable[Step], host: Host, *, is_fresh: bool) -> Outcome:
        """Run steps in the mode's context, which makes their behaviour independent of earlier programs."""
        seed = (1_000_003 * self.options.seed + self.report.program) % (1 << 32)
        around: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        if self.report.mode == "random":
            around = rustdev.schedule(f"random:{seed}")
        elif self.report.mode == "faults":
            around = rustdev.inject_faults(f"oom:p={SHORTAGE},seed={seed}")
        elif self.report.mode == "race":  # on exit the sanitizer raises what it found in a free
            around = rustdev.sanitizer("error")
        return run(steps, host, is_fresh=is_fresh, tries=MODES[self.report.mode].tries, around=around)

    def where(self) -> str:
        """Return the options that run the current program again."""
        return f"--modes {self.report.mode} --seed {self.options.seed} --first {self.report.program}"

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
        """Take a sample. Return whether nothing failed. The programs of "ranks" run in other processes, which are not sampled."""
        try:
            if self.report.mode != "ranks":
                self.report.samples.append(sample())
        except Exception as error:
            self.report.findings += 1
            print(f"soak: a finding at the end of a batch, with {self.where()} or a program before it:")
            print(f"  {type(error).__name__}: {error}", flush=True)
            return False
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
    rustdev.set_fallback_mode("allow")
    worker = Worker(parser.parse_args(arguments))
    worker.run()
    return 0 if worker.report.is_clean() else 1


if __name__ == "__main__":
    sys.exit(main())
