"""The models of the benchmark: small networks of the kinds that people train, with inputs and targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable


class Task(NamedTuple):
    """A model, an input and the classes that it shall find."""

    model: nn.Module
    given: torch.Tensor
    classes: torch.Tensor


class Attention(nn.Module):
    """Causal self-attention and a network behind it, each added to what it reads.

    Args:
        size: numbers of a place.
        heads: parts that attend by themselves.
    """

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(size), nn.LayerNorm(size)])
        self.project, self.join = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.network = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [batch, length, size] for the same."""
        batch, length, size = x.shape
        parts = self.project(self.norms[0](x)).view(batch, length, 3, self.heads, size // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(found.transpose(1, 2).reshape(batch, length, size))
        return torch.as_tensor(x + self.network(self.norms[1](x)))


class Transformer(nn.Module):
    """A language model over characters, as GPT-2 is built.

    Args:
        layers: how many layers of attention.
        size: numbers of a place.
        heads: heads of attention.
    """

    CHARACTERS, LENGTH = 65, 256

    def __init__(self, layers: int, size: int, heads: int) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(self.CHARACTERS, size), nn.Embedding(self.LENGTH, size)
        self.layers = nn.Sequential(*[Attention(size, heads) for _ in range(layers)], nn.LayerNorm(size))
        self.head = nn.Linear(size, self.CHARACTERS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [batch, length, characters] for [batch, length] numbers of characters."""
        places = torch.arange(x.shape[1], device=x.device)
        return torch.as_tensor(self.head(self.layers(self.characters(x) + self.places(places))))


class Residual(nn.Module):
    """Two convolutions beside a short cut.

    Args:
        before: channels of the input.
        after: channels of the output.
        stride: of the first convolution.
    """

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        same = stride == 1 and before == after
        self.short = nn.Identity() if same else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return images of `after` channels."""
        return functional.relu(self.path(x) + self.short(x))


class Recurrent(nn.Module):
    """Two layers of LSTM, and classes at each step."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.head = nn.LSTM(192, 192, 2, batch_first=True), nn.Linear(192, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [batch, steps, classes] for [batch, steps, 192]."""
        return torch.as_tensor(self.head(self.layers(x)[0]))


def mlp() -> Task:
    """Three linear layers, batch 40."""
    model = nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10))
    return Task(model, torch.randn(40, 48), torch.randint(10, (40,)))


def transformer(layers: int, size: int, batch: int, length: int) -> Task:
    """A transformer with heads of 64 numbers, or four of them."""
    characters = torch.randint(Transformer.CHARACTERS, (batch, length + 1))
    return Task(Transformer(layers, size, 4), characters[:, :-1].contiguous(), characters[:, 1:].contiguous())


def residual_network() -> Task:
    """A small ResNet, 12 images of 32x32."""
    blocks = [nn.Conv2d(3, 32, 3, 1, 1), Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 128, 2)]
    model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))
    return Task(model, torch.randn(12, 3, 32, 32), torch.randint(10, (12,)))


def recurrent_network() -> Task:
    """An LSTM, 12 sequences of 50 steps."""
    return Task(Recurrent(), torch.randn(12, 50, 192), torch.randint(10, (12, 50)))


TASKS: dict[str, Callable[[], Task]] = {
    "MLP 48-96-96-10, batch 40": mlp,
    "transformer 2 x 64, 8 x 64 tokens": lambda: transformer(2, 64, 8, 64),
    "transformer 4 x 256, 4 x 200 tokens": lambda: transformer(4, 256, 4, 200),
    "ResNet of 7 convolutions, 12 x 32 x 32": residual_network,
    "LSTM 2 x 192, 12 x 50": recurrent_network,
}
