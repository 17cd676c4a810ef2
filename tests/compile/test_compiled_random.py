"""Random numbers in compiled code."""

import torch
from torch import _inductor
from torch.nn import functional


def test_dropout_of_backward_is_that_of_forward() -> None:
    compiled = torch.compile(lambda x: functional.dropout(x, 0.5), fullgraph=True)
    x = torch.ones(1000, device="rustdev", requires_grad=True)
    result = compiled(x)
    result.sum().backward()
    assert torch.equal(x.grad, result.detach())


def test_numbers_of_eager_code_on_request() -> None:
    def noise(x: torch.Tensor) -> torch.Tensor:
        return torch.rand_like(x) * 2 + x

    x = torch.zeros(1000, device="rustdev")
    with _inductor.config.patch(fallback_random=True):
        torch.manual_seed(3)
        compiled = torch.compile(noise, fullgraph=True)(x)
    torch.manual_seed(3)
    assert torch.equal(compiled, noise(x))
