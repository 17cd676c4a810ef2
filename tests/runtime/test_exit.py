"""Program exit: no thread may use the interpreter after its finalization."""

import children
import pytest

#: Without a switch of threads the autograd thread waits for the interpreter until that is gone.
BACKWARD = """
import sys
import torch

x = torch.ones(4, device="rustdev", requires_grad=True)
y = (x * 2).sum()
sys.setswitchinterval(1000)
{how}
"""


@pytest.mark.parametrize("threads", ["0", "1"])
@pytest.mark.parametrize(("devices", "how"), [("1", "y.backward()"), ("1", "torch.autograd.grad(y, x)"), ("3", "y.backward()")])
def test_a_program_may_end_right_after_a_backward(devices: str, how: str, threads: str) -> None:
    result = children.run(BACKWARD.format(how=how), RUSTDEV_DEVICE_COUNT=devices, RUSTDEV_AUTOGRAD_THREADS=threads)
    assert (result.returncode, result.stderr) == (0, "")
