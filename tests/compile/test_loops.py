"""The loops of generated kernels: they run on the runtime's threads, each element once; results do not depend on their number."""

import pytest
import torch
from generated import check, sources


@pytest.fixture
def threads() -> object:
    count = torch.rustdev.get_num_threads()
    yield torch.rustdev.set_num_threads
    torch.rustdev.set_num_threads(count)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(100_003,), (3, 5, 7, 1009), (64, 1, 400)], ids=lambda shape: "x".join(map(str, shape)))
def test_every_element_is_computed_once(shape: tuple[int, ...]) -> None:
    x = torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)
    y = x.to("rustdev")
    with sources() as made:
        torch.compile(lambda x: x.transpose(0, -1).add_(1), fullgraph=True)(y)
    assert "rustdev::parallel(" in made[0]
    assert torch.equal(y.cpu(), x + 1)


@pytest.mark.slow
def test_loops_are_not_openmps() -> None:
    with sources() as made:
        x = torch.randn(300, 400, device="rustdev", requires_grad=True)
        torch.compile(lambda x: (x.softmax(1).sum(0), x.std()))(x)[0].sum().backward()
    assert any("rustdev::parallel(" in source for source in made)
    for source in made:
        assert "omp parallel" not in source
        assert "omp for" not in source


@pytest.mark.slow
def test_bits_do_not_depend_on_the_number_of_threads(threads: object) -> None:
    functions = (lambda x: x.sum(), lambda x: x.var(), lambda x: x.amax(), lambda x: x.argmax(), lambda x: x.sum(0))
    compiled = torch.compile(lambda x: [function(x.exp()) for function in functions], fullgraph=True)
    x = torch.randn(700, 301, device="rustdev")
    results = []
    for count in (1, 2, 3):
        threads(count)
        results.append([result.cpu() for result in compiled(x)])
    for other in results[1:]:
        assert all(map(torch.equal, results[0], other))


def test_loops_of_one_kernel_follow_each_other() -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        return ((x - x.mean(0)) / x.std(0)).T.contiguous().softmax(0).sum(1)

    check(chain, torch.randn(200, 90), rtol=1e-4, atol=1e-4)


def test_sums_of_shared_positions_lose_nothing() -> None:
    at = torch.arange(40_000) % 7
    check(lambda x, at: torch.zeros(7, device=x.device).index_add(0, at, x), torch.ones(40_000), at)


def test_a_dynamic_size_of_a_divided_loop() -> None:
    compiled = torch.compile(lambda x: x.T.exp() * 2, fullgraph=True, dynamic=True)
    with sources() as made:
        for shape in ((300, 50), (7, 1000), (1, 2), (2, 3), (130, 131)):
            x = torch.randn(shape)
            torch.testing.assert_close(compiled(x.to("rustdev")).cpu(), x.T.exp() * 2)
    assert any("rustdev::parallel(" in source and "ks0" in source for source in made)
