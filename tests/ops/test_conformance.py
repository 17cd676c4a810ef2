"""Parts of ``make conformance``: some operators, on two samples in float32, and on extreme values; its comparisons and its page."""

import importlib
import itertools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import children
import comparison
import pytest
import torch

ROOT = Path(__file__).parents[2]
#: Operators of several kinds of the device's kernels, of ATen's, of compositions and of the fallback.
SAMPLED = ["add", "amax", "cumsum", "fft_rfft", "frexp", "index_put", "linalg_solve", "matmul", "nn_functional_conv2d", "nonzero"]
SAMPLED += ["polygamma_polygamma_n_0", "sort", "stft", "take_along_dim", "tensor_split", "where"]
#: Operators whose results are written to memory that elements share, or that an argument has.
INTO_COMMON = ["add", "addmv", "aminmax", "cumprod", "cumsum", "histc", "kthvalue", "linalg_vecdot", "logcumsumexp", "mm", "msort"]
INTO_COMMON += ["bmm", "matmul", "max_reduction_with_dim", "mean", "min_reduction_with_dim", "sort", "topk"]
#: Operators that are called with extreme values.
EXTREME = ["add", "amax", "bitwise_and", "cumsum", "floor", "frexp", "log", "maximum", "mul", "sqrt", "sum", "tanh", "where"]

#: Files of the conformance tests, and those of their tests that are run here.
PARTS = {
    "test_operators.py": ["test_errors", *(f"test_forward_{name}_rustdev_float32" for name in SAMPLED)],
    "test_sweep_layouts.py": [f"test_layout_out_{name}_rustdev" for name in INTO_COMMON],
    "test_sweep_extremes.py": [
        f"test_extremes_{name}_rustdev_{dtype}" for name in EXTREME for dtype in ("bfloat16", "float32", "int64")
    ],
    "test_sparse_layouts.py": ["name__sparse_mm_reduce_impl_rustdev"],
}


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Return a function that imports a module of the conformance tests, or of the tools."""
    for directory in ("tools", "tests/ops", "tests/ops/conformance"):
        monkeypatch.syspath_prepend(ROOT / directory)
    return importlib.import_module


@pytest.mark.slow
def test_parts_of_the_files_pass() -> None:
    files, pattern = (f"conformance/{file}" for file in PARTS), " or ".join(itertools.chain.from_iterable(PARTS.values()))
    device = str(ROOT / "tools/upstream/device.py")
    arguments = ("-m", "pytest", "-qrN", "--noconftest", "-o", "filterwarnings=ignore", "-k", pattern, *files)
    folder = ROOT / "tests/ops"
    done = children.python(*arguments, directory=folder, path=folder, TORCH_TEST_DEVICES=device, CONFORMANCE_SAMPLES="12")
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 260, done.stdout
    assert "xfailed" in done.stdout


def wrong(one: Any, other: Any, exact: Callable[[float, int], torch.Tensor | None], **options: Any) -> list[bool]:
    """Return where numbers of a dtype are faults beside the CPU's."""
    return comparison.faults(torch.as_tensor(one, dtype=other.dtype), other, exact, **options).tolist()


def test_results_that_are_not_the_cpus_are_held_against_exact_ones() -> None:
    exact, host = torch.tensor([1.0, 100.0], dtype=torch.float64), torch.tensor([1.02, 100.0], dtype=torch.float16)

    def is_close(values: list[float], reference: Callable[[float, int], torch.Tensor | None]) -> bool:
        return not any(wrong(values, host, reference, unit=lambda size: 1e-3 * size + 1e-5))

    for values in ([1.0, 100.0], [0.981, 101.5]):
        assert is_close(values, lambda eps, seed: exact)
    for values in ([1.03, 100.0], [1.0, 103.0], [math.nan, 100.0], [1.0, math.inf]):
        assert not is_close(values, lambda eps, seed: exact)
    for reference in (None, exact[:1], exact.half()):
        assert not is_close([1.0, 100.0], lambda eps, seed, it=reference: it)

    # Further than the CPU's worst, but no further than what roundings of the inputs do; not much further all the same.
    def rounded(eps: float, seed: int) -> torch.Tensor:
        return exact + torch.tensor([0.0, 2.0 if eps else 0.0]) * (-1) ** seed

    for values, expected in (([1.0, 104.0], True), ([1.05, 100.0], False), ([1.0, 400.0], False)):
        assert is_close(values, rounded) == expected
    infinite = torch.complex(torch.tensor([math.inf]), torch.tensor([math.nan]))
    for imaginary, real, expected in ((1, math.inf, True), (-math.inf, math.inf, True), (1, -math.inf, False), (1, 1, False)):
        value = torch.complex(torch.tensor([float(real)]), torch.tensor([float(imaginary)]))
        assert wrong(value, infinite, lambda eps, seed: None, unit=torch.abs) == [not expected]
    # A NaN of the CPU excuses no number that is not the exact one.
    nan, one = torch.tensor([math.nan], dtype=torch.float16), torch.ones(1, dtype=torch.float64)
    for number, expected in ((1.0, False), (7.0, True)):
        assert wrong([number], nan, lambda eps, seed: one, unit=lambda size: 1e-3 * size + 1e-5) == [expected]


