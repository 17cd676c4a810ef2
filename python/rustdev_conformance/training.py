"""Checks of autograd, of mixed precision and of data loaders."""

import functools
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from rustdev_conformance.checks import NO_SUCH_DTYPE, Absent, Device, check, claimed


def network(device: Device) -> tuple[torch.nn.Module, torch.nn.Module]:
    """Return a small network of the CPU and its copy on the device."""
    torch.manual_seed(0)
    host = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    there = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    there.load_state_dict(host.state_dict())
    return host, there.to(device.name)


def same_gradients(there: torch.nn.Module, host: torch.nn.Module) -> None:
    """Compare the gradients of two modules."""
    for (name, one), (_, other) in zip(there.named_parameters(), host.named_parameters(), strict=True):
        assert one.grad is not None, f"{name} has no gradient"
        assert one.grad.device == one.device
        torch.testing.assert_close(one.grad.cpu(), other.grad, msg=functools.partial("gradient of {}: {}".format, name))


@check("autograd/backward")
def backward(device: Device) -> None:
    host, there = network(device)
    data = torch.randn(5, 6)
    for _ in range(2):  # the second one is added
        host(data).square().mean().backward()
        there(data.to(device.name)).square().mean().backward()
    same_gradients(there, host)


@check("autograd/grad")
def grad(device: Device) -> None:
    value = torch.tensor([1.0, 2.0, 3.0], device=device.name, requires_grad=True)
    (first,) = torch.autograd.grad((value**3).sum(), value, create_graph=True)
    assert first.cpu().tolist() == [3, 12, 27]
    (second,) = torch.autograd.grad(first.sum(), value)
    assert second.cpu().tolist() == [6, 12, 18], f"{second.cpu().tolist()} as the second derivative"
    with torch.no_grad():
        assert not (value * 2).requires_grad
    with torch.inference_mode():
        assert (value * 2).is_inference()


@check("autograd/hooks")
def hooks(device: Device) -> None:
    seen: list[torch.device] = []
    value = torch.ones(3, device=device.name, requires_grad=True)
    value.register_hook(lambda grad: seen.append(grad.device) or grad * 2)  # type: ignore[func-returns-value]
    value.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.device))
    (value * 3).sum().backward()
    assert value.grad is not None
    assert value.grad.cpu().tolist() == [6, 6, 6]
    assert [it.type for it in seen] == [device.name] * 2
    with torch.autograd.graph.save_on_cpu():
        (value * value).sum().backward()
    assert value.grad.cpu().tolist() == [10, 10, 10]


@check("autograd/checkpoint")
def checkpointed(device: Device) -> None:
    host, there = network(device)
    data = torch.randn(5, 6)
    host(data).square().mean().backward()
    checkpoint(there, data.to(device.name).requires_grad_(), use_reentrant=False).square().mean().backward()
    same_gradients(there, host)


@check("autograd/checkpoint_random")
def checkpoint_random(device: Device) -> None:
    drawn: list[torch.Tensor] = []

    def run(value: torch.Tensor) -> torch.Tensor:
        mask = torch.rand_like(value)
        drawn.append(mask.detach().cpu())
        return value * mask

    value = torch.ones(100, device=device.name, requires_grad=True)
    checkpoint(run, value, use_reentrant=False).sum().backward()
    assert len(drawn) == 2
    assert torch.equal(*drawn), "the second run of a checkpoint draws other numbers"


@check("autograd/custom_function")
def custom_function(device: Device) -> None:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(value)
            return value**3

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
            (value,) = ctx.saved_tensors
            return torch.mul(grads[0], 3 * value**2)

    value = torch.tensor([2.0], device=device.name, requires_grad=True)
    Cube.apply(value).backward()
    assert value.grad is not None
    assert value.grad.item() == 12


@check("autograd/gradcheck", "core")
def gradcheck(device: Device) -> None:
    with claimed("float64", device, refusal=NO_SUCH_DTYPE.pattern):
        value = torch.rand(3, 4, dtype=torch.float64).to(device.name).requires_grad_()
    assert torch.autograd.gradcheck(lambda it: it.tanh().matmul(it.T).logsumexp(1), value)


@check("autograd/functional")
def functional(device: Device) -> None:
    value = torch.arange(1.0, 4.0, device=device.name)
    assert torch.func.grad(lambda it: (it**2).sum())(value).cpu().tolist() == [2, 4, 6]
    assert torch.vmap(lambda it: it * 2)(value).cpu().tolist() == [2, 4, 6]
    assert torch.func.jacrev(lambda it: it * it)(value).diagonal().cpu().tolist() == [2, 4, 6]
    assert torch.func.jvp(lambda it: it**2, (value,), (torch.ones_like(value),))[1].cpu().tolist() == [2, 4, 6]


