"""Compare operators in float16 and bfloat16 with float32 on the device, forward and backward, and list fallbacks.

    python benches/operators/halves.py [--only TEXT] [--output FOLDER]

The dtypes run in one process in alternating blocks; a figure is the minimum of the blocks. A ratio is the time of a dtype over that
of float32. With half the bytes an operator should take no longer; a ratio above `LIMIT` is a finding.
`--output` writes the table to a file named after the processor, for which alone it is valid.
"""

import argparse
import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import rustdev
import torch
from halves_cases import CASES, Case
from record import write_table
from report import duration, this_machine
from torch.utils import _pytree as pytree

#: The ratio above which a case is a finding.
LIMIT = 2.0
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
#: Number of blocks per dtype and direction, and approximate seconds of a block; number of blocks of calls longer than LONG seconds.
BLOCKS, SECONDS = 7, 3e-3
FEW, LONG = 2, 0.1


class Row(NamedTuple):
    """Result of a case in one direction: seconds by dtype (without unsupported dtypes), and operators that fell back by dtype."""

    case: Case
    direction: str
    seconds: dict[torch.dtype, float]
    fallbacks: dict[torch.dtype, frozenset[str]]

    def ratio(self, dtype: torch.dtype) -> float | None:
        """Time in a dtype over that in float32; None if the dtype is not supported."""
        return self.seconds[dtype] / self.seconds[torch.float32] if dtype in self.seconds else None

    @property
    def name(self) -> str:
        """Name of the case with the direction."""
        return f"{self.case.name}, {self.direction}"

    @property
    def is_finding(self) -> bool:
        """Whether the ratio of a 16 bit dtype exceeds the limit."""
        return any((self.ratio(dtype) or 0) > LIMIT for dtype in DTYPES[1:])


def operands(case: Case, dtype: torch.dtype) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the floating-point operands and the indices of a case, with the same values for every dtype."""
    generator = torch.Generator().manual_seed(1)
    floats = [torch.randn(sizes, generator=generator) for sizes in case.floats]
    indices = [torch.randint(below, sizes, generator=generator).to("rustdev") for sizes, below in case.indices]
    if case.positive:
        floats = [tensor.abs().clamp(0.1, 0.9) for tensor in floats]
    if case.channels_last:
        floats = [tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor for tensor in floats]
    return [tensor.to("rustdev", dtype) for tensor in floats], indices


def directions(case: Case, dtype: torch.dtype) -> dict[str, Callable[[], Any]]:
    """Return the measured functions of a case in a dtype, by direction."""
    floats, indices = operands(case, dtype)
    call, parameters = case.call, []
    if case.module is not None:
        torch.manual_seed(1)
        module = case.module().to("rustdev", dtype)
        call, parameters = module, list(module.parameters())
    assert call is not None, case.name

    def forward() -> Any:
        with torch.no_grad():
            return call(*floats, *indices)

    if not case.backward:
        return {"forward": forward}
    differentiated = floats[: len(floats) - case.constants]
    inputs = [*[tensor.requires_grad_() for tensor in differentiated], *parameters]
    result = call(*floats, *indices)
    grad = torch.ones_like(result)

    def backward() -> Any:
        return torch.autograd.grad(result, inputs, grad, retain_graph=True, allow_unused=True)

    return {"forward": forward, "backward": backward}


def block(call: Callable[[], Any], count: int) -> float:
    """Return the mean seconds of ``count`` calls."""
    call()
    rustdev.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    rustdev.synchronize()
    return (time.perf_counter() - start) / count


def routes(call: Callable[[], Any]) -> frozenset[str]:
    """Return the operators that fall back in a call."""
    rustdev.reset_fallback_stats()
    pytree.tree_map_only(torch.Tensor, torch.Tensor.cpu, call())
    return frozenset(rustdev.fallback_stats())


def measure(case: Case) -> Iterator[Row]:
    """Yield the rows of a case."""
    calls = {}
    for dtype in DTYPES:
        with contextlib.suppress(NotImplementedError):
            calls[dtype] = directions(case, dtype)
    for direction in calls[torch.float32]:
        contenders = {dtype: mine[direction] for dtype, mine in calls.items()}
        fallbacks = {dtype: routes(call) for dtype, call in contenders.items()}
        once = {dtype: block(call, 1) for dtype, call in contenders.items()}
        seconds = {dtype: [first] for dtype, first in once.items()}
        for _ in range(FEW if max(once.values()) > LONG else BLOCKS):
            for dtype, call in contenders.items():
                seconds[dtype].append(block(call, max(1, int(SECONDS / once[dtype]))))
        yield Row(case, direction, {dtype: min(times) for dtype, times in seconds.items()}, fallbacks)


def cells(row: Row) -> list[str]:
    """Return the times and the ratios of a row."""
    times = [duration(row.seconds[dtype]) if dtype in row.seconds else "refused" for dtype in DTYPES]
    ratios = [row.ratio(dtype) for dtype in DTYPES[1:]]
    return times + ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]


def numbers(row: Row) -> list[str]:
    """Return the cells for a CSV table: as `cells`, with times in microseconds."""
    times = [f"{row.seconds[dtype] * 1e6:.6g}" if dtype in row.seconds else "" for dtype in DTYPES]
    return times + cells(row)[len(DTYPES) :]


def fallen(row: Row) -> str:
    """Return the operators that fall back, with their dtypes."""
    names = {str(dtype).removeprefix("torch."): ", ".join(sorted(names)) for dtype, names in row.fallbacks.items() if names}
    return "; ".join(f"{dtype}: {text}" for dtype, text in names.items())


def line(row: Row) -> str:
    """Return a row as a line of text."""
    times = "".join(f"{text:>10}" for text in cells(row))
    return f"{row.case.family:24}{row.name:52}{times}  {fallen(row)}"


def main(arguments: list[str]) -> None:
    """Measure, print the results as they come, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="families or operators whose name has this text")
    parser.add_argument("--output", type=Path, help="the folder that the table goes to; without, nothing is written")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    rows = []
    for case in CASES:
        if options.only not in case.family and options.only not in case.name:
            continue
        for row in measure(case):
            print(line(row), flush=True)
            rows.append(row)
    if not rows:
        sys.exit("no such operator")
    findings = [row for row in rows if row.is_finding]
    print(f"\n{len(rows)} rows, {len(findings)} above {LIMIT:g}:")
    for row in findings:
        print(line(row))
    if options.output:
        names = [str(dtype).removeprefix("torch.") for dtype in DTYPES]
        columns = ["family", "operator", *(f"{name} us" for name in names), *(f"{name} ratio" for name in names[1:]), "falls back"]
        table = options.output / f"halves-{this_machine(quick=False).slug}.csv"
        write_table(table, columns, ([row.case.family, row.name, *numbers(row), fallen(row)] for row in rows))


if __name__ == "__main__":
    main(sys.argv[1:])
