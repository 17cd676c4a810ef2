"""Triton kernels on the device by Triton's interpreter: values, autotuning, benchmarks, assertions, races; the error without it."""

import textwrap
from pathlib import Path

import children
import pytest

pytestmark = pytest.mark.slow

KERNELS = """
    import torch, rustdev, triton
    import triton.language as tl

    @triton.jit
    def add(x, y, out, count, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = at < count
        tl.device_assert(count < 1000, "too many elements")
        tl.store(out + at, tl.load(x + at, mask) + tl.load(y + at, mask), mask)

    @triton.jit
    def multiply(a, b, out, N: tl.constexpr):
        rows, columns = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
        at = rows * N + columns
        tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at)))

    x, y, out = torch.randn(100, device="rustdev"), torch.randn(100, device="rustdev"), torch.zeros(100, device="rustdev")
"""


def run(folder: Path, program: str, **environment: str) -> str:
    """Run a program with the kernels from a file, where Triton finds their source; return what it prints."""
    file = folder / "kernels.py"
    file.write_text(textwrap.dedent(KERNELS) + textwrap.dedent(program))
    given = {"TRITON_INTERPRET": "1", "RUSTDEV_FALLBACK": "error"} | environment
    done = children.python(str(file), **given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_values_are_those_of_pytorch(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
        add[(2,)](x, y, out, 100, BLOCK=64)
        torch.testing.assert_close(out, x + y)
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            a, b = (torch.randn(32, 32, device="rustdev").to(dtype) for _ in range(2))
            product = torch.zeros(32, 32, device="rustdev")
            multiply[(1,)](a, b, product, N=32)
            torch.testing.assert_close(product, a.float() @ b.float(), rtol=1e-4, atol=1e-4)
        """,
    )


def test_autotuning_and_benchmarks_run(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
        tuned = triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["count"], warmup=1, rep=1)(add)
        tuned[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, y, out, 100)
        torch.testing.assert_close(out, x + y)
        assert triton.testing.do_bench(lambda: add[(2,)](x, y, out, 100, BLOCK=64), warmup=1, rep=1) > 0
        assert triton.runtime.driver.active.get_active_torch_device() == torch.device("rustdev", 0)
        """,
    )


@pytest.mark.parametrize("debug", ["0", "1"])
def test_assertions_fire_in_debug_mode(tmp_path: Path, debug: str) -> None:
    program = """
        try:
            add[(1,)](x, y, out, 1000, BLOCK=64)
        except Exception as error:
            print("raised", error)
        torch.rustdev.synchronize()
        print((x + y).sum().item() != 0)
    """
    printed = run(tmp_path, program, TRITON_DEBUG=debug)
    assert ("too many elements" in printed) == (debug == "1")
    assert printed.endswith("True\n")


def test_arguments_that_are_only_read_are_not_written(tmp_path: Path) -> None:
    printed = run(
        tmp_path,
        """
        side = torch.rustdev.Stream()
        torch.rustdev.synchronize()
        with torch.rustdev.stream(side):
            held = x * 2
        add[(2,)](x, y, out, 100, BLOCK=64)
        torch.rustdev.synchronize()
        print("no race")
        """,
        RUSTDEV_SANITIZE="race",
    )
    assert printed.endswith("no race\n")


def test_without_the_interpreter_a_launch_names_it(tmp_path: Path) -> None:
    program = """
        try:
            add[(2,)](x, y, out, 100, BLOCK=64)
        except RuntimeError as error:
            print(error)
    """
    assert "Set TRITON_INTERPRET=1" in run(tmp_path, program, TRITON_INTERPRET="0")
