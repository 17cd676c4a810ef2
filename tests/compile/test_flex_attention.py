"""FlexAttention on the device, eager and compiled, against float64 on the CPU: masks, scores, groups, gradients, autocast."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from comparison import make_tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

if TYPE_CHECKING:
    from collections.abc import Callable

D = "rustdev"

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


def causal(batch: Any, head: Any, query: Any, key: Any) -> Any:
    return query >= key


def biased(score: Any, batch: Any, head: Any, query: Any, key: Any) -> Any:
    return torch.tanh(score) + 0.1 * (key - query) * (head + 1)


def expected(operands: list[torch.Tensor], *, is_causal: bool, is_biased: bool) -> torch.Tensor:
    query, key, value = operands
    group = query.size(1) // key.size(1)
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = query @ key.mT / math.sqrt(query.size(-1))
    rows, columns = torch.arange(query.size(2)).unsqueeze(1), torch.arange(key.size(2))
    if is_biased:
        scores = scores.tanh() + 0.1 * (columns - rows) * torch.arange(1, query.size(1) + 1).view(-1, 1, 1)
    if is_causal:
        scores = scores.masked_fill(rows < columns, -math.inf)
    return scores.softmax(-1) @ value


def hosts(heads: tuple[int, int] = (2, 2)) -> list[torch.Tensor]:
    return [
        make_tensor((2, number, 128, 16), torch.float32, seed=seed) for seed, number in enumerate((heads[0], heads[1], heads[1]))
    ]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(("is_causal", "is_biased", "heads"), [(True, False, (2, 2)), (False, True, (2, 2)), (True, True, (4, 2))])
def test_outputs_and_gradients(*, compiled: bool, is_causal: bool, is_biased: bool, heads: tuple[int, int]) -> None:
    given = [host.to(D).requires_grad_() for host in hosts(heads)]
    wide = [host.double().requires_grad_() for host in hosts(heads)]
    mask = create_block_mask(causal, None, None, 128, 128, device=D) if is_causal else None
    score_mod = biased if is_biased else None

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return flex_attention(query, key, value, score_mod=score_mod, block_mask=mask, enable_gqa=heads[0] != heads[1])

    attend_: Callable[..., torch.Tensor] = torch.compile(attend, fullgraph=True) if compiled else attend
    out, wanted = attend_(*given), expected(wide, is_causal=is_causal, is_biased=is_biased)
    grad = make_tensor(out.shape, torch.float32, seed=9)
    out.backward(grad.to(D))
    wanted.backward(grad.double())
    torch.testing.assert_close(out.detach().cpu().double(), wanted.detach(), rtol=1e-5, atol=1e-5)
    for tensor, reference in zip(given, wide, strict=True):
        assert tensor.grad is not None
        assert reference.grad is not None
        torch.testing.assert_close(tensor.grad.cpu().double(), reference.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_autocast(*, compiled: bool) -> None:
    given = [host.to(D).requires_grad_() for host in hosts()]
    attend: Callable[..., torch.Tensor] = torch.compile(flex_attention, fullgraph=True) if compiled else flex_attention
    with torch.autocast(D, torch.bfloat16):
        out = attend(*given)
        assert out.dtype is torch.bfloat16
        out.sum().backward()
    wanted = expected([host.double() for host in hosts()], is_causal=False, is_biased=False)
    torch.testing.assert_close(out.detach().cpu().double(), wanted, rtol=3e-2, atol=3e-2)
    assert all(tensor.grad is not None and tensor.grad.dtype is torch.float32 for tensor in given)


def test_other_devices_are_checked_as_before() -> None:
    with pytest.raises(NotImplementedError, match="backward on CPU"):
        flex_attention(*(host.requires_grad_() for host in hosts()))
