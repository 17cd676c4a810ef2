"""Every operator family beside PyTorch's CPU device, over sizes, dtypes and layouts; writes benches/record/ and the page.

    python benches/operators/compare.py [--only TEXT] [--quick] [--output FOLDER [--page FILE.md]]

Both devices run in one process with the same number of threads, in alternating blocks; a figure is the least over the blocks,
since what else the machine does only adds to a time. The whole table is measured twice, so that a busy neighbour of some minutes
has no row to itself, and a third time where the two least differ. Every family has a new process each time: whether the CPU's
allocator has the memory for a large result at hand depends on what ran before. Each case first checks that both devices compute
the same. Factors are the CPU's time over the device's: above 1 the device is faster. Beside the operators a copy of as many bytes
as their tensors have runs on the device, in the same blocks. A table is only good for the processor that it names.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import multiprocessing
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import rustdev
import torch
from families import FAMILIES, Family
from record import SMALL, Row, write
from report import duration, summary, this_machine, write_page
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: How often the table is measured; the last time only the cases of which the two least times of a contender differ by more than
#: `SPREAD`.
SWEEPS = 3
SPREAD = 1.05


class Pace(NamedTuple):
    """How a case is measured in a sweep: so many blocks of about so many seconds, with a pause before each.

    In a pause the other device's threads stop looking for work: OpenMP's spin for some milliseconds, and would take a core away. A
    call that is not timed wakes the device's own.
    """

    blocks: int
    seconds: float
    pause: float


#: Calls on one thread need no pause. A core of a shared machine may change its speed within milliseconds: short blocks in quick
#: turns meet each of its speeds on both devices.
SMALL_PACE = Pace(100, 5e-4, 0)
#: Calls of which several fit a block, others, and those longer than `LONG` seconds.
SHORT_PACE = Pace(12, 2e-3, 1e-2)
PACE = Pace(4, 2e-3, 1e-2)
LONG_PACE = Pace(2, 2e-3, 1e-2)
LONG = 0.1
FLOAT, BFLOAT16 = torch.float32, torch.bfloat16
#: Elements above which a size counts as large.
LARGE = 1 << 22


@dataclass(frozen=True, eq=False)
class Case:
    """What is measured: an operator of a family for inputs of one size, dtype and layout."""

    family: Family
    operator: str
    size: str
    dtype: torch.dtype
    is_transposed: bool

    def inputs(self) -> list[torch.Tensor]:
        """Return the inputs on the CPU."""
        shape = self.family.sizes[self.size]
        tensors = [noise(shape, seed).to(self.dtype, copy=True) for seed in range(self.family.inputs)]
        if self.family.positive:
            tensors = [tensor.abs() + 0.1 for tensor in tensors]
        # One transposed input is what cannot be had by renaming dimensions.
        return [tensors[0].t(), *tensors[1:]] if self.is_transposed else tensors

    def row(self, times: list[list[float]]) -> Row:
        """Return what the times of the blocks come to."""
        cpu, device, *copy = map(min, zip(*times, strict=True))
        layout = "transposed" if self.is_transposed else "contiguous"
        name = str(self.dtype).removeprefix("torch.")
        return Row(self.family.name, self.operator, self.size, name, layout, cpu, device, copy[0] if copy else None)


@functools.cache
def cases(*, quick: bool, only: str) -> list[Case]:
    """Return what is measured, of operators or families whose name has a text."""
    found = []
    for family in FAMILIES:
        for operator in family.operators:
            if only not in family.name and only not in operator:
                continue
            for size, shape in family.sizes.items():
                large = math.prod(shape) > LARGE
                if quick and (large or size == "1k"):
                    continue
                found += [Case(family, operator, size, dtype, is_transposed=False) for dtype in (FLOAT, BFLOAT16)]
                if family.transposed and len(shape) > 1 and not large:
                    found.append(Case(family, operator, size, FLOAT, is_transposed=True))
    return found


@functools.cache
def noise(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Return random numbers, the same for every operator."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def copying(arguments: list[torch.Tensor], results: list[torch.Tensor]) -> Callable[..., Any]:
    """Return a copy on the device that reads and writes together as many bytes as the arguments and results have."""
    count = max(1, sum(tensor.nbytes for tensor in (*arguments, *results)) // 8)
    source, target = torch.ones(count, device="rustdev"), torch.zeros(count, device="rustdev")
    return lambda *_: target.copy_(source)


def block(call: Callable[..., Any], arguments: list[torch.Tensor], count: int, pause: float = 0) -> float:
    """Return the seconds of a call, over some of them, after a pause of so many seconds."""
    if pause:
        time.sleep(pause)
    call(*arguments)
    rustdev.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call(*arguments)
    rustdev.synchronize()
    return (time.perf_counter() - start) / count


def are_steady(times: list[list[float]]) -> bool:
    """Return whether every contender's least time was nearly reached twice."""
    least = [sorted(column)[:2] for column in zip(*times, strict=True)]
    return all(second <= SPREAD * first for first, second in least)


