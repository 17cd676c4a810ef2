"""Products with quantised weights and of 8 bit integers against the CPU: values, layouts of packed weights, errors."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from comparison import SUMS, assert_any_threads, compare, compare_errors, make_tensor

aten = torch.ops.aten
Call = Callable[..., Any]

close = functools.partial(compare, rtol=SUMS | {torch.float16: 1e-2, torch.bfloat16: 4e-2}, atol=2e-2)

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
#: Rows, columns and terms: fewer rows than are multiplied directly and more, whole and partial blocks.
SIZES = [(1, 32, 64), (2, 48, 128), (5, 112, 256), (40, 16, 64), (1, 4096, 2048), (130, 144, 2048)]


def int8(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(-128, 128, sizes, dtype=torch.int8, generator=torch.Generator().manual_seed(seed))


def int4(*sizes: int) -> torch.Tensor:
    return torch.randint(16, sizes, dtype=torch.int32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_int8_weights(sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    m, n, k = sizes
    x, scales = make_tensor((m, k), dtype), make_tensor((n,), dtype, seed=1) / 1000
    close(aten._weight_int8pack_mm, x, int8(n, k), scales)
    # Rows may be apart.
    close(aten._weight_int8pack_mm, torch.cat([x, x], 1)[:, :k], int8(n, k), scales)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("sizes", "group"), [(it, group) for it in SIZES for group in (32, 64, 128, 256) if it[2] % group == 0], ids=str
)
def test_int4_weights(sizes: tuple[int, int, int], group: int, dtype: torch.dtype) -> None:
    m, n, k = sizes
    x, parameters = make_tensor((m, k), dtype), make_tensor((k // group, n, 2), dtype, seed=1) / 100

    def product(x: torch.Tensor, weights: torch.Tensor, parameters: torch.Tensor) -> torch.Tensor:
        return aten._weight_int4pack_mm_for_cpu(x, aten._convert_weight_to_int4pack_for_cpu(weights, 1), group, parameters)

    close(product, x, int4(n, k), parameters)


@pytest.mark.parametrize("sizes", [(16, 2), (32, 64), (64, 32), (48, 34), (112, 256), (0, 4), (4096, 128)], ids=str)
def test_packed_weights_are_those_of_the_cpu(sizes: tuple[int, int]) -> None:
    compare(aten._convert_weight_to_int4pack_for_cpu, int4(*sizes), 8)
    compare(lambda weights: aten._convert_weight_to_int4pack_for_cpu(weights.t(), 2), int4(*sizes[::-1]))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 17, 5), (16, 32, 64), (70, 33, 1000), (0, 4, 3), (4, 0, 3), (2, 3, 0)], ids=str)
def test_products_of_integers(sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    m, n, k = sizes
    a = int8(m, k).view(dtype)
    compare(torch._int_mm, a, int8(k, n))
    compare(lambda a, b: torch._int_mm(a.t(), b.t()), int8(k, m).view(dtype), int8(n, k))
    compare(lambda a, b, out: torch._int_mm(a, b, out=out), a, int8(k, n), torch.zeros(m, n, dtype=torch.int32))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, w, s: aten._weight_int8pack_mm(x.double(), w, s),
        lambda x, w, s: aten._weight_int8pack_mm(x, w.short(), s),
        lambda x, w, s: aten._weight_int8pack_mm(x, w, s.half()),
        lambda x, w, s: aten._weight_int8pack_mm(x, w, s[:5]),
        lambda x, w, s: aten._weight_int8pack_mm(x, w[:, :32].contiguous(), s),
        lambda x, w, s: aten._weight_int8pack_mm(x, w.t().contiguous().t(), s),
        lambda x, w, s: aten._weight_int8pack_mm(x.t().contiguous().t(), w, s),
        lambda x, w, s: aten._weight_int8pack_mm(x[0], w, s),
        lambda x, w, s: aten._convert_weight_to_int4pack_for_cpu(w, 2),
        lambda x, w, s: aten._convert_weight_to_int4pack_for_cpu(w.int()[:8], 2),
        lambda x, w, s: aten._convert_weight_to_int4pack_for_cpu(w.int()[:, :3], 2),
        lambda x, w, s: aten._weight_int4pack_mm_for_cpu(x, w.view(torch.uint8), 32, s.expand(2, 16, 2)),
        lambda x, w, s: aten._weight_int4pack_mm_for_cpu(x, w.view(torch.uint8)[:, :32].contiguous(), 16, s.expand(4, 16, 2)),
        lambda x, w, s: aten._weight_int4pack_mm_for_cpu(x, w.view(torch.uint8)[:, :32].contiguous(), 32, s.half()),
        lambda x, w, s: torch._int_mm(w, w),
        lambda x, w, s: torch._int_mm(w, x),
        lambda x, w, s: torch._int_mm(w[0], w),
        lambda x, w, s: torch._int_mm(w, w.t(), out=torch.empty(0, dtype=torch.int32, device=x.device)),
        lambda x, w, s: torch._int_mm(w, w.t(), out=torch.empty(16, 16, device=x.device)),
        lambda x, w, s: torch._int_mm(w, w.t(), out=torch.empty(16, 32, dtype=torch.int32, device=x.device)[:, ::2]),
    ],
)
def test_errors_are_those_of_the_cpu(call: Call) -> None:
    compare_errors(call, make_tensor((2, 64), torch.float32), int8(16, 64), make_tensor((16,), torch.float32))


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    x, scales = make_tensor((3, 512), torch.bfloat16).to("rustdev"), make_tensor((640,), torch.bfloat16).to("rustdev")
    weights, integers = int8(640, 512).to("rustdev"), int8(9, 512).to("rustdev")
    assert_any_threads(lambda: aten._weight_int8pack_mm(x, weights, scales))
    assert_any_threads(lambda: aten._weight_int8pack_mm(x.repeat(7, 1), weights, scales))
    assert_any_threads(lambda: torch._int_mm(integers, weights.t()))
