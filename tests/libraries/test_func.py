"""torch.func over a model: per-sample gradients, Jacobians, ensembles."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap
from torch.nn import functional


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 4))


def test_gradients_of_each_sample(model: nn.Module) -> None:
    images, labels = torch.randn(5, 1, 6, 6), torch.tensor([0, 1, 2, 3, 0])

    def loss(parameters: dict[str, torch.Tensor], image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(functional_call(model, parameters, (image[None],)), label[None])

    wanted = []
    for image, label in zip(images, labels, strict=True):
        model.zero_grad()
        functional.cross_entropy(model(image[None]), label[None]).backward()
        wanted.append([parameter.grad.clone() for parameter in model.parameters()])
    model.to("rustdev")
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    per_sample = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, images.to("rustdev"), labels.to("rustdev"))
    for place, name in enumerate(parameters):
        assert per_sample[name].device.type == "rustdev"
        torch.testing.assert_close(per_sample[name].cpu(), torch.stack([row[place] for row in wanted]), rtol=1e-4, atol=1e-5)


def test_jacobians() -> None:
    weight = torch.randn(3, 4)
    point = torch.randn(4)

    def layer(x: torch.Tensor) -> torch.Tensor:
        return (weight.to(x.device) @ x).tanh()

    wanted = (1 - (weight @ point).tanh() ** 2)[:, None] * weight
    for jacobian in (jacrev, jacfwd):
        result = jacobian(layer)(point.to("rustdev"))
        assert result.device.type == "rustdev"
        torch.testing.assert_close(result.cpu(), wanted, rtol=1e-4, atol=1e-5)


def test_second_derivatives() -> None:
    point = torch.randn(4, dtype=torch.float64)
    result = hessian(lambda x: x.pow(3).sum())(point.to("rustdev"))
    torch.testing.assert_close(result.cpu(), torch.diag(6 * point))


def test_products_with_jacobians() -> None:
    point, direction = torch.randn(5), torch.randn(5)
    value, tangent = jvp(torch.sin, (point.to("rustdev"),), (direction.to("rustdev"),))
    torch.testing.assert_close(value.cpu(), point.sin())
    torch.testing.assert_close(tangent.cpu(), point.cos() * direction)
    _, pull = vjp(torch.sin, point.to("rustdev"))
    torch.testing.assert_close(pull(direction.to("rustdev"))[0].cpu(), point.cos() * direction)
    slope, value = grad_and_value(lambda x: x.square().sum())(point.to("rustdev"))
    torch.testing.assert_close(slope.cpu(), 2 * point)
    assert value.item() == pytest.approx(point.square().sum().item(), rel=1e-5)


def test_an_ensemble(model: nn.Module) -> None:
    models = [copy.deepcopy(model) for _ in range(3)]
    for number, member in enumerate(models):
        nn.init.constant_(member[3].bias, float(number))
    images = torch.randn(2, 1, 6, 6)
    wanted = torch.stack([member(images) for member in models]).detach()
    parameters, buffers = stack_module_state([member.to("rustdev") for member in models])
    base = copy.deepcopy(models[0]).to("meta")
    run = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), in_dims=(0, 0, None))
    result = run(parameters, buffers, images.to("rustdev"))
    assert result.device.type == "rustdev"
    torch.testing.assert_close(result.detach().cpu(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_random_numbers_under_vmap(randomness: str) -> None:
    rows = torch.zeros(4, 100, device="rustdev")
    drawn = vmap(lambda row: row + torch.rand(100, device="rustdev"), randomness=randomness)(rows).cpu()
    assert torch.equal(drawn[0], drawn[1]) == (randomness == "same")
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda row: torch.rand_like(row))(rows)
