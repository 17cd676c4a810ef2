"""The models of the benchmark: typical networks with inputs and targets. Most of them are those of examples/."""

import sys
from pathlib import Path

import torch
from measuring import Task
from torch import Tensor, nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from collections.abc import Callable

import diffusion
import digits
import gpt
import graph_network
import lstm
import mobilenet
import recommender
import resnet
import unet
import vision_transformer

CHARACTERS, CLASSES = 65, 10


class Residual(nn.Module):
    """Residual block: two convolutions and a shortcut.

    Args:
        before: Channels of the input.
        after: Channels of the output.
        stride: Stride of the first convolution.
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

    def forward(self, x: Tensor) -> Tensor:
        """Return images with `after` channels."""
        return functional.relu(self.path(x) + self.short(x))


class Recurrent(nn.Module):
    """Two LSTM layers with a classifier at each step."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.head = nn.LSTM(192, 192, 2, batch_first=True), nn.Linear(192, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return [batch, steps, classes] for [batch, steps, 192]."""
        return torch.as_tensor(self.head(self.layers(x)[0]))


def classes(model: nn.Module, given: Tensor, *shape: int) -> Task:
    """Classification with random targets of a shape; default: one per sample."""
    return Task(model, (given,), torch.randint(CLASSES, shape or (len(given),)))


def mlp() -> Task:
    """Three linear layers, batch 40."""
    model = nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, CLASSES))
    return classes(model, torch.randn(40, 48))


def language(model: nn.Module, batch: int, length: int) -> Task:
    """Prediction of the next character at each position."""
    characters = torch.randint(CHARACTERS, (batch, length + 1))
    return Task(model, (characters[:, :-1].contiguous(),), characters[:, 1:].contiguous())


def transformer(layers: int, size: int, batch: int, length: int) -> Task:
    """A transformer with four heads."""
    return language(gpt.GPT(CHARACTERS, 256, size, 4, layers), batch, length)


def residual_network() -> Task:
    """A small ResNet, 12 images of 32x32."""
    blocks = [nn.Conv2d(3, 32, 3, 1, 1), Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 128, 2)]
    model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, CLASSES))
    return classes(model, torch.randn(12, 3, 32, 32))


def recurrent_network() -> Task:
    """An LSTM, 12 sequences of 50 steps."""
    return classes(Recurrent(), torch.randn(12, 50, 192), 12, 50)


def segmentation() -> Task:
    """A U-Net for binary segmentation."""
    wanted = torch.randint(2, (4, 1, 64, 64)).float()
    return Task(unet.UNet(3), (torch.randn(4, 3, 64, 64),), wanted, functional.binary_cross_entropy_with_logits)


def denoising() -> Task:
    """A denoising diffusion model."""
    images, noise = torch.randn(2, 32, 1, 16, 16)
    times = torch.randint(1, diffusion.STEPS, (32,)).float()
    return Task(diffusion.Diffusion(diffusion.Denoiser()), (images, times, noise), noise, functional.mse_loss)


def graph() -> Task:
    """A graph network for community detection."""
    nodes, edges = 2000, torch.randint(2000, (2, 20_000))
    known = torch.randn(nodes, graph_network.COMMUNITIES)
    return Task(graph_network.GraphNetwork(graph_network.COMMUNITIES), (known, edges), torch.randint(4, (nodes,)))


def recommendation() -> Task:
    """Embedding bags of 12 of 5,000 items each, with dense gradients for AdamW."""
    items, batch, bag = 5000, 512, 12
    liked, starts = torch.randint(items, (batch * bag,)), torch.arange(0, batch * bag, bag)
    model = recommender.Recommender(items, sparse=False)
    wanted = torch.randint(2, (batch,)).float()
    return Task(model, (liked, starts, torch.randint(items, (batch,))), wanted, functional.binary_cross_entropy_with_logits)


TASKS: dict[str, Callable[[], Task]] = {
    "MLP 48-96-96-10, batch 40": mlp,
    "digits network, 64 x 8 x 8": lambda: classes(digits.network(), torch.rand(64, 1, 8, 8)),
    "transformer 2 x 64, 8 x 64 tokens": lambda: transformer(2, 64, 8, 64),
    "transformer 4 x 256, 4 x 200 tokens": lambda: transformer(4, 256, 4, 200),
    "vision transformer 4 x 192, 8 x 64 x 64": lambda: classes(
        vision_transformer.VisionTransformer(CLASSES, 64, width=192, layers=4), torch.randn(8, 3, 64, 64)
    ),
    "ResNet of 7 convolutions, 12 x 32 x 32": residual_network,
    "ResNet-18, 8 x 64 x 64": lambda: classes(resnet.ResNet18(CLASSES), torch.randn(8, 3, 64, 64)),
    "MobileNet, 16 x 64 x 64": lambda: classes(mobilenet.MobileNet(CLASSES), torch.randn(16, 3, 64, 64)),
    "U-Net of 3 sizes, 4 x 64 x 64": segmentation,
    "diffusion, 32 x 16 x 16": denoising,
    "LSTM 2 x 192, 12 x 50": recurrent_network,
    "LSTM language model 2 x 160, 16 x 64": lambda: language(lstm.LanguageModel(CHARACTERS), 16, 64),
    "graph network 3 x 64, 20,000 edges": graph,
    "recommender, 5,000 items, batch 512": recommendation,
}
