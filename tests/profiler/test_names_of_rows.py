"""Names and tiers of rows: they distinguish all ways in which work runs."""

import warnings
from itertools import pairwise

import pytest
import torch
from chrome_trace import Take
from torch.profiler import record_function


@pytest.fixture
def _fallback_allowed() -> object:
    mode = torch.rustdev.fallback_mode()
    torch.rustdev.set_fallback_mode("allow")
    yield
    torch.rustdev.set_fallback_mode(mode)


def test_kernels_of_pytorch_are_tasks_of_the_second_tier(take: Take) -> None:
    image, weight = torch.ones(2, 3, 16, 16, device="rustdev"), torch.ones(3, 4, 5, 5, device="rustdev")
    trace = take(lambda: torch.nn.functional.conv_transpose2d(image, weight))
    (call,) = trace.rows("privateuse1_runtime")
    (row,) = trace.rows()
    assert (call["name"], row["name"], row["args"]["tier"]) == ("rd_stream_submit", "convolution", "aten")


@pytest.mark.usefixtures("_fallback_allowed")
def test_the_fallback_is_a_row_by_its_operator_s_name(take: Take) -> None:
    x = torch.eye(4, device="rustdev:1")
    trace = take(lambda: torch.linalg.eigvals(x))
    row = trace.row("aten::_linalg_eigvals")
    assert (row["args"]["tier"], row["pid"]) == ("fallback", 1)
    assert trace.operator(row) == "aten::_linalg_eigvals"
    (call,) = [call for call, target in trace.arrows() if target == row]
    assert call["name"] == "cpu_fallback"
    assert call["ts"] <= row["ts"]
    assert row["ts"] + row["dur"] <= call["ts"] + call["dur"] + 0.002


def test_host_functions_and_sleeps_are_rows(take: Take) -> None:
    def work() -> None:
        with record_function("range"):
            torch.rustdev.launch_host_func(lambda: None)
            torch.rustdev._sleep(2_000_000)

    trace = take(work)
    host, sleep = trace.row("host_func"), trace.row("sleep")
    assert (host["args"]["tier"], sleep["args"]["tier"]) == ("host", "sleep")
    assert sleep["dur"] >= 2000
    assert trace.operator(host) == trace.operator(sleep) == "range"
    assert {call["name"] for call, _ in trace.arrows()} == {"launch_host_func", "_sleep"}


def test_fused_lists_are_rows_with_shares_of_the_time(take: Take) -> None:
    tensors = [torch.ones(300_000, device="rustdev") for _ in range(4)]
    torch.rustdev.synchronize()

    def work() -> None:
        torch.rustdev._sleep(20_000_000)  # so that all are queued one after another
        torch._foreach_mul_(tensors, 2.0)
        torch._foreach_add_(tensors, 1.0)
        torch._foreach_sqrt_(tensors)

    trace = take(work)
    rows = [row for row in trace.rows() if row["name"] != "sleep"]
    assert [row["name"] for row in rows] == ["_foreach_mul.Scalar", "_foreach_add.Scalar", "_foreach_sqrt"]
    assert [row["args"]["fused"] for row in rows] == [3, 3, 3]
    assert [trace.operator(row) for row in rows] == ["aten::_foreach_mul_", "aten::_foreach_add_", "aten::_foreach_sqrt_"]
    assert all(row["dur"] > 0 for row in rows)
    assert all(call["ts"] <= row["ts"] for call, row in trace.arrows())
    assert all(one["ts"] + one["dur"] <= other["ts"] + 0.002 for one, other in pairwise(rows))
    assert all(torch.equal(tensor.cpu(), torch.full((300_000,), 3.0).sqrt()) for tensor in tensors)


@pytest.mark.skipif(torch.__version__ < "2.15", reason="the device compiles with PyTorch 2.15")
def test_compiled_kernels_are_rows_by_their_operators(take: Take) -> None:
    compiled = torch.compile(lambda x: (x + 1).relu() * 2)
    x = torch.ones(1000, device="rustdev")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled(x)
    trace = take(lambda: compiled(x))
    (row,) = trace.rows()
    assert row["args"]["tier"] == "compiled"
    assert row["name"].startswith("compiled::add")
    assert "rd_stream_submit" in trace.names("privateuse1_runtime")


def test_an_allocation_that_is_cleared_is_a_memset(take: Take) -> None:
    trace = take(lambda: torch.zeros(500, device="rustdev"))
    row = trace.row("Memset (Device)")
    assert (row["cat"], row["args"]["bytes"]) == ("gpu_memset", 2000)
    assert trace.row("rd_launch", "privateuse1_runtime")["args"]["task"] == "zero_"
    filled = take(lambda: torch.full((3, 5), 2.5, device="rustdev", dtype=torch.float64)).row("Memset (Device)")
    assert (filled["cat"], filled["args"]["bytes"]) == ("gpu_memset", 120)