def check(case: Case, call: Callable[..., Any], host: list[torch.Tensor], mine: list[torch.Tensor]) -> None:
    """Hold the device's results against the CPU's.

    Raises:
        AssertionError: The devices compute different values.
    """
    expected = pytree.tree_leaves(call(*[tensor.clone() for tensor in host]))
    tolerance = 2e-2 if case.dtype == BFLOAT16 else 1e-3
    actual = [leaf.cpu() for leaf in pytree.tree_leaves(call(*[tensor.clone() for tensor in mine]))]
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def pace_of(case: Case, once: float) -> Pace:
    """Return how a case is measured of which a call takes so many seconds."""
    if case.size in SMALL:
        return SMALL_PACE
    if once > LONG:
        return LONG_PACE
    return SHORT_PACE if once < SHORT_PACE.seconds / 2 else PACE


def measure(case: Case, *, checked: bool) -> list[list[float]]:
    """Return the seconds of a call on the CPU, on the device and, where bytes are known, of a copy, for each of some blocks.

    Raises:
        AssertionError: The devices compute different values, where that is to be checked.
    """
    family, call = case.family, case.family.operators[case.operator]
    host = case.inputs()
    mine = [tensor.to("rustdev") for tensor in host]
    if checked and not family.random:
        check(case, call, host, mine)
    contenders = [(call, host), (call, mine)]
    if family.copied:
        contenders.append((copying(host, pytree.tree_leaves(call(*[tensor.clone() for tensor in host]))), []))
    block(call, host, 1)
    once = block(call, host, 2)
    pace = pace_of(case, once)
    count = max(1, int(pace.seconds / max(once, 1e-7)))
    return [[block(*contender, count, pace.pause) for contender in contenders] for _ in range(pace.blocks)]


def prepare() -> None:
    """Make a new process ready for `measure_one`."""
    rustdev.set_num_threads(torch.get_num_threads())
    warnings.filterwarnings("ignore", message=".*degrees of freedom")


def measure_one(number: int, *, quick: bool, only: str, checked: bool) -> list[list[float]]:
    """Return what `measure` does for one of the cases, by its number: a process can not be sent the functions themselves."""
    return measure(cases(quick=quick, only=only)[number], checked=checked)


def measure_all(
    pending: list[tuple[int, Case]], options: argparse.Namespace, *, checked: bool
) -> Iterator[tuple[int, list[list[float]]]]:
    """Yield the times of cases, which come with their numbers: of each family in a new process."""
    for _, mine in itertools.groupby(pending, lambda numbered: numbered[1].family.name):
        with multiprocessing.get_context("spawn").Pool(1, prepare) as pool:
            for number, _ in mine:
                yield number, pool.apply(measure_one, (number,), {"quick": options.quick, "only": options.only, "checked": checked})


def main(arguments: list[str]) -> None:
    """Measure, print as it goes, and write the tables and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="operators or families whose name has this text")
    parser.add_argument("--quick", action="store_true", help="without the largest and the second smallest size")
    parser.add_argument("--output", type=Path, help="the folder that the tables go to; without, nothing is written")
    parser.add_argument("--page", type=Path, help="where the page goes, its plot beside it; takes --output")
    options = parser.parse_args(arguments)
    if options.page and not options.output:
        parser.error("--page takes --output")
    chosen = cases(quick=options.quick, only=options.only)
    if not chosen:
        sys.exit("no such operator")
    times: list[list[list[float]]] = [[] for _ in chosen]
    for sweep in range(SWEEPS):
        pending = [(number, case) for number, case in enumerate(chosen) if sweep < SWEEPS - 1 or not are_steady(times[number])]
        for number, blocks in measure_all(pending, options, checked=sweep == 0):
            times[number] += blocks
            row = chosen[number].row(times[number])
            place = f"{row.operator:28}{row.size:>12} {row.dtype:9}{row.layout:11}"
            copies = f"{row.copies:8.2f} copies" if row.copies else ""
            print(f"{place}{duration(row.cpu):>10}{duration(row.device):>10}{row.factor:8.2f}{copies}", flush=True)
    rows = [case.row(blocks) for case, blocks in zip(chosen, times, strict=True)]
    print("\n".join(summary(rows)))
    if options.output:
        table = write(options.output, this_machine(quick=options.quick), rows)
        if options.page:
            write_page(table, options.page)


if __name__ == "__main__":
    main(sys.argv[1:])
