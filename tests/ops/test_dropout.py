"""Dropout: results and gradients, dtypes and strides, limits, activation checkpointing."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
# Older versions have no gradient of complex dropout.
DIFFERENTIABLE = FLOATS if torch.__version__ < "2.15" else [*FLOATS, torch.complex64]
COUNT = 50_000

pytestmark = pytest.mark.usefixtures("strict")


@pytest.mark.parametrize("dtype", DIFFERENTIABLE, ids=str)
@pytest.mark.parametrize("layout", ["dense", "transposed", "sliced", "expanded"])
def test_dropout_and_its_gradient(layout: str, dtype: torch.dtype) -> None:
    whole = torch.ones(200, 200, dtype=dtype, device="rustdev")
    x = {"dense": whole, "transposed": whole.t(), "sliced": whole[:, ::2], "expanded": whole[:1].expand(200, 200)}[layout]
    leaf = x.detach().requires_grad_()
    result = functional.dropout(leaf, 0.25)
    grad = torch.full_like(result, 3)
    result.backward(grad)
    values = result.detach().cpu()
    kept = values != 0
    assert kept.double().mean().item() == pytest.approx(0.75, abs=0.02)
    scale = torch.tensor(1 / 0.75).to(dtype)
    torch.testing.assert_close(values, kept * scale)
    torch.testing.assert_close(leaf.grad.cpu(), kept * scale * 3)
    expected = torch.native_dropout(x.cpu(), 0.25, True)[0] if layout == "dense" else torch.empty_like(x.cpu())
    assert result.stride() == expected.stride()


def test_dropout_at_its_limits() -> None:
    x = torch.randn(100, device="rustdev")
    assert torch.equal(functional.dropout(x, 0.5, training=False).cpu(), x.cpu())
    for p, factor in ((0.0, 1), (1.0, 0)):
        for call in (functional.dropout, lambda x, p: torch.native_dropout(x, p, True)[0]):
            leaf = x.clone().requires_grad_()
            result = call(leaf, p)
            result.sum().backward()
            assert torch.equal(result.detach().cpu(), x.cpu() * factor)
            assert torch.equal(leaf.grad.cpu(), torch.full((100,), float(factor)))
    result, mask = torch.native_dropout(x, 0.5, False)
    assert torch.equal(result.cpu(), x.cpu())
    assert mask.dtype is torch.bool
    assert mask.cpu().all()
    for train in (True, False, None):
        mine, theirs = (torch.native_dropout(torch.empty(0, 3, device=device), 0.5, train) for device in ("rustdev", "cpu"))
        assert [(part.shape, part.dtype) for part in mine] == [(part.shape, part.dtype) for part in theirs]
    inplace = torch.ones(COUNT, device="rustdev")
    functional.dropout(inplace, 0.5, inplace=True)
    assert sorted(inplace.cpu().unique().tolist()) == [0.0, 2.0]


def test_dropout_of_what_is_not_finite() -> None:
    x = torch.full((COUNT,), float("inf"), device="rustdev")
    result, mask = (part.cpu() for part in torch.native_dropout(x, 0.5, True))
    assert torch.equal(result.isinf(), mask)
    assert torch.equal(result.isnan(), ~mask)


def test_other_kinds_of_dropout() -> None:
    x = torch.ones(40, 50, 3, device="rustdev")
    whole = functional.dropout1d(x, 0.5).cpu()
    assert torch.equal(whole.amin(2), whole.amax(2))
    assert whole.unique().tolist() == [0.0, 2.0]
    assert functional.alpha_dropout(x, 0.5, training=True).cpu().unique().numel() == 2


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_dropout_under_checkpoint(use_reentrant: bool) -> None:
    def run(checkpointed: bool) -> tuple[torch.Tensor, torch.Tensor, int]:
        torch.rustdev.manual_seed(11)
        leaf = torch.linspace(1, 2, 4096).reshape(64, 64).to("rustdev").requires_grad_()
        module = nn.Sequential(nn.Dropout(0.3), nn.Tanh(), nn.Dropout(0.5))
        output = checkpoint(module, leaf, use_reentrant=use_reentrant) if checkpointed else module(leaf)
        torch.rand(5, device="rustdev")
        output.square().sum().backward()
        return output.detach().cpu(), leaf.grad.cpu(), torch.rustdev.default_generators[0].get_offset()

    plain, checkpointed = run(checkpointed=False), run(checkpointed=True)
    assert torch.equal(plain[0], checkpointed[0])
    assert torch.equal(plain[1], checkpointed[1])
    assert plain[2] == checkpointed[2]
    assert 0 < int(plain[1].count_nonzero()) < 4096
