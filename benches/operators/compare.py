"""Every operator family beside PyTorch's CPU device, over sizes, dtypes and layouts; writes docs/benchmarks.md.

    python benches/operators/compare.py [--only TEXT] [--quick] [--output FILE]

Both devices run in one process with the same number of threads, in alternating blocks; a figure is the median over the blocks,
and each case first checks that both devices compute the same. Factors are the CPU's time over the device's: above 1 the device is
faster. A table is only good for the processor that it names.
"""

from __future__ import annotations

import argparse
import functools
import math
import statistics
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rustdev
import torch
from torch.nn import functional
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

aten = torch.ops.aten
ROOT = Path(__file__).parents[2]
BLOCKS = 7
#: Seconds of a block, about.
BLOCK = 2e-3
#: Seconds before a block, in which the other device's threads stop looking for work: OpenMP's spin for some milliseconds, and would
#: take a core away. A call that is not timed wakes the device's own.
PAUSE = 1e-2
Sizes = dict[str, tuple[int, ...]]
FLOAT, BFLOAT16 = torch.float32, torch.bfloat16
SIZES: Sizes = {"1": (1,), "1k": (1024,), "64k": (65536,), "1M": (1024, 1024), "16M": (4096, 4096)}
MATRICES: Sizes = {"128x768": (128, 768), "1024x1024": (1024, 1024), "4096x4096": (4096, 4096)}
#: Elements above which only operators of a few nanoseconds per element are timed, to keep the whole in bounds.
LARGE = 1 << 22


@dataclass(frozen=True)
class Family:
    """Operators that take the same inputs.

    Attributes:
        name: what the table calls them.
        inputs: how many tensors of one shape they take.
        operators: by name.
        sizes: the shapes, by name.
        random: whether values depend on the generator, and are not compared.
        positive: whether inputs are above 0.
    """

    name: str
    inputs: int
    operators: dict[str, Callable[..., Any]]
    sizes: Sizes
    random: bool = False
    positive: bool = False


def along(name: str, dim: int) -> Callable[..., Any]:
    """Return a function of torch over one dimension."""
    call = getattr(torch, name)
    return lambda tensor: call(tensor, dim)


def of_torch(*names: str) -> dict[str, Callable[..., Any]]:
    """Return functions of torch by name."""
    return {name: getattr(torch, name) for name in names}


@functools.cache
def places(count: int, high: int, device: torch.device) -> torch.Tensor:
    """Return random indices below a number, the same on every device."""
    return torch.randint(high, (count,), generator=torch.Generator().manual_seed(2)).to(device)


def through(call: Callable[..., Any]) -> Callable[[torch.Tensor], Any]:
    """Return a function of a tensor, which it takes flat and with as many indices into it."""
    return lambda a: call(a.view(-1), places(a.numel(), a.numel(), a.device))


def through_rows(call: Callable[..., Any]) -> Callable[[torch.Tensor], Any]:
    """Return a function of a matrix, which it takes with as many indices as it has rows."""
    return lambda a: call(a, places(a.shape[0], a.shape[0], a.device))


