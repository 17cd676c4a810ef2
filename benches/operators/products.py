"""Compare matrix products with PyTorch's CPU device, over shapes and dtypes that use every engine of src/ops/matmul/.

    python benches/operators/products.py [--output FOLDER]

Both devices run in one process with the same number of threads, in alternating blocks; a figure is the minimum of the blocks. Each
case first checks that both devices compute the same values. `--output` writes the table to a file named after the processor, so
that figures of one processor never replace those of another.
"""

import argparse
import math
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

import rustdev
import torch
from compare import block
from record import slug, write_table

#: m, n, k of a (m, k) @ b (k, n).
SHAPES = [
    (16, 16, 16), (48, 48, 48), (40, 96, 48), (64, 64, 64), (128, 128, 128), (200, 200, 200), (384, 384, 384), (700, 700, 700),
    (1500, 1500, 1500), (800, 256, 256), (800, 1024, 256), (800, 256, 1024), (2000, 2800, 700), (1, 768, 768), (1, 2800, 700),
    (2800, 1, 700), (8, 2800, 700), (32, 768, 768), (200_000, 3, 3), (100_000, 8, 8), (20_000, 64, 16), (16, 64, 20_000),
]  # fmt: skip
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
#: Number of blocks per device, and approximate seconds of a block.
BLOCKS = 9
SECONDS = 4e-3
#: Pause in seconds before each block, in which OpenMP's threads stop spinning after a product on the CPU.
PAUSE = 10e-3


class Row(NamedTuple):
    """One case, in microseconds."""

    dtype: str
    m: int
    n: int
    k: int
    layout: str
    cpu: float
    device: float

    @property
    def factor(self) -> float:
        """Time on the CPU over time on the device."""
        return self.cpu / self.device


def measure(dtype: torch.dtype, shape: tuple[int, int, int], *, transposed: bool) -> Row:
    """Measure one case. `transposed`: b is a transposed view, like the weight of a linear layer.

    Raises:
        AssertionError: If the devices compute different values.
    """
    m, n, k = shape
    a = torch.randn(m, k).to(dtype)
    b = torch.randn(n, k).to(dtype).t() if transposed else torch.randn(k, n).to(dtype)
    host = [a, b, torch.empty(m, n, dtype=dtype)]
    mine = [tensor.to("rustdev") for tensor in host]

    def call(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return torch.mm(left, right, out=out)

    tolerance = 1e-4 if dtype is torch.float32 else 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(call(*mine).cpu(), call(*host), rtol=tolerance, atol=tolerance * math.sqrt(k))
    once = block(call, host, 2)
    count = max(1, int(SECONDS / max(once, 1e-7)))
    times = [(block(call, host, count, PAUSE), block(call, mine, count, PAUSE)) for _ in range(BLOCKS)]
    cpu, device = (min(column) * 1e6 for column in zip(*times, strict=True))
    return Row(str(dtype).removeprefix("torch."), m, n, k, "transposed" if transposed else "contiguous", cpu, device)


def mean(rows: list[Row]) -> float:
    """Return the geometric mean of the factors."""
    return statistics.geometric_mean(row.factor for row in rows)


def main(arguments: list[str]) -> None:
    """Measure, and print the results as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="the folder that the table goes to; without, nothing is written")
    options = parser.parse_args(arguments)
    rustdev.set_num_threads(torch.get_num_threads())
    rows = []
    for dtype in DTYPES:
        for shape in SHAPES:
            for transposed in (False, True):
                rows.append(row := measure(dtype, shape, transposed=transposed))
                place = f"{row.dtype:9}{row.m:>7}{row.n:>6}{row.k:>6} {row.layout:11}"
                print(f"{place}{row.cpu:12.1f} us{row.device:12.1f} us{row.factor:8.2f}", flush=True)
        own = [row for row in rows if row.dtype == str(dtype).removeprefix("torch.")]
        print(f"{dtype}: geometric mean {mean(own):.2f}, least {min(row.factor for row in own):.2f}")
    if options.output:
        path = options.output / f"products-{slug(rustdev.get_device_name(), torch.get_num_threads())}.csv"
        measured = ([*row[:5], f"{row.cpu:.1f}", f"{row.device:.1f}", f"{row.factor:.2f}"] for row in rows)
        write_table(path, [*Row._fields, "factor"], measured)
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
