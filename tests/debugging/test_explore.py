"""``python -m rustdev.explore``: an order of tasks that changes what a program does is found and shown."""

from pathlib import Path
from subprocess import CompletedProcess

import children
import pytest

PROGRAM = """
import sys
import torch

side = torch.rustdev.Stream()
x = torch.ones(4, device="rustdev")
torch.rustdev.synchronize()
with torch.rustdev.stream(side):
    x.mul_(2)
if sys.argv[1] == "waits":
    torch.rustdev.current_stream().wait_stream(side)
y = x + 1
torch.rustdev.synchronize()
print("begin")
print(y.tolist())
sys.exit(0 if sys.argv[1] != "exits" else int(y[0].item()))
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def explore(*arguments: str) -> CompletedProcess[str]:
    return children.python("-m", "rustdev.explore", *arguments, nested=True)


@pytest.mark.slow
def test_the_smallest_seed_that_differs_is_found_and_repeats(program: str) -> None:
    result = explore("--runs", "20", program, "races")
    assert result.returncode == 1, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    order = lines[0].removeprefix("RUSTDEV_SCHEDULE=").split()[0]
    assert order.startswith("random:")
    assert "line 2 of the output, eager: [3.0, 3.0, 3.0, 3.0]" in lines
    assert f"line 2 of the output, {order}: [2.0, 2.0, 2.0, 2.0]" in lines
    orders = [index for index, line in enumerate(lines) if line.startswith("tasks in the order that they ran in")]
    assert len(orders) == 2
    assert any(line.endswith("stream 0: add") for line in lines[orders[1] :])
    assert lines[-1] == f"to run it again: RUSTDEV_SCHEDULE={order} python {program} races"
    again = children.python(program, "races", check=True, RUSTDEV_SCHEDULE=order)
    assert again.stdout == "begin\n[2.0, 2.0, 2.0, 2.0]\n"


def test_a_program_that_waits_does_the_same_in_all_orders(program: str) -> None:
    result = explore("--runs", "4", program, "waits")
    assert (result.returncode, result.stdout.split(":")[0]) == (0, "4 of 4 orders do the same as eager"), result.stderr


@pytest.mark.slow
def test_exit_codes_are_compared_and_it_can_go_on(program: str) -> None:
    result = explore("--runs", "8", "--keep-going", program, "exits")
    assert result.returncode == 1
    assert "eager: exit code 3" in result.stdout
    assert " of 8 orders differ: random:" in result.stdout


def test_other_orders_are_one_run(program: str) -> None:
    result = explore("--schedule", "lazy", program, "races")
    assert result.returncode == 1
    assert "RUSTDEV_SCHEDULE=lazy differs from eager" in result.stdout


def test_a_program_that_cannot_run_is_told(tmp_path: Path) -> None:
    result = explore(str(tmp_path / "missing.py"))
    assert result.returncode == 2
    assert "No such file" in result.stderr
