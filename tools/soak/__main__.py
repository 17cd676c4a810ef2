"""The command: ``PYTHONPATH=tools python -m soak``, or ``make soak``."""

import argparse
import os
import sys
import time

# The package reads it when it is imported, with torch.
os.environ["RUSTDEV_DEVICE_COUNT"] = "2"

import rustdev

from .machines import Host
from .program import Maker, run, smaller


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="soak", description="Run random programs on two devices and compare them with the CPU.")
    parser.add_argument("--minutes", type=float, default=10, help="begin no further program after so long")
    parser.add_argument("--seed", type=int, default=None, help="the same seed gives the same programs; default: another each time")
    parser.add_argument("--first", type=int, default=0, help="begin with this program of the seed's")
    options = parser.parse_args(arguments)
    if not options.minutes > 0 or options.first < 0:
        parser.error("--minutes takes a number above 0, --first one that is not negative")
    return options


def soak(minutes: float, seed: int, first: int) -> int:
    """Run programs until the time is over, or one differs; return the exit status."""
    start, number = time.monotonic(), first
    while number == first or time.monotonic() - start < 60 * minutes:
        maker = Maker(f"{seed}:{number}")
        steps, difference = run(maker.steps(), maker.host, is_fresh=False)
        if difference is not None:
            print(f"soak: a difference with --seed {seed} --first {number}, behind step %{difference.step.number}:")
            print(f"  %{difference.value}: {difference.text}")
            least = smaller(steps)
            print(f"{len(least)} of its {len(steps)} steps show it still:")
            found = run(least, Host(), is_fresh=True)[1]
            print(*(f"  {step}" for step in least), sep="\n")
            print(f"  {found.text}" if found else "  (not each time)")
            return 1
        number += 1
    print(f"soak: {number - first} programs without a difference in {time.monotonic() - start:.0f} s with --seed {seed}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run; 1 where a value differs."""
    options = parse(arguments)
    seed = int(time.time()) if options.seed is None else options.seed
    rustdev.set_fallback_mode("allow")
    print(f"soak: seed {seed}", flush=True)
    return soak(options.minutes, seed, options.first)


if __name__ == "__main__":
    sys.exit(main())
