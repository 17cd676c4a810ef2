"""Compare every operator family with PyTorch's CPU device, over sizes, dtypes and layouts; write benches/record/ and the page.

    python benches/operators/compare.py [--only TEXT] [--quick] [--output FOLDER [--page FILE.md]]

Both devices run in one process with the same number of threads, in alternating blocks. A figure is the minimum of the blocks, since
other load on the machine only increases a time. The whole table is measured twice, so that no row depends on one busy period, and a
third time where the two minima differ. Every family runs in a new process each time, because memory for a large result may be
cached by the CPU's allocator or not, depending on earlier calls. Each case first checks that both devices compute the same values.
Factors are the CPU's time over the device's: above 1 the device is faster. In the same blocks, a copy of as many bytes as the
operator's tensors have runs on the device. A table is valid only for the processor that it names.
"""

import argparse
import functools
import itertools
import math
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import rustdev
import torch
from families import FAMILIES, Family
from record import SMALL, Row, write
from report import duration, summary, this_machine, write_page
from torch.utils import _pytree as pytree

#: Number of sweeps over the table. The last one measures only cases in which the two smallest times of a contender differ by more
#: than the factor `SPREAD`.
SWEEPS = 3
SPREAD = 1.05


class Pace(NamedTuple):
    """How a case is measured in a sweep: number of blocks, approximate seconds of a block, and seconds of the pause before each.

    In a pause the other device's threads stop spinning: OpenMP's threads spin for some milliseconds and would occupy a core. An
    untimed call then wakes the device's own threads.
    """

    blocks: int
    seconds: float
    pause: float


#: Calls on one thread need no pause. The speed of a core of a shared machine may change within milliseconds: by many short
#: alternating blocks, both devices are measured at each speed.
SMALL_PACE = Pace(100, 5e-4, 0)
#: For calls of which several fit in a block, for longer ones, and for those longer than `LONG` seconds.
SHORT_PACE = Pace(12, 2e-3, 1e-2)
PACE = Pace(4, 2e-3, 1e-2)
LONG_PACE = Pace(2, 2e-3, 1e-2)
LONG = 0.1
FLOAT, BFLOAT16 = torch.float32, torch.bfloat16
#: Elements above which a size counts as large.
LARGE = 1 << 22


@dataclass(frozen=True, eq=False)
class Case:
    """An operator of a family for inputs of one size, dtype and layout."""

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
        # Only one input is transposed: if all were, this would be the same as renaming dimensions.
        return [tensors[0].t(), *tensors[1:]] if self.is_transposed else tensors

    def row(self, times: list[list[float]]) -> Row:
        """Return the result of the times of the blocks."""
        cpu, device, *copy = map(min, zip(*times, strict=True))
        layout = "transposed" if self.is_transposed else "contiguous"
        name = str(self.dtype).removeprefix("torch.")
        return Row(self.family.name, self.operator, self.size, name, layout, cpu, device, copy[0] if copy else None)


@functools.cache
def cases(*, quick: bool, only: str) -> list[Case]:
    """Return the cases of operators or families whose name contains ``only``."""
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
    """Return a device copy that reads and writes in total as many bytes as the arguments and results have."""
    count = max(1, sum(tensor.nbytes for tensor in (*arguments, *results)) // 8)
    source, target = torch.ones(count, device="rustdev"), torch.zeros(count, device="rustdev")
    return lambda *_: target.copy_(source)


def block(call: Callable[..., Any], arguments: list[torch.Tensor], count: int, pause: float = 0) -> float:
    """Return the mean seconds of ``count`` calls, after a pause."""
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
    """Return whether the two smallest times of every contender differ by at most `SPREAD`."""
    least = [sorted(column)[:2] for column in zip(*times, strict=True)]
    return all(second <= SPREAD * first for first, second in least)


def check(case: Case, call: Callable[..., Any], host: list[torch.Tensor], mine: list[torch.Tensor]) -> None:
    """Compare the device's results with the CPU's.

    Raises:
        AssertionError: If the devices compute different values.
    """
    expected = pytree.tree_leaves(call(*[tensor.clone() for tensor in host]))
    tolerance = 2e-2 if case.dtype == BFLOAT16 else 1e-3
    actual = [leaf.cpu() for leaf in pytree.tree_leaves(call(*[tensor.clone() for tensor in mine]))]
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def pace_of(case: Case, once: float) -> Pace:
    """Return the pace for a case, given the seconds of one call."""
    if case.size in SMALL:
        return SMALL_PACE
    if once > LONG:
        return LONG_PACE
    return SHORT_PACE if once < SHORT_PACE.seconds / 2 else PACE


def measure(case: Case, *, checked: bool) -> list[list[float]]:
    """Return for each block the seconds of a call on the CPU, on the device and, if the bytes are known, of a copy.

    Raises:
        AssertionError: If ``checked`` is True and the devices compute different values.
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
    """Prepare a new process for `measure_one`."""
    rustdev.set_num_threads(torch.get_num_threads())
    warnings.filterwarnings("ignore", message=".*degrees of freedom")


def measure_one(number: int, *, quick: bool, only: str, checked: bool) -> list[list[float]]:
    """Call `measure` on a case given by its number: functions cannot be sent to another process."""
    return measure(cases(quick=quick, only=only)[number], checked=checked)


def measure_all(
    pending: list[tuple[int, Case]], options: argparse.Namespace, *, checked: bool
) -> Iterator[tuple[int, list[list[float]]]]:
    """Yield the numbers and times of numbered cases, each family in a new process."""
    for _, mine in itertools.groupby(pending, lambda numbered: numbered[1].family.name):
        with multiprocessing.get_context("spawn").Pool(1, prepare) as pool:
            for number, _ in mine:
                yield number, pool.apply(measure_one, (number,), {"quick": options.quick, "only": options.only, "checked": checked})


def main(arguments: list[str]) -> None:
    """Measure, print the results as they come, and write the tables and the page."""
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
