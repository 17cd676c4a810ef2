"""Layers with PyTorch's own or composite kernels: convolutions and recurrent cells, forward and backward."""

from collections.abc import Callable

import pytest
import torch
from comparison import compare_errors, compare_gradients
from torch import nn

#: Of numbers that are not random in test_convolution.py.
CONVOLUTIONS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "same": (lambda: nn.Conv2d(3, 5, 3, padding="same"), (2, 3, 9, 8)),
    "one_image": (lambda: nn.Conv2d(3, 5, 3), (3, 9, 8)),
    "transposed": (lambda: nn.ConvTranspose2d(3, 5, 3, stride=2, output_padding=1), (4, 3, 6, 5)),
    "many_parts": (lambda: nn.Conv2d(32, 32, 3, padding=1), (17, 32, 16, 16)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    make, shape = CONVOLUTIONS[name]
    compare_gradients(make(), torch.randn(shape), rtol=1e-4 if name == "many_parts" else 5e-5)


def test_convolution_keeps_channels_last() -> None:
    layer = nn.Conv2d(8, 8, 3)
    image = torch.randn(2, 8, 9, 9).to(memory_format=torch.channels_last)
    compare_gradients(layer, image, rtol=5e-5)
    result = layer.to("rustdev")(image.to("rustdev"))
    assert result.is_contiguous(memory_format=torch.channels_last)
    by_weight = layer.to(memory_format=torch.channels_last)(image.contiguous().to("rustdev"))
    assert by_weight.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(by_weight, result)


def test_convolution_of_nothing() -> None:
    layer = nn.Conv2d(3, 5, 3).to("rustdev")
    image = torch.randn(0, 3, 9, 8, device="rustdev", requires_grad=True)
    layer(image).sum().backward()
    assert layer(image).shape == (0, 5, 7, 6)
    assert layer.weight.grad is not None
    assert layer.weight.grad.cpu().eq(0).all()


def test_convolution_errors_come_at_once() -> None:
    image, weight = torch.randn(2, 4, 9, 8), torch.randn(5, 3, 3, 3)
    compare_errors(nn.functional.conv2d, image, weight)
    # The text names dtypes by device.
    compare_errors(nn.functional.conv2d, image[:, :3].double(), weight, text=False)


def test_convolution_leaves_the_thread_counts_alone() -> None:
    before = torch.get_num_threads()
    nn.Conv2d(3, 5, 3).to("rustdev")(torch.randn(2, 3, 9, 8, device="rustdev")).cpu()
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_recurrent_cells(kind: type[nn.RNNCellBase]) -> None:
    state = torch.randn(3, 6)
    given = (state, torch.randn(3, 6)) if kind is nn.LSTMCell else state
    compare_gradients(kind(4, 6), torch.randn(3, 4), rtol=5e-5)
    compare_gradients(kind(4, 6), torch.randn(3, 4), given, rtol=5e-5)


def test_cells_refuse_gates_that_are_none() -> None:
    gates = torch.ones(2, 2, device="rustdev")
    for cell in (torch.ops.aten._thnn_fused_lstm_cell, torch.ops.aten._thnn_fused_gru_cell):
        for refused in (gates, gates[0]):
            with pytest.raises(RuntimeError, match="expected gates of"):
                cell(refused, refused, gates)
    wide = torch.ones(2, 8, device="rustdev")
    for state in (wide, gates[0], gates[:1]):
        with pytest.raises(RuntimeError, match="a cell state of a quarter"):
            torch.ops.aten._thnn_fused_lstm_cell(wide, wide, state)