def test_every_kernel_for_sparse_tensors_has_a_call(load: Callable[[str], ModuleType]) -> None:
    """By the names of operators, with or without the underscore of those in place."""
    calls = load("sparse_calls")
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    names = {
        name.removeprefix("aten::").partition(".")[0].rstrip("_")
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::") and (has_kernel(name, "SparseCPU") or has_kernel(name, "SparseCsrCPU"))
    }
    assert len(names) > 100
    assert sorted(names - calls.CALLS.keys() - calls.ELSEWHERE) == []


@pytest.mark.usefixtures("fallback")
@pytest.mark.filterwarnings("ignore")  # of what is in beta or deprecated, once in a process
@pytest.mark.parametrize("kind", ["coo", "csr"])
def test_calls_of_sparse_tensors_and_their_gradients(kind: str, load: Callable[[str], ModuleType]) -> None:
    calls = load("sparse_calls")

    def run(call: str, device: str, *, gradients: bool) -> list[Any]:
        try:
            parts = calls.outcome_of(call, calls.names(kind, torch.float32, torch.int64, device, gradients=gradients))
        except (AttributeError, RuntimeError, ValueError, TypeError, IndexError) as error:
            return [type(error).__name__]
        is_dense = [isinstance(it, torch.Tensor) and it.layout is torch.strided for it in parts]
        return [it.clone(memory_format=torch.contiguous_format) if dense else it for it, dense in zip(parts, is_dense, strict=True)]

    compared = 0
    for call, gradients in itertools.product(itertools.chain.from_iterable(calls.CALLS.values()), (False, True)):
        if (call, kind) not in calls.DEADLY:
            mine, theirs = (run(call, device, gradients=gradients) for device in ("rustdev", "cpu"))
            comparison.assert_same(mine, theirs, rtol=1e-5, signs=False)
            compared += not (len(theirs) == 1 and isinstance(theirs[0], str))
    assert compared > 150


def test_entries_that_no_test_ran_are_listed(load: Callable[[str], ModuleType]) -> None:
    conformance = load("conformance")
    file = "conformance/test_operators.py::TestOperatorsRUSTDEV::"
    results = {
        file + "test_forward_add_rustdev_float32": {"outcome": "passed"},
        file + "test_forward_ad_add_rustdev_float32": {"outcome": "skipped", "text": "Skipped: slow"},
        file + "test_forward_jiterator_unary_rustdev_float32": {"outcome": "skipped", "text": "Skipped: Only runs on cuda"},
        file + "test_sparse_samples_sum_rustdev_int64": {"outcome": "xfailed"},
    }
    entries = ["add", "jiterator_unary", "sum", "other"]
    assert list(conformance.never_run(results, entries)) == ["jiterator_unary", "other"]
    assert "| `jiterator_unary` | Only runs on cuda |\n| `other` | no test |\n" in conformance.page(results, entries)


def test_extreme_results_are_compared_in_steps_of_their_dtype() -> None:
    tail, infinite = 2.0**-130, math.inf
    rows = [
        (tail, tail, tail, True),
        (0.0, tail, tail, False),
        (2 * tail, tail, tail, False),
        (2 * tail, 4 * tail, 2.5 * tail, True),
        (1.0, math.nan, math.nan, False),
        (1.0, math.nan, 1.0, True),
        (infinite, 3e38, 3e38, False),
        (infinite, math.nan, infinite, True),
        (-0.0, 0.0, 0.0, False),
        (-0.0, 0.0, -0.0, True),
    ]
    for mine, theirs, exact, is_close in rows:
        other, reference = torch.tensor([theirs], dtype=torch.bfloat16), torch.tensor([exact], dtype=torch.float64)
        found = wrong([mine], other, lambda eps, seed, it=reference: it, pointwise=True, signs=True)
        assert found == [not is_close], (mine, theirs, exact)
    limits, other = (torch.complex(torch.tensor([infinite] * 2), torch.tensor(it)) for it in ([2.0, 2.1], [2.0, 2.0]))
    assert wrong(limits, other, lambda eps, seed: None, pointwise=True) == [False, True]


def test_the_page_counts_kinds_and_tells_reasons(load: Callable[[str], ModuleType], tmp_path: Path) -> None:
    def write(results: dict[str, dict[str, str]]) -> tuple[int, str]:
        """Return the exit status of the command, and the page."""
        source, page = tmp_path / "results.json", tmp_path / "page.md"
        source.write_text(json.dumps(results))
        page.write_text("<!-- begin: conformance -->\n<!-- end: conformance -->\n")
        return load("conformance").main([str(source), str(page)]), page.read_text()

    file = "conformance/test_operators.py::TestOperatorsRUSTDEV::"
    results = {
        file + "test_forward_add_rustdev_float32": {"outcome": "passed"},
        file + "test_forward_ad_add_rustdev_float32": {"outcome": "passed"},
        file + "test_extremes_backward_add_rustdev_float32": {"outcome": "passed"},
        file + "test_forward_tensor_split_rustdev_float32": {"outcome": "xfailed", "text": "reason: on the CPU"},
    }
    status, page = write(results)
    assert status == 0
    assert "what is a view of what | 1 | 0 | 0 | 1 | 0 |" in page
    assert "| the same: gradients | 1 | 0 | 0 | 0 | 0 |" in page
    assert "| tangents | 1 | 0 | 0 | 0 | 0 |" in page
    assert "| 1 | on the CPU |" in page
    results[file + "test_out_add_rustdev_float32"] = {"outcome": "failed", "text": "not | close"}
    status, page = write(results)
    assert status == 1
    assert "| 1 | not \\| close |" in page
    assert write({})[0] == 1
