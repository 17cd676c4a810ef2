"""Autocast and gradient scaling: the effect of every policy on dtypes and values, against the CPU."""

from typing import Any

import pytest
import rustdev  # noqa: F401
import torch

DEVICE = "rustdev"
LOW = (torch.bfloat16, torch.float16)


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.linspace(-1, 1, steps=int(torch.tensor(shape).prod())).reshape(shape).to(dtype).to(DEVICE)


@pytest.mark.parametrize("low", LOW)
def test_policies(low: torch.dtype) -> None:
    a, b, x, full = tensor(4, 8), tensor(8, 3), tensor(3, 5, dtype=low), tensor(3, 5)
    with torch.autocast(DEVICE, dtype=low):
        for product in (a @ b, torch.mm(a, b), torch.nn.functional.linear(a, b.t()), torch.einsum("ij,jk->ik", a, b)):
            assert (product.dtype, product.device.type) == (low, DEVICE)
            torch.testing.assert_close(product.cpu(), a.cpu().to(low) @ b.cpu().to(low), rtol=2e-2, atol=2e-2)
        for function in (torch.exp, torch.expm1, torch.sinh, torch.nn.functional.softplus):
            torch.testing.assert_close(function(x).cpu(), function(x.cpu().float()))
        for wide in (
            torch.nn.functional.mse_loss(x, x), torch.softmax(x, 1), x.sum(), torch.cumsum(x, 0), torch.norm(x, 2),
            torch.ops.aten.norm(x, 2), torch.ops.aten.norm(x, 2, [0], False), torch.addcmul(full, x, x), torch.atan2(x, full),
            torch.dot(x[0], full[0]), torch.relu(full), full + full,
        ):  # fmt: skip
            assert wide.dtype is torch.float32
        assert torch.softmax(x, 1, dtype=torch.float64).dtype is torch.float64
        torch.testing.assert_close(torch.norm(x, 2).cpu(), torch.norm(x.cpu().float(), 2))
    with pytest.warns(UserWarning, match="rustdev"), torch.autocast(DEVICE, dtype=torch.int32):
        assert not torch.is_autocast_enabled(DEVICE)


def test_banned_operator_has_pytorch_text() -> None:
    p = torch.full((3,), 0.5, device=DEVICE)
    with torch.autocast(DEVICE, dtype=torch.bfloat16), pytest.raises(RuntimeError, match="unsafe to autocast"):
        torch.nn.functional.binary_cross_entropy(p, p)
    assert torch.nn.functional.binary_cross_entropy(p, p).item() == pytest.approx(0.6931472)


def test_module_functions() -> None:
    module = torch.rustdev
    assert set(LOW) <= set(module.get_amp_supported_dtype())
    before = module.is_autocast_enabled(), module.get_autocast_dtype()
    try:
        module.set_autocast_enabled(True)
        module.set_autocast_dtype(torch.float16)
        assert module.is_autocast_enabled()
        assert torch.is_autocast_enabled(DEVICE)
        assert torch.get_autocast_dtype(DEVICE) is torch.float16
        assert (tensor(2, 2) @ tensor(2, 2)).dtype is torch.float16
    finally:
        module.set_autocast_enabled(before[0])
        module.set_autocast_dtype(before[1])
        torch.clear_autocast_cache()
    assert (module.is_autocast_enabled(), module.get_autocast_dtype()) == before


def test_names_of_cuda_amp() -> None:
    amp = torch.rustdev.amp
    x = torch.ones(4, 4, device="rustdev")
    with amp.autocast():
        assert (x @ x).dtype == torch.float16
    with amp.autocast(dtype=torch.bfloat16, cache_enabled=False):
        assert (x @ x).dtype == torch.bfloat16
    with amp.autocast(False):
        assert (x @ x).dtype == torch.float32

    @amp.autocast(dtype=torch.bfloat16)
    def product(value: torch.Tensor) -> torch.Tensor:
        return value @ value

    assert product(x).dtype == torch.bfloat16
    scaler = amp.GradScaler(init_scale=8.0, growth_interval=1)
    assert scaler.scale(torch.ones((), device="rustdev")).item() == 8.0
    assert not amp.GradScaler(enabled=False).is_enabled()


def test_custom_functions_of_cuda_amp() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        @torch.rustdev.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(value)
            return value @ value

        @staticmethod
        @torch.rustdev.amp.custom_bwd
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            (value,) = ctx.saved_tensors
            return gradient @ value.t() + value.t() @ gradient

    x = torch.eye(3, device="rustdev", dtype=torch.float16, requires_grad=True)
    with torch.rustdev.amp.autocast():
        result = Square.apply(x)
    assert result.dtype == torch.float32
    result.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[2.0] * 3] * 3
