"""Training steps as graphs, and make_graphed_callables, compared with eager execution."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

DEVICE = "rustdev"


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.25), nn.Linear(16, 3)).to(DEVICE)


def batches(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    make = lambda: (torch.randn(8, 6, generator=generator), torch.randint(0, 3, (8,), generator=generator))  # noqa: E731
    return [make() for _ in range(count)]


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01, capturable=True),
    "Adam, fused": lambda parameters: torch.optim.Adam(parameters, lr=0.01, capturable=True, fused=True),
    "AdamW, foreach": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, capturable=True, foreach=True),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01, capturable=True),
}


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(model(x), target)
    loss.backward()
    optimizer.step()
    return loss


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_whole_training_steps_equal_eager(name: str) -> None:
    data = batches(8)
    x, target = (tensor.to(DEVICE) for tensor in data[0])
    model = network()
    optimizer = OPTIMIZERS[name](model.parameters())
    with torch.rustdev.stream(torch.rustdev.Stream()):
        for _ in range(2):
            train_step(model, optimizer, x, target)
    torch.rustdev.synchronize()
    eager_model = copy.deepcopy(model)
    eager_optimizer = OPTIMIZERS[name](eager_model.parameters())
    eager_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        loss = train_step(model, optimizer, x, target)

    torch.manual_seed(3)
    losses = []
    for inputs, targets in data:
        x.copy_(inputs)
        target.copy_(targets)
        graph.replay()
        losses.append(loss.item())
    torch.manual_seed(3)
    expected = [train_step(eager_model, eager_optimizer, inputs.to(DEVICE), targets.to(DEVICE)).item() for inputs, targets in data]
    assert losses == expected
    assert len(set(losses)) == len(losses)
    for parameter, other in zip(model.parameters(), eager_model.parameters(), strict=True):
        assert torch.equal(parameter.cpu(), other.cpu())


def test_graphed_modules_train_as_others_do() -> None:
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).to(DEVICE)
    eager = copy.deepcopy(model)
    sample = torch.randn(8, 6, device=DEVICE, requires_grad=True)
    graphed = torch.rustdev.make_graphed_callables(model, (sample,))
    assert graphed is model
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, eager)]
    for inputs, targets in batches(4):
        grads = []
        for each, optimizer in zip((model, eager), optimizers, strict=True):
            x = inputs.to(DEVICE).requires_grad_()
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(each(x), targets.to(DEVICE))
            loss.backward()
            optimizer.step()
            grads.append((loss.item(), x.grad.cpu()))
        assert grads[0][0] == grads[1][0]
        assert torch.equal(grads[0][1], grads[1][1])
    for parameter, other in zip(model.parameters(), eager.parameters(), strict=True):
        assert torch.equal(parameter.cpu(), other.cpu())


def test_a_graphed_module_in_the_other_mode_runs_as_it_is() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).to(DEVICE)
    torch.rustdev.make_graphed_callables(model, (torch.randn(2, 4, device=DEVICE),))
    x = torch.randn(5, 4, device=DEVICE)  # another shape than that of the graph
    model.eval()
    assert torch.equal(model(x).cpu(), model[0](x).cpu())


def test_several_callables_share_a_pool_and_follow_each_other() -> None:
    first, second = nn.Linear(4, 8).to(DEVICE), nn.Linear(8, 2).to(DEVICE)
    eager = copy.deepcopy(nn.Sequential(first, nn.ReLU(), second))
    relu: Callable[[torch.Tensor], torch.Tensor] = torch.relu
    samples = (
        (torch.randn(3, 4, device=DEVICE),),
        (torch.randn(3, 8, device=DEVICE, requires_grad=True),),
        (torch.randn(3, 8, device=DEVICE, requires_grad=True),),
    )
    first, relu, second = torch.rustdev.make_graphed_callables((first, relu, second), samples)
    for _ in range(3):
        x = torch.randn(3, 4, device=DEVICE)
        results = [second(relu(first(x))), eager(x)]
        for result in results:
            result.square().sum().backward()
        assert torch.equal(results[0].cpu(), results[1].cpu())
    for mine, others in ((first, eager[0]), (second, eager[2])):
        torch.testing.assert_close(mine.weight.grad, others.weight.grad, rtol=0, atol=0)


def test_functions_of_nested_arguments_and_results() -> None:
    def function(pair: tuple[torch.Tensor, torch.Tensor], third: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"sum": pair[0] + pair[1] * third, "place": third.argmax()}

    make = lambda: torch.randn(4, device=DEVICE, requires_grad=True)  # noqa: E731
    graphed = torch.rustdev.make_graphed_callables(function, ((make(), make()), make()))
    a, b, c = make(), make(), make()
    result = graphed((a, b), c)
    assert torch.equal(result["sum"].cpu(), (a + b * c).cpu())
    assert result["place"].item() == c.argmax().item()
    assert not result["place"].requires_grad
    result["sum"].sum().backward()
    assert torch.equal(b.grad.cpu(), c.detach().cpu())
    with pytest.raises(TypeError, match="captured with 3 tensors as arguments, and is called with 2"):
        graphed(a, b)


def test_unused_inputs() -> None:
    samples = tuple(torch.randn(2, device=DEVICE, requires_grad=True) for _ in range(2))

    def first_only(a: torch.Tensor, _b: torch.Tensor) -> torch.Tensor:
        return a * 2

    with pytest.raises(RuntimeError, match="appears to not have been used"):
        torch.rustdev.make_graphed_callables(first_only, samples)
    graphed = torch.rustdev.make_graphed_callables(first_only, samples, allow_unused_input=True)
    a, b = (torch.randn(2, device=DEVICE, requires_grad=True) for _ in range(2))
    graphed(a, b).sum().backward()
    assert a.grad.tolist() == [2.0, 2.0]
    assert b.grad is None


def test_inference_needs_no_backward_graph() -> None:
    graphed = torch.rustdev.make_graphed_callables(lambda x: x + 1, (torch.zeros(3, device=DEVICE),))
    assert graphed(torch.ones(3, device=DEVICE)).tolist() == [2.0] * 3


def test_what_make_graphed_callables_refuses() -> None:
    x = torch.zeros(1, 2, device=DEVICE)
    hooked = nn.Linear(2, 2).to(DEVICE)
    hooked.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="hooks"):
        torch.rustdev.make_graphed_callables(hooked, (x,))
    with pytest.raises(TypeError, match="tensors only"):
        torch.rustdev.make_graphed_callables(torch.relu, (3,))
    buffered = nn.Linear(2, 2).to(DEVICE)
    buffered.register_buffer("buffer", torch.ones(1, requires_grad=True))
    with pytest.raises(RuntimeError, match="buffers"):
        torch.rustdev.make_graphed_callables(buffered, (x,))
    with torch.autocast("rustdev", dtype=torch.bfloat16), pytest.raises(RuntimeError, match="cache_enabled=False"):
        torch.rustdev.make_graphed_callables(torch.relu, (x,))
    with pytest.raises(RuntimeError, match="item"):
        torch.rustdev.make_graphed_callables(lambda x: x * x.sum().item(), (x,))
    assert (x + 1).sum().item() == 2.0


def test_autocast_without_its_cache() -> None:
    model = nn.Linear(4, 4).to(DEVICE)
    x = torch.randn(2, 4, device=DEVICE)
    with torch.autocast("rustdev", dtype=torch.bfloat16, cache_enabled=False):
        with torch.no_grad():
            expected = model(x)
        graphed = torch.rustdev.make_graphed_callables(model, (torch.randn(2, 4, device=DEVICE),))
    assert graphed(x).dtype == torch.bfloat16
    assert torch.equal(graphed(x).cpu(), expected.cpu())
