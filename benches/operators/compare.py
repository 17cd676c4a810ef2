"""Every operator family beside PyTorch's CPU device, over sizes, dtypes and layouts; writes docs/benchmarks.md and its plot.

    python benches/operators/compare.py [--only TEXT] [--quick] [--output FILE]

Both devices run in one process with the same number of threads, in alternating blocks; a figure is the least over the blocks,
since what else the machine does only adds to a time, and there are more blocks as long as the two least differ. Each case first
checks that both devices compute the same. Factors are the CPU's time over the device's: above 1 the device is faster. Beside
pointwise operators a copy of as many bytes runs on the device, in the same blocks. A table is only good for the processor that it
names.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rustdev
import torch
from families import FAMILIES, Family
from report import Row, duration, page, plot, summary
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCKS = 7
#: Blocks where one call takes longer than `LONG` seconds.
LONG_BLOCKS = 3
LONG = 0.1
#: How often so many blocks are measured, as long as the two least of a contender differ by more than `SPREAD`.
ROUNDS = 2
SPREAD = 1.05
#: Seconds of a block, about.
BLOCK = 2e-3
#: Seconds before a block, in which the other device's threads stop looking for work: OpenMP's spin for some milliseconds, and would
#: take a core away. A call that is not timed wakes the device's own.
PAUSE = 1e-2
FLOAT, BFLOAT16 = torch.float32, torch.bfloat16
#: Elements above which a size counts as large.
LARGE = 1 << 22
#: Elements from which an operator is held against a copy: below, a call costs more than its work.
COPIED = 1 << 16


def cases(*, quick: bool) -> Iterator[tuple[Family, str, str, torch.dtype, bool]]:
    """Yield family, operator, size, dtype and whether the inputs are transposed."""
    for family in FAMILIES:
        for operator in family.operators:
            for size, shape in family.sizes.items():
                large = math.prod(shape) > LARGE
                if quick and (large or size == "1k"):
                    continue
                for dtype in (FLOAT, BFLOAT16):
                    yield family, operator, size, dtype, False
                if family.transposed and len(shape) > 1 and not large:
                    yield family, operator, size, FLOAT, True


@functools.cache
def noise(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Return random numbers, the same for every operator."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def inputs_of(family: Family, shape: tuple[int, ...], dtype: torch.dtype, *, transposed: bool) -> list[torch.Tensor]:
    """Return the inputs on the CPU."""
    tensors = [noise(shape, seed).to(dtype, copy=True) for seed in range(family.inputs)]
    if family.positive:
        tensors = [tensor.abs() + 0.1 for tensor in tensors]
    # One input turned is what cannot be had by renaming dimensions.
    return [tensors[0].t(), *tensors[1:]] if transposed else tensors


def copying(arguments: list[torch.Tensor], results: list[torch.Tensor]) -> Callable[..., Any]:
    """Return a copy on the device that reads and writes together as many bytes as the arguments and results have."""
    count = sum(tensor.nbytes for tensor in (*arguments, *results)) // 8
    source, target = torch.ones(count, device="rustdev"), torch.zeros(count, device="rustdev")
    return lambda *_: target.copy_(source)


def block(call: Callable[..., Any], arguments: list[torch.Tensor], count: int) -> float:
    """Return the seconds of a call, over some of them."""
    time.sleep(PAUSE)
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


def measure(family: Family, operator: str, size: str, dtype: torch.dtype, *, transposed: bool) -> Row:
    """Measure one case.

    Raises:
        AssertionError: The devices compute different values.
    """
    call = family.operators[operator]
    host = inputs_of(family, family.sizes[size], dtype, transposed=transposed)
    mine = [tensor.to("rustdev") for tensor in host]
    expected = pytree.tree_leaves(call(*[tensor.clone() for tensor in host]))
    if not family.random:
        tolerance = 2e-2 if dtype == BFLOAT16 else 1e-3
        actual = [leaf.cpu() for leaf in pytree.tree_leaves(call(*[tensor.clone() for tensor in mine]))]
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    contenders = [(call, host), (call, mine)]
    if family.pointwise and not transposed and host[0].numel() >= COPIED:
        contenders.append((copying(host, expected), []))
    del expected

    block(call, host, 1)
    once = block(call, host, 2)
    count = max(1, min(5000, int(BLOCK / max(once, 1e-7))))
    blocks = LONG_BLOCKS if once > LONG else BLOCKS
    times: list[list[float]] = []
    for _ in range(ROUNDS):
        times += [[block(*contender, count) for contender in contenders] for _ in range(blocks)]
        if are_steady(times):
            break
    cpu, device, *copy = map(min, zip(*times, strict=True))
    name = str(dtype).removeprefix("torch.")
    return Row(
        family.name, operator, size, name, "transposed" if transposed else "contiguous", cpu, device, copy[0] if copy else None
    )


def main(arguments: list[str]) -> None:
    """Measure, print as it goes, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="operators or families whose name has this text")
    parser.add_argument("--quick", action="store_true", help="without the largest and the second smallest size")
    parser.add_argument("--output", type=Path, help="where the page goes, its plot beside it; without, nothing is written")
    options = parser.parse_args(arguments)
    rustdev.set_num_threads(torch.get_num_threads())
    warnings.filterwarnings("ignore", message=".*degrees of freedom")
    rows = []
    for family, operator, size, dtype, transposed in cases(quick=options.quick):
        if options.only not in family.name and options.only not in operator:
            continue
        row = measure(family, operator, size, dtype, transposed=transposed)
        place = f"{row.operator:28}{row.size:>12} {row.dtype:9}{row.layout:11}"
        copies = f"{row.copies:8.2f} copies" if row.copies else ""
        print(f"{place}{duration(row.cpu):>10}{duration(row.device):>10}{row.factor:8.2f}{copies}", flush=True)
        rows.append(row)
    if not rows:
        sys.exit("no such operator")
    print("\n".join(summary(rows)))
    if options.output:
        options.output.write_text(page(rows, options.output.with_suffix(".png").name, quick=options.quick))
        plot(rows, options.output.with_suffix(".png"))


if __name__ == "__main__":
    main(sys.argv[1:])
