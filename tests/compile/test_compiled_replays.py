"""``mode="reduce-overhead"``: calls are replays of a graph, with the results, gradients and random numbers of ordinary calls."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import torch
from rustdev._inductor import replays
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE = "rustdev"


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each replay."""
    found: list[int] = []
    replay = replays._Capture.replay

    def counted(self: replays._Capture, args: list[Any]) -> tuple[Any, ...]:
        found.append(len(args))
        return replay(self, args)

    monkeypatch.setattr(replays._Capture, "replay", counted)
    return found


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(function, mode="reduce-overhead", fullgraph=True, **options)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4)).to(DEVICE)


def batch(index: int, *sizes: int) -> torch.Tensor:
    return torch.randn(sizes or (6, 8), generator=torch.Generator().manual_seed(index)).to(DEVICE)


def train(call: Callable[[torch.Tensor], torch.Tensor], model: nn.Module) -> list[torch.Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(6):
        loss = call(batch(step)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [torch.stack(losses).cpu(), *(value.detach().cpu() for value in model.state_dict().values())]


@pytest.mark.slow
def test_training_is_that_of_eager_calls(replayed: list[int]) -> None:
    model = network()
    twin = copy.deepcopy(model)
    torch.testing.assert_close(train(compiled(model), model), train(twin, twin))
    assert len(replayed) >= 6, "forwards and backwards"


def test_results_and_arguments_are_the_programs_own(replayed: list[int]) -> None:
    call = compiled(lambda x: x * 2)
    given = [batch(index) for index in range(6)]
    results = [call(x) for x in given]
    assert replayed
    for index, (x, result) in enumerate(zip(given, results, strict=True)):
        torch.testing.assert_close(x.cpu(), batch(index).cpu(), rtol=0, atol=0)
        torch.testing.assert_close(result.cpu(), 2 * x.cpu(), rtol=0, atol=0)


@pytest.mark.slow
def test_two_forwards_before_a_backward(replayed: list[int]) -> None:
    model = network()
    model.eval()
    call = compiled(model)
    for _ in range(4):
        call(batch(0)).sum().backward()
    assert replayed
    model.zero_grad()
    (call(batch(1)).square().sum() + call(batch(2)).exp().sum()).backward()
    found = [parameter.grad.cpu() for parameter in model.parameters()]
    model.zero_grad()
    (model(batch(1)).square().sum() + model(batch(2)).exp().sum()).backward()
    torch.testing.assert_close(found, [parameter.grad.cpu() for parameter in model.parameters()])


def test_gradients_that_add_up(replayed: list[int]) -> None:
    model = network()
    twin = copy.deepcopy(model)
    call = compiled(model)
    for index in range(5):
        call(batch(index)).square().sum().backward()
        twin(batch(index)).square().sum().backward()
    assert replayed
    for actual, expected in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(actual.grad, expected.grad)


def test_a_parameter_that_moves() -> None:
    layer = nn.Linear(8, 8, device=DEVICE)
    call = compiled(layer)
    with torch.no_grad():
        for index in range(6):
            if index == 3:
                layer.weight.data = batch(9, 8, 8)
            torch.testing.assert_close(call(batch(index)), layer(batch(index)))


def test_other_sizes_have_captures_of_their_own(replayed: list[int]) -> None:
    call = compiled(lambda x: (x * len(x)).softmax(1), dynamic=True)
    for index in range(4):
        for rows in (3, 5, 7):
            x = batch(index, rows, 8)
            torch.testing.assert_close(call(x), (x * rows).softmax(1))
    assert len(replayed) >= 6


def test_arguments_that_are_written_to(replayed: list[int]) -> None:
    def add(total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        total.add_(x.sin())
        return total

    call = compiled(add)
    totals = [torch.zeros(6, 8, device=DEVICE) for _ in range(2)]
    for index in range(8):
        result = call(totals[index >= 4], batch(index))
        assert result.data_ptr() == totals[index >= 4].data_ptr()
    assert replayed
    for total, indices in zip(totals, (range(4), range(4, 8)), strict=True):
        torch.testing.assert_close(total.cpu(), sum(batch(index).cpu().sin() for index in indices))


def test_random_numbers_go_on_and_repeat(replayed: list[int]) -> None:
    call = compiled(lambda x: nn.functional.dropout(x, 0.5))
    x = torch.ones(64, 64, device=DEVICE)
    call(x)
    call(x)
    torch.manual_seed(3)
    first = [call(x).cpu() for _ in range(3)]
    torch.manual_seed(3)
    second = [call(x).cpu() for _ in range(3)]
    assert len(replayed) >= 6
    assert not torch.equal(first[0], first[1])
    torch.testing.assert_close(second, first, rtol=0, atol=0)


def test_streams_take_turns(replayed: list[int]) -> None:
    call = compiled(lambda x: x.cos() + 1)
    streams = [torch.rustdev.Stream() for _ in range(2)]
    xs = [batch(index) for index in range(8)]
    torch.rustdev.synchronize()
    results = []
    for index, x in enumerate(xs):
        with torch.rustdev.stream(streams[index % 2]):
            torch.rustdev._sleep(1_000_000)
            results.append(call(x))
    torch.rustdev.synchronize()
    assert replayed
    torch.testing.assert_close([result.cpu() for result in results], [x.cpu().cos() + 1 for x in xs])


def test_what_waits_runs_as_usual(replayed: list[int]) -> None:
    torch.rustdev.set_fallback_allowlist(["_linalg_svd"])
    call = compiled(lambda x: torch.linalg.svdvals(x * 2) + 1)
    for index in range(4):
        torch.testing.assert_close(call(batch(index)), torch.linalg.svdvals(batch(index) * 2) + 1)
    assert not replayed
    torch.rustdev.set_fallback_allowlist([])


def test_inside_a_capture_of_the_program() -> None:
    call = compiled(lambda x: x.exp() - 1)
    x = batch(0)
    for _ in range(3):
        call(x)
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        result = call(x)
    x.copy_(batch(1))
    graph.replay()
    torch.testing.assert_close(result, batch(1).exp() - 1)


def test_max_autotune_replays_as_well(replayed: list[int]) -> None:
    call = torch.compile(lambda x: x * 5, mode="max-autotune")
    results = [call(batch(index)) for index in range(4)]
    assert replayed
    torch.testing.assert_close([result.cpu() for result in results], [5 * batch(index).cpu() for index in range(4)])


def test_other_modes_do_not_replay(replayed: list[int]) -> None:
    call = torch.compile(lambda x: x * 3)
    for index in range(4):
        call(batch(index))
    assert not replayed