FAMILIES = [
    Family(
        "arithmetic", 2, {**of_torch("add", "sub", "mul", "div", "maximum", "eq", "lt"), "copy_": lambda a, b: a.copy_(b)}, SIZES
    ),
    Family(
        "elementary",
        1,
        of_torch("neg", "abs", "exp", "exp2", "tanh", "erf", "erfc", "sigmoid", "sin", "tan", "sinh", "atan"),
        SIZES,
    ),
    Family(
        "of positive numbers",
        1,
        of_torch("log", "log2", "log10", "sqrt", "rsqrt", "log1p", "asinh", "lgamma", "digamma", "i0"),
        SIZES,
        positive=True,
    ),
    Family("power", 2, of_torch("pow", "hypot", "atan2"), SIZES, positive=True),
    Family(
        "activations",
        1,
        {name: getattr(functional, name) for name in ("relu", "gelu", "silu", "hardswish", "softplus", "leaky_relu")},
        SIZES,
    ),
    Family(
        "choices",
        2,
        {
            "where": lambda a, b: torch.where(a > b, a, b),
            "clamp": lambda a, _: a.clamp(-0.5, 0.5),
            "lerp": lambda a, b: torch.lerp(a, b, 0.3),
        },
        SIZES,
    ),
    Family("reductions", 1, of_torch("sum", "mean", "amax", "argmax", "var"), SIZES),
    Family(
        "along the last dimension",
        1,
        {
            **{name: along(name, -1) for name in ("sum", "amax", "argmax", "var", "cumsum", "cummax", "softmax", "log_softmax")},
            "layer_norm": lambda a: functional.layer_norm(a, a.shape[-1:]),
        },
        MATRICES,
    ),
    Family(
        "along the first dimension",
        1,
        {name: along(name, 0) for name in ("sum", "amax", "argmax", "var", "cumsum", "softmax")},
        MATRICES,
    ),
    Family(
        "movement", 1, {"contiguous of a transposed": lambda a: a.t().contiguous(), "to float64": lambda a: a.double()}, MATRICES
    ),
    Family(
        "rearrangement",
        1,
        {
            "cat": lambda a: torch.cat([a, a], -1),
            "flip": lambda a: a.flip(-1),
            "roll": lambda a: a.roll((3, 5), (0, 1)),
            **of_torch("tril", "triu"),
        },
        MATRICES,
    ),
    Family(
        "order",
        1,
        {
            "sort": lambda a: a.flatten().sort(stable=True),
            "topk": lambda a: a.flatten().topk(1 + a.numel() // 65536).values,
            "kthvalue": lambda a: a.flatten().kthvalue(1 + a.numel() // 2).values,
            **of_torch("median", "unique"),
        },
        SIZES,
    ),
    Family(
        "through indices",
        1,
        {
            "gather": through(lambda a, i: a.gather(0, i)),
            "scatter_add": through(lambda a, i: torch.zeros_like(a).scatter_add_(0, i, a)),
            "index": through(lambda a, i: a[i]),
            "index_put": through(lambda a, i: torch.zeros_like(a).index_put_((i,), a, accumulate=True)),
        },
        SIZES,
    ),
    Family(
        "rows through indices",
        1,
        {
            "index_select": through_rows(lambda a, i: a.index_select(0, i)),
            "index_add": through_rows(lambda a, i: torch.zeros_like(a).index_add_(0, i, a)),
            "embedding backward": through_rows(lambda a, i: aten.embedding_dense_backward(a, i, a.shape[0], -1, False)),
        },
        MATRICES,
    ),
    Family(
        "selection",
        1,
        {
            "masked_select": lambda a: a.masked_select(a > 0),
            "nonzero": lambda a: (a > 0).nonzero(),
            "masked_fill": lambda a: a.masked_fill(a > 0, 1.0),
        },
        SIZES,
    ),
    Family(
        "random numbers",
        1,
        {
            "randn": torch.randn_like,
            "rand": torch.rand_like,
            "bernoulli_": lambda a: torch.empty_like(a).bernoulli_(0.3),
            "dropout": lambda a: functional.dropout(a, 0.3),
        },
        SIZES,
        random=True,
    ),
]


@dataclass
class Row:
    """A measured case: seconds on both devices."""

    family: str
    operator: str
    size: str
    dtype: str
    layout: str
    cpu: float
    device: float

    @property
    def factor(self) -> float:
        """How many times faster the device is."""
        return self.cpu / self.device


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
                if len(shape) > 1 and not large and family.name in ("arithmetic", "elementary", "activations"):
                    yield family, operator, size, FLOAT, True


def inputs_of(family: Family, shape: tuple[int, ...], dtype: torch.dtype, *, transposed: bool) -> list[torch.Tensor]:
    """Return the inputs on the CPU."""
    generator = torch.Generator().manual_seed(1)
    tensors = [torch.randn(shape, generator=generator).to(dtype) for _ in range(family.inputs)]
    if family.positive:
        tensors = [tensor.abs() + 0.1 for tensor in tensors]
    # One input turned is what cannot be had by renaming dimensions.
    return [tensors[0].t(), *tensors[1:]] if transposed else tensors


def measure(family: Family, operator: str, size: str, dtype: torch.dtype, *, transposed: bool) -> Row:
    """Measure one case.

    Raises:
        AssertionError: The devices compute different values.
    """
    call = family.operators[operator]
    host = inputs_of(family, family.sizes[size], dtype, transposed=transposed)
    mine = [tensor.to("rustdev") for tensor in host]
    if not family.random:
        tolerance = 2e-2 if dtype == BFLOAT16 else 1e-3
        expected = pytree.tree_leaves(call(*[tensor.clone() for tensor in host]))
        actual = [leaf.cpu() for leaf in pytree.tree_leaves(call(*[tensor.clone() for tensor in mine]))]
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)

    def block(arguments: list[torch.Tensor], count: int) -> float:
        time.sleep(PAUSE)
        call(*arguments)
        rustdev.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call(*arguments)
        rustdev.synchronize()
        return (time.perf_counter() - start) / count

    block(host, 1)
    count = max(1, min(5000, int(BLOCK / max(block(host, 2), 1e-7))))
    times = [(block(host, count), block(mine, count)) for _ in range(BLOCKS)]
    cpu, device = (statistics.median(column) for column in zip(*times, strict=True))
    name = str(dtype).removeprefix("torch.")
    return Row(family.name, operator, size, name, "transposed" if transposed else "contiguous", cpu, device)


def mean(rows: list[Row]) -> float:
    """Return the geometric mean of the factors."""
    return math.exp(statistics.fmean(math.log(row.factor) for row in rows))


def duration(seconds: float) -> str:
    """Return a time with three digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def lines_of(rows: list[Row]) -> Iterator[str]:
    """Yield the rows of a table."""
    yield "| family | operator | size | dtype | layout | CPU | rustdev | factor |"
    yield "|---|---|---|---|---|---:|---:|---:|"
    for row in rows:
        place = f"{row.family} | {row.operator} | {row.size} | {row.dtype} | {row.layout}"
        yield f"| {place} | {duration(row.cpu)} | {duration(row.device)} | {row.factor:.2f} |"


def page(rows: list[Row], *, quick: bool) -> str:
    """Return docs/benchmarks.md."""
    worst = sorted(rows, key=lambda row: row.factor)[:10]
    slower = sum(row.factor < 0.95 for row in rows)
    info = f"{processor()}, {torch.get_num_threads()} threads, torch {torch.__version__}, rustdev {rustdev.__version__}"
    parts = [
        "# Benchmarks",
        "",
        "Operators beside PyTorch's CPU device, in one process, with the same number of threads, in alternating blocks,",
        "results checked: `make bench` writes this page. A factor is the CPU's time over the device's; it holds for the processor",
        "that is named here.",
        "",
        f"{info}." + (" The largest and the second smallest sizes are left out (`--quick`)." if quick else ""),
        "",
        f"**{len(rows)} cases, geometric mean {mean(rows):.2f}; {slower} cases below 0.95.**",
        "",
        "| family | geometric mean | least | greatest |",
        "|---|---:|---:|---:|",
    ]
    for name in dict.fromkeys(row.family for row in rows):
        mine = [row for row in rows if row.family == name]
        factors = [row.factor for row in mine]
        parts.append(f"| {name} | {mean(mine):.2f} | {min(factors):.2f} | {max(factors):.2f} |")
    parts += ["", "## The ten worst", "", *lines_of(worst), "", "## All", "", *lines_of(rows)]
    return "\n".join(parts) + "\n"


def processor() -> str:
    """Return the processor's name."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown processor")


def main(arguments: list[str]) -> None:
    """Measure, print as it goes, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="operators or families whose name has this text")
    parser.add_argument("--quick", action="store_true", help="without the largest and the second smallest size")
    parser.add_argument("--output", type=Path, help="where the page goes; printed alone without")
    options = parser.parse_args(arguments)
    rustdev.set_num_threads(torch.get_num_threads())
    warnings.filterwarnings("ignore", message=".*degrees of freedom")
    rows = []
    for family, operator, size, dtype, transposed in cases(quick=options.quick):
        if options.only not in family.name and options.only not in operator:
            continue
        row = measure(family, operator, size, dtype, transposed=transposed)
        place = f"{row.operator:28}{row.size:>10} {row.dtype:9}{row.layout:11}"
        print(f"{place}{duration(row.cpu):>10}{duration(row.device):>10}{row.factor:8.2f}", flush=True)
        rows.append(row)
    if not rows:
        sys.exit("no such operator")
    print(f"{len(rows)} cases, geometric mean {mean(rows):.2f}, {sum(row.factor < 0.95 for row in rows)} below 0.95")
    if options.output:
        options.output.write_text(page(rows, quick=options.quick))


if __name__ == "__main__":
    main(sys.argv[1:])
