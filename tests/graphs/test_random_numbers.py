"""Random numbers in graphs: each replay yields the numbers of the same calls outside of a graph."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

DEVICE = "rustdev"


def capturing() -> torch.rustdev.graph:
    return torch.rustdev.graph(torch.rustdev.Graph())


def body(x: torch.Tensor) -> list[torch.Tensor]:
    """Draw in several ways."""
    return [
        torch.rand(100, device=DEVICE),
        torch.randn(100, device=DEVICE),
        nn.functional.dropout(x, 0.5),
        torch.randint(0, 1000, (100,), device=DEVICE),
        torch.randperm(50, device=DEVICE),
        torch.bernoulli(x * 0.5),
    ]


def test_replays_equal_eager_calls_and_go_on() -> None:
    x = torch.ones(100, device=DEVICE)
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        outputs = body(x)
    torch.manual_seed(5)
    expected = [[value.cpu() for value in body(x)] for _ in range(3)]
    end = torch.rustdev.get_rng_state()
    torch.manual_seed(5)
    for values in expected:
        graph.replay()
        for output, value in zip(outputs, values, strict=True):
            assert torch.equal(output.cpu(), value)
    assert torch.equal(torch.rustdev.get_rng_state(), end)


def test_replays_that_wait_in_line_draw_each_their_own() -> None:
    total = torch.zeros(3, 10, device=DEVICE)
    row = torch.zeros(1, dtype=torch.long, device=DEVICE)
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        total.index_copy_(0, row, torch.rand(1, 10, device=DEVICE))
        row += 1
    torch.manual_seed(1)
    torch.rustdev._sleep(20_000_000)
    for _ in range(3):
        graph.replay()
    torch.manual_seed(1)
    expected = torch.cat([torch.rand(1, 10, device=DEVICE) for _ in range(3)])
    assert torch.equal(total.cpu(), expected.cpu())


def test_eager_draws_between_replays_are_seen() -> None:
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        y = torch.rand(5, device=DEVICE)
    torch.manual_seed(3)
    expected = [torch.rand(5, device=DEVICE).tolist() for _ in range(3)]
    torch.manual_seed(3)
    graph.replay()
    first = y.tolist()
    middle = torch.rand(5, device=DEVICE).tolist()
    graph.replay()
    assert [first, middle, y.tolist()] == expected


def test_generators_of_the_users_own() -> None:
    own = torch.Generator(DEVICE).manual_seed(11)
    third, fourth = (torch.Generator(DEVICE).manual_seed(seed) for seed in (12, 13))
    graph = torch.rustdev.Graph()
    graph.register_generator_state(own)
    with torch.rustdev.graph(graph):
        outputs = [torch.rand(4, device=DEVICE, generator=each) for each in (own, None, third, fourth, own)]
    state = own.get_state()
    torch.manual_seed(8)
    expected = [torch.rand(4, device=DEVICE, generator=each).tolist() for each in (own, None, third, fourth, own) for _ in range(1)]
    own.set_state(state)
    third.manual_seed(12)
    fourth.manual_seed(13)
    torch.manual_seed(8)
    graph.replay()
    assert [output.tolist() for output in outputs] == expected


def test_a_graph_keeps_the_state_of_its_generators() -> None:
    own = torch.Generator(DEVICE).manual_seed(11)
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        y = torch.rand(4, device=DEVICE, generator=own)
    alias = own.graphsafe_get_state()
    del own
    others = [torch.Generator(DEVICE).manual_seed(seed) for seed in range(8)]
    graph.replay()
    assert y.tolist() == torch.rand(4, device=DEVICE, generator=others[0].manual_seed(11)).tolist()
    alias.manual_seed(4)
    graph.replay()
    assert y.tolist() == torch.rand(4, device=DEVICE, generator=others[0].manual_seed(4)).tolist()


@pytest.mark.parametrize(
    ("argument", "error"), [(3, TypeError), (torch.Generator("cpu"), ValueError)], ids=["no generator", "of the CPU"]
)
def test_wrong_generators(argument: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        torch.rustdev.Graph().register_generator_state(argument)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [lambda own: own.manual_seed(1), lambda own: own.set_offset(4), lambda own: own.set_state(own.get_state())],
    ids=["manual_seed", "set_offset", "set_state"],
)
def test_generators_cannot_be_changed_in_a_capture(change: Callable[[torch.Generator], object]) -> None:
    own = torch.Generator(DEVICE)
    with pytest.raises(RuntimeError, match=r"of a generator is not permitted|seeding a generator"), capturing():
        change(own)
