"""The networks of examples/ at small sizes, and their training on the device, on the CPU, and on the CPU in float64.

The float64 run shows the effect of rounding alone: two trainings in float32 diverge, each about equally far from it.
"""

import copy
import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import diffusion
import digits
import gpt
import graph_network
import lstm
import mobilenet
import recommender
import resnet
import torch
import unet
import vision_transformer
from torch import Tensor, nn
from torch.nn import functional
from training_loop import Family, adamw

STEPS = 12


@functools.cache
def text() -> gpt.Text:
    return gpt.Text(gpt.topics()[:20_000])


def make_gpt() -> gpt.GPT:
    return gpt.GPT(len(text().characters), context=32, width=64, heads=4, layers=2)


def small_images(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    return resnet.batch(generator, 16, 8)


FAMILIES = {
    "digits": Family(digits.network, small_images, functional.cross_entropy, adamw),
    # A slower optimizer than the example's: with that one, what rounding does grows a thousandfold.
    "resnet": resnet.FAMILY._replace(network=lambda: resnet.ResNet18(10, channels=1, width=16), optimizer=adamw),
    "mobilenet": mobilenet.FAMILY,
    "vision_transformer": vision_transformer.FAMILY,
    "unet": unet.FAMILY._replace(network=lambda: unet.UNet(width=8)),
    "diffusion": diffusion.FAMILY._replace(network=lambda: diffusion.Diffusion(diffusion.Denoiser(width=16, layers=2))),
    "gpt": Family(make_gpt, lambda generator: text().batch(generator, 8, 32), gpt.loss, adamw),
    "lstm": lstm.FAMILY._replace(
        network=lambda: lstm.LanguageModel(len(text().characters), width=48),
        batch=lambda generator: text().batch(generator, 8, 24),
    ),
    "graph_network": graph_network.FAMILY,
    "recommender": recommender.FAMILY,
}


#: Those without kinks: elsewhere an activation next to zero, or one of two equal ones, may go the other way when it is rounded, and
#: changes gradients by a step.
SMOOTH = {"vision_transformer", "diffusion", "gpt", "lstm"}


class Run(NamedTuple):
    """What a training leaves behind; all tensors in float64 on the CPU.

    Args:
        losses: of the steps.
        gradients: of the first step, by parameter.
        parameters: after the last step.
        buffers: after the last step.
        network: on its device.
    """

    losses: Tensor
    gradients: dict[str, Tensor]
    parameters: dict[str, Tensor]
    buffers: dict[str, Tensor]
    network: nn.Module


@functools.cache
def start(family: Family) -> tuple[nn.Module, Sequence[tuple[Tensor, ...]]]:
    """A family's first weights, and the batches of its steps, on the CPU."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    return family.network(), [family.batch(generator) for _ in range(STEPS)]


def host(tensor: Tensor) -> Tensor:
    """A tensor in float64 on the CPU, as it is now."""
    return tensor.detach().to("cpu", torch.float64, copy=True).to_dense()


def moved(batch: Sequence[Tensor], device: str, dtype: torch.dtype) -> list[Tensor]:
    """A batch on a device, its floating point numbers in a dtype."""
    return [tensor.to(device, dtype if tensor.is_floating_point() else None) for tensor in batch]


@functools.cache
def trained(family: Family, device: str, dtype: torch.dtype = torch.float32) -> Run:
    """Trains a family from its first weights, each time on the same batches."""
    first, batches = start(family)
    network = copy.deepcopy(first).to(device, dtype)
    optimizer = family.optimizer(network)
    losses, gradients = [], {}
    for batch in batches:
        *given, wanted = moved(batch, device, dtype)
        optimizer.zero_grad()
        loss = family.loss(network(*given), wanted)
        loss.backward()
        gradients = gradients or {key: host(value.grad) for key, value in network.named_parameters() if value.grad is not None}
        optimizer.step()
        losses.append(loss.detach())
    parameters, buffers = (
        {key: host(value) for key, value in both} for both in (network.named_parameters(), network.named_buffers())
    )
    return Run(host(torch.stack(losses)), gradients, parameters, buffers, network)


def norm(tensors: Iterable[Tensor]) -> float:
    """The Euclidean norm of all numbers together."""
    return float(torch.stack([tensor.norm() for tensor in tensors]).norm())


def distance(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> float:
    """The norm of the difference of two sets of tensors."""
    assert found.keys() == wanted.keys()
    return norm(found[key] - wanted[key] for key in wanted)


def check_float64(family: Family) -> None:
    """Holds all steps in float64 against the CPU's: there no rounding is large enough to turn a kink or to grow."""
    found, wanted = trained(family, "rustdev", torch.float64), trained(family, "cpu", torch.float64)
    torch.testing.assert_close(found.losses, wanted.losses, rtol=1e-9, atol=1e-12)
    for name in ("gradients", "parameters", "buffers"):
        torch.testing.assert_close(getattr(found, name), getattr(wanted, name), rtol=1e-7, atol=1e-9)


def check_float32(family: Family, is_smooth: bool) -> None:
    """Holds all steps in float32 against the CPU's in float64, and the distance against that of the CPU's in float32.

    Args:
        family: what is trained.
        is_smooth: whether it has no kinks. Those with kinks may be farther off than the CPU's happens to be.
    """
    found, beside, exact = trained(family, "rustdev"), trained(family, "cpu"), trained(family, "cpu", torch.float64)
    torch.testing.assert_close(found.losses[0], exact.losses[0], rtol=1e-5, atol=0)

    # A gradient that is all rounding (of a bias before a normalisation, say) is small beside the others.
    floor = 1e-2 * norm(exact.gradients.values())
    for name, wanted in exact.gradients.items():
        error = norm([found.gradients[name] - wanted]) / (norm([wanted]) + floor)
        assert error < (1e-5 if is_smooth else 2e-2), (name, error)

    way = distance(exact.parameters, {name: host(value) for name, value in start(family)[0].named_parameters()})
    off, others = (distance(run.parameters, exact.parameters) / way for run in (found, beside))
    assert off < 4 * others + (1e-5 if is_smooth else 5e-2), (off, others)
    off, others = (float((run.losses / exact.losses - 1).abs().max()) for run in (found, beside))
    assert off < 4 * others + (1e-6 if is_smooth else 1e-2), (off, others)
