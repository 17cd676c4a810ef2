"""The example crate examples/custom_kernel: built by cargo, loaded next to the runtime, and run on its streams."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def softcap() -> Any:
    """Build and load the crate."""
    sys.path.insert(0, str(ROOT / "examples/custom_kernel"))
    import custom_kernel

    custom_kernel.load(custom_kernel.build(ROOT / "target/custom_kernel"))
    return torch.ops.custom_kernel.softcap


def reference(x: torch.Tensor, cap: float) -> torch.Tensor:
    """Return the values by PyTorch's operators on the CPU."""
    return cap * torch.tanh(x.detach().cpu() / cap)


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5), (100_003,)])
def test_values(softcap: Any, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape).mul(50).to("rustdev")
    torch.testing.assert_close(softcap(x, 30.0).cpu(), reference(x, 30.0))


def test_strided_and_other_devices(softcap: Any) -> None:
    x = torch.randn(6, 4).to("rustdev:1")
    found = softcap(x.t(), 2.0)
    assert found.device == torch.device("rustdev:1")
    torch.testing.assert_close(found.cpu(), reference(x.t(), 2.0))


def test_runs_in_the_order_of_the_current_stream(softcap: Any) -> None:
    stream = torch.rustdev.Stream()
    with torch.rustdev.stream(stream):
        x = torch.zeros(1000, device="rustdev")
        torch.rustdev._sleep(300_000_000)
        x.fill_(1000.0)
        y = softcap(x, 5.0)
        assert not stream.query()
        z = y + 1
    assert torch.rustdev.default_stream().query()
    stream.synchronize()
    assert z.tolist() == [6.0] * 1000


def test_autograd_and_opcheck(softcap: Any) -> None:
    x = torch.randn(10).to("rustdev").requires_grad_()
    softcap(x, 3.0).sum().backward()
    host = x.detach().cpu().requires_grad_()
    (3 * torch.tanh(host / 3)).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu(), host.grad)
    checks = ("test_schema", "test_faketensor")
    assert torch.library.opcheck(softcap.default, (x, 3.0), test_utils=checks) == dict.fromkeys(checks, "SUCCESS")


def test_refusals(softcap: Any) -> None:
    with pytest.raises(TypeError, match="float32"):
        softcap(torch.zeros(2, dtype=torch.float64, device="rustdev"), 1.0)
    with pytest.raises(NotImplementedError):
        softcap(torch.zeros(2), 1.0)
