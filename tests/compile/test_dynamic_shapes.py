"""Dynamic shapes: sizes that are unknown when a graph is compiled."""

import copy

import pytest
import torch
from generated import sources


def test_one_graph_for_all_sizes() -> None:
    compiled = torch.compile(lambda x: (x.softmax(-1).sum(0), x.reshape(-1) * x.shape[0]), fullgraph=True, dynamic=True)
    with sources() as made:
        for shape in ((4, 70), (70, 4), (33, 65)):
            x = torch.randn(shape)
            total, flat = compiled(x.to("rustdev"))
            torch.testing.assert_close(total.cpu(), x.softmax(-1).sum(0))
            torch.testing.assert_close(flat.cpu(), x.reshape(-1) * shape[0])
    assert len(made) == 1


def test_a_size_that_depends_on_values() -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(lambda x: x[x > 0].exp() * 2, fullgraph=True)
        for seed in (1, 2):
            torch.manual_seed(seed)
            x = torch.randn(40)
            torch.testing.assert_close(compiled(x.to("rustdev")).cpu(), x[x > 0].exp() * 2)


def test_a_number_that_depends_on_values() -> None:
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(lambda x: x * x.sum().item() + 1, fullgraph=True)
        for value in (1.5, 2.5):
            assert compiled(torch.full((4,), value, device="rustdev")).tolist() == [value * 4 * value + 1] * 4


@pytest.mark.slow
def test_attention_of_any_length() -> None:
    torch.manual_seed(0)
    model = torch.nn.TransformerEncoderLayer(16, 2, dim_feedforward=32, dropout=0.0, batch_first=True)
    mine = copy.deepcopy(model).to("rustdev")
    compiled = torch.compile(mine, dynamic=True)
    for length in (3, 5, 9):
        x = torch.randn(2, length, 16)
        one, other = x.to("rustdev").requires_grad_(), x.requires_grad_()
        torch.testing.assert_close(compiled(one).cpu(), model(other), rtol=1e-4, atol=1e-5)
        compiled(one).square().sum().backward()
        model(other).square().sum().backward()
        torch.testing.assert_close(one.grad.cpu(), other.grad, rtol=1e-4, atol=1e-4)
