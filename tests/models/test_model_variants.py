"""Usual training techniques: autocast, loss scaling, going on from a file."""

import contextlib
import copy
import io
from collections.abc import Callable, Iterator

import pytest
import torch
from compared_models import FAMILIES, STEPS, host, make_gpt, moved, norm, start, trained
from torch import Tensor, nn
from torch.nn import functional
from training_loop import Family, autocast


def named_parameters(network: nn.Module) -> dict[str, Tensor]:
    return {name: host(value) for name, value in network.named_parameters()}


def on(device: str, family: Family) -> tuple[nn.Module, list[list[Tensor]]]:
    """A family's first weights and its batches on a device."""
    network, batches = start(family)
    return copy.deepcopy(network).to(device), [moved(batch, device, torch.float32) for batch in batches]


def train_with_autocast(device: str, family: Family) -> tuple[Tensor, torch.dtype]:
    network, batches = on(device, family)
    optimizer = family.optimizer(network)
    losses = []
    for *given, wanted in batches:
        optimizer.zero_grad()
        with autocast(device, enabled=True):
            result = network(*given)
            loss = family.loss(result, wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    assert {value.dtype for value in network.parameters()} == {torch.float32}
    return host(torch.stack(losses)), result.dtype


@contextlib.contextmanager
def without_onednn() -> Iterator[None]:
    """Switch oneDNN off, also where PyTorch's own tests have frozen the flags of its backends."""
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(True)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "recommender"])
def test_autocast_trains_as_on_the_cpu(name: str) -> None:
    found, dtype = train_with_autocast("rustdev", FAMILIES[name])
    # oneDNN refuses bfloat16 without AVX-512; without oneDNN, PyTorch computes the cells itself.
    refused = name == "lstm" and not torch.cpu._is_avx512_supported()
    with without_onednn() if refused else contextlib.nullcontext():
        wanted, _ = train_with_autocast("cpu", FAMILIES[name])
    exact = trained(FAMILIES[name], "cpu").losses
    assert dtype is torch.bfloat16
    torch.testing.assert_close(found[0], wanted[0], rtol=2e-3, atol=0)
    assert found[-5:].mean() < found[:5].mean()
    off, others = (norm([run - exact]) / norm([exact]) for run in (found, wanted))
    assert off < 4 * others + 5e-3


def test_float16_with_a_scaler_trains_as_float32() -> None:
    family = FAMILIES["gpt"]
    network, batches = on("rustdev", family)
    optimizer = family.optimizer(network)
    scaler = torch.amp.GradScaler("rustdev")
    losses = []
    for given, wanted in batches:
        optimizer.zero_grad()
        with torch.autocast("rustdev", torch.float16):
            result = network(given)
            loss = family.loss(result, wanted)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    assert result.dtype is torch.float16
    torch.testing.assert_close(host(torch.stack(losses)), trained(family, "cpu").losses, rtol=5e-3, atol=0)


OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "SGD": lambda network: torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, nesterov=True),
    "AdamW, fused": lambda network: torch.optim.AdamW(network.parameters(), lr=1e-3, fused=True),
}


def take(network: nn.Module, optimizer: torch.optim.Optimizer, batches: list[list[Tensor]]) -> None:
    for images, labels in batches:
        optimizer.zero_grad()
        functional.cross_entropy(network(images), labels).backward()
        optimizer.step()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_saved_training_goes_on(name: str) -> None:
    family, half = FAMILIES["digits"], STEPS // 2
    network, batches = on("rustdev", family)
    optimizer = OPTIMIZERS[name](network)
    take(network, optimizer, batches[:half])
    file = io.BytesIO()
    torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict()}, file)
    take(network, optimizer, batches[half:])
    wanted = named_parameters(network)

    for device, rtol in (("rustdev", 0.0), ("cpu", 1e-3)):
        file.seek(0)
        saved = torch.load(file, map_location=device)
        fresh = family.network().to(device)
        fresh.load_state_dict(saved["network"])
        resumed = OPTIMIZERS[name](fresh)
        resumed.load_state_dict(saved["optimizer"])
        take(fresh, resumed, [[tensor.to(device) for tensor in batch] for batch in batches[half:]])
        torch.testing.assert_close(named_parameters(fresh), wanted, rtol=rtol, atol=rtol)


def test_a_gpt_writes_what_it_likes_best_as_on_the_cpu() -> None:
    torch.manual_seed(0)
    network = make_gpt().double()
    given = torch.tensor([1, 2, 3])
    wanted = network.write(given, 40, temperature=1e-6)
    assert network.to("rustdev").write(given.to("rustdev"), 40, temperature=1e-6).tolist() == wanted.tolist()
    assert wanted[:3].tolist() == [1, 2, 3]
    assert len(set(wanted.tolist())) > 3