@check("autograd/anomaly")
def anomaly(device: Device) -> None:
    value = torch.tensor([-1.0], device=device.name, requires_grad=True)
    try:
        with torch.autograd.set_detect_anomaly(True):
            (value.sqrt() * 1).sum().backward()
    except RuntimeError as error:
        assert "nan" in str(error), error
        return
    raise AssertionError("a gradient of NaN was not detected")


@check("autograd/training")
def training(device: Device) -> None:
    host, there = network(device)
    data, target = torch.randn(32, 6), torch.randint(3, (32,))
    losses: list[list[float]] = []
    for module, on in ((host, "cpu"), (there, device.name)):
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.05)
        losses.append([])
        for _ in range(10):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(module(data.to(on)), target.to(on))
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    torch.testing.assert_close(torch.tensor(losses[1]), torch.tensor(losses[0]), rtol=1e-3, atol=1e-4)


def half_of(device: Device) -> torch.dtype:
    """Return the dtype of autocast."""
    with claimed("autocast", device, "amp", "get_amp_supported_dtype"):
        if not torch.amp.is_autocast_available(device.name):
            raise Absent(f"torch.amp.is_autocast_available({device.name!r}) is False")
        torch.autocast(device.name)
        return torch.get_autocast_dtype(device.name)


@check("amp/autocast")
def autocast(device: Device) -> str:
    half = half_of(device)
    one = torch.ones(4, 4, device=device.name)
    with torch.autocast(device.name):
        assert torch.is_autocast_enabled(device.name)
        assert torch.mm(one, one).dtype is half, f"mm is {torch.mm(one, one).dtype} under autocast"
        assert torch.nn.functional.linear(one, one).dtype is half
        with torch.autocast(device.name, enabled=False):
            assert torch.mm(one, one).dtype is torch.float32
    assert torch.mm(one, one).dtype is torch.float32
    return f"{half}"


@check("amp/float32_operators")
def float32_operators(device: Device) -> None:
    half = half_of(device)
    one = torch.ones(4, 4, device=device.name, dtype=half)
    with torch.autocast(device.name):
        loss = torch.nn.functional.mse_loss(one, one * 2)
    assert loss.dtype is torch.float32, f"mse_loss is {loss.dtype} under autocast"


@check("amp/gradients")
def gradients(device: Device) -> None:
    half_of(device)
    _, there = network(device)
    with torch.autocast(device.name):
        loss = there(torch.ones(2, 6, device=device.name)).float().sum()
    loss.backward()
    assert all(it.grad is not None and it.grad.dtype is torch.float32 for it in there.parameters())


@check("amp/grad_scaler")
def grad_scaler(device: Device) -> None:
    half_of(device)
    _, there = network(device)
    optimizer = torch.optim.SGD(there.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device.name, init_scale=1024.0)
    if not scaler.is_enabled():
        raise Absent(f"GradScaler({device.name!r}) is disabled")
    before = there[0].weight.detach().cpu().clone()  # type: ignore[index]
    for factor, scale in ((1.0, 1024.0), (float("inf"), 512.0)):
        optimizer.zero_grad()
        scaler.scale(there(torch.ones(2, 6, device=device.name)).sum() * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == scale, f"the scale is {scaler.get_scale()}"
        after = there[0].weight.detach().cpu().clone()  # type: ignore[index]
        assert torch.equal(before, after) == (factor != 1.0), "infinite gradients have to leave out the step, others not"
        before = after


@check("data/loader")
def loader(device: Device) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(10.0))
    batches = [batch.to(device.name, non_blocking=True) for (batch,) in torch.utils.data.DataLoader(data, batch_size=4)]
    assert torch.cat(batches).cpu().tolist() == list(range(10))


@check("data/pin_memory", "core")
def pin_memory(device: Device) -> None:
    device.need_accelerator()
    with claimed("pin_memory", device):
        torch.ones(1).pin_memory()
    data = torch.utils.data.TensorDataset(torch.arange(10.0))
    for workers in (0, 1):
        loader = torch.utils.data.DataLoader(
            data, batch_size=4, pin_memory=True, num_workers=workers, multiprocessing_context="spawn" if workers else None
        )
        batches = [batch for (batch,) in loader]
        assert all(batch.is_pinned() for batch in batches), f"a batch is not pinned, with {workers} workers"
        assert torch.cat([batch.to(device.name, non_blocking=True) for batch in batches]).cpu().tolist() == list(range(10))
