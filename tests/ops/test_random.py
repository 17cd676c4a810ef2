"""Random numbers: distributions, dtypes, layouts, generators and offsets, dropout, errors."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from comparison import CPU, FLOATS, INTEGERS, assert_any_threads, compare_outcomes, layouts
from torch.nn import functional

UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
DTYPES = [torch.bool, *INTEGERS, *UNSIGNED, *FLOATS, torch.complex64, torch.complex32, torch.float8_e4m3fn]
# Older versions have no gradient of complex dropout.
DIFFERENTIABLE = FLOATS if torch.__version__ < "2.15" else [*FLOATS, torch.complex64]
D = torch.device("rustdev")
COUNT = 50_000

#: Fills a tensor, by the default generator or another.
Fill = Callable[..., torch.Tensor]
FILLS: dict[str, Fill] = {
    "uniform": lambda tensor, **options: tensor.uniform_(-1, 3, **options),
    "normal": lambda tensor, **options: tensor.normal_(2, 0.5, **options),
    "log_normal": lambda tensor, **options: tensor.log_normal_(0, 0.25, **options),
    "exponential": lambda tensor, **options: tensor.exponential_(0.5, **options),
    "cauchy": lambda tensor, **options: tensor.cauchy_(1, 2, **options),
    "geometric": lambda tensor, **options: tensor.geometric_(0.5, **options),
    "bernoulli": lambda tensor, **options: tensor.bernoulli_(0.3, **options),
    "bernoulli_tensor": lambda tensor, **options: tensor.bernoulli_(torch.full_like(tensor, 0.3, dtype=torch.float32), **options),
    "random": lambda tensor, **options: tensor.random_(**options),
    "random_to": lambda tensor, **options: tensor.random_(2, **options),
    "random_from_to": lambda tensor, **options: tensor.random_(3, 9, **options),
}
#: Of integers.
WHOLE: dict[str, Fill] = {name: fill for name, fill in FILLS.items() if "random" in name}
WHOLE["random_from"] = lambda tensor: tensor.random_(torch.iinfo(tensor.dtype).min, None)
PERMUTATION: dict[str, Fill] = {"randperm": lambda tensor: torch.randperm(5, out=tensor.resize_(5))}

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
of_floats = pytest.mark.parametrize("dtype", FLOATS, ids=str)


def empty(dtype: torch.dtype = torch.float32, count: int = COUNT, device: torch.device = D) -> torch.Tensor:
    """Return a tensor to be filled."""
    return torch.empty(count, dtype=dtype, device=device)


def full(value: float, *shape: int, dtype: torch.dtype = torch.float32, device: torch.device = D) -> torch.Tensor:
    """Return a tensor of one value."""
    return torch.full(shape or (COUNT,), value, dtype=dtype, device=device)


def assert_alike(left: torch.Tensor, right: torch.Tensor) -> None:
    """Compare the distributions of two samples by their Kolmogorov-Smirnov statistic, the greatest distance."""
    assert left.dtype == right.dtype
    left, right = ((torch.view_as_real(it) if it.is_complex() else it).cpu().double().flatten() for it in (left, right))
    positions = torch.cat([left, right]).unique()
    shares = [torch.searchsorted(sample.sort().values, positions, right=True) / sample.numel() for sample in (left, right)]
    # One in a thousand such samples of one distribution are further apart.
    assert (shares[0] - shares[1]).abs().max().item() < 1.95 * (1 / left.numel() + 1 / right.numel()) ** 0.5


def compare_refusals(call: Callable[..., object], *arguments: Any) -> None:
    """Compare the errors of a call on both devices, if any."""
    compare_outcomes(lambda *given: [call(*given)][:0], *arguments)


#: Samples of COUNT numbers, on a device.
SAMPLES: dict[str, Callable[[torch.device], torch.Tensor]] = {
    "randn": lambda device: torch.randn(COUNT, device=device),
    "rand": lambda device: torch.rand(COUNT, device=device),
    "randint": lambda device: torch.randint(0, 7, (COUNT,), device=device),
    "randn_like": lambda device: torch.randn_like(empty(torch.bfloat16, device=device)),
    "rand_like": lambda device: torch.rand_like(empty(torch.bfloat16, device=device)),
    "randint_like": lambda device: torch.randint_like(empty(torch.bfloat16, device=device), 3, 7),
    "bernoulli": lambda device: torch.bernoulli(full(0.3, device=device)),
    "bernoulli of a number": lambda device: torch.bernoulli(full(0.3, device=device), 0.6),
    "bernoulli out": lambda device: torch.bernoulli(full(0.3, device=device), out=empty(torch.bool, 0, device)),
    "bernoulli_ of itself": lambda device: (values := full(0.25, device=device)).bernoulli_(values),
    "normal of means": lambda device: torch.normal(full(3.0, device=device), 2.0),
    "normal of deviations": lambda device: torch.normal(3.0, full(2.0, device=device)),
    "normal of both": lambda device: torch.normal(full(3.0, device=device), full(2.0, 2, COUNT, device=device))[1],
    "normal out": lambda device: torch.normal(
        full(3.0, device=device), full(2.0, device=device), out=empty(count=0, device=device)
    ),
    "normal of sizes": lambda device: torch.normal(3.0, 2.0, (COUNT,), device=device),
    "rand complex64": lambda device: torch.rand(COUNT // 2, dtype=torch.complex64, device=device),
    **{
        f"randn {dtype}": lambda device, dtype=dtype: torch.randn(COUNT // 2, dtype=dtype, device=device)
        for dtype in (torch.complex64, torch.complex128)
    },
    **{
        f"{name} {dtype}": lambda device, fill=fill, dtype=dtype: fill(empty(dtype, device=device))
        for name, fill in (FILLS | WHOLE).items()
        for dtype in (FLOATS if name in FILLS else []) + (INTEGERS if name in WHOLE else []) + UNSIGNED * (name == "random_to")
    },
    **{
        f"poisson {rate} {dtype}": lambda device, rate=rate, dtype=dtype: torch.poisson(full(rate, dtype=dtype, device=device))
        for rate, dtype in itertools.product([0.0, 0.4, 6.0, 30.0, 150.0], FLOATS)
    },
    **{
        f"binomial {count} {p} {dtype}": lambda device, count=count, p=p, dtype=dtype: torch.binomial(
            full(count, dtype=dtype, device=device), full(p, 1, dtype=dtype, device=device).expand(COUNT)
        )
        for count, p in [(0.0, 0.5), (10.0, 0.3), (10.0, 0.9), (60.0, 0.5), (1000.0, 0.7), (5.0, 1.0), (5.0, 0.0)]
        for dtype in (torch.float32, torch.float64)
    },
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_distribution_is_that_of_the_cpu(name: str) -> None:
    assert_alike(SAMPLES[name](D), SAMPLES[name](CPU))


def test_uniform_never_reaches_its_end() -> None:
    for dtype in FLOATS:
        assert empty(dtype, 1 << 20).uniform_(1, 2).max() < 2


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FILLS | PERMUTATION)
def test_dtypes_are_those_of_the_cpu(name: str, dtype: torch.dtype) -> None:
    for count in (3, 0):
        compare_refusals((FILLS | PERMUTATION)[name], torch.empty(count, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float16, torch.float64], ids=str)
def test_permutations(dtype: torch.dtype) -> None:
    count = 250 if dtype is torch.uint8 else 2000
    values = torch.randperm(count, dtype=dtype, device=D).cpu().long()
    assert (values != torch.arange(count)).double().mean() > 0.95
    assert torch.equal(values.sort().values, torch.arange(count))
    out = torch.zeros(2 * count, dtype=dtype, device=D)
    torch.randperm(count, out=out[::2])
    assert torch.equal(out[::2].cpu().long().sort().values, torch.arange(count))
    assert not out[1::2].cpu().any()
    assert torch.randperm(0, device=D).shape == (0,)


@of_floats
def test_multinomial(dtype: torch.dtype) -> None:
    p = torch.tensor([[0.0, 1, 2, 1, 0], [3, 0, 0, 1, 0]], dtype=dtype, device=D)
    wanted = torch.tensor([[0, 0.25, 0.5, 0.25, 0], [0.75, 0, 0, 0.25, 0]])
    # One of each of many rows, with and without replacement, and many of each row.
    many = p.repeat(10_000, 1)
    drawn = [torch.multinomial(many, 1, replacement).view(10_000, 2).t() for replacement in (False, True)]
    for rows in (*drawn, torch.multinomial(p, 50_000, replacement=True)):
        assert rows.dtype == torch.int64
        shares = torch.stack([row.bincount(minlength=5) for row in rows.cpu()]) / rows.shape[1]
        torch.testing.assert_close(shares, wanted, atol=0.02, rtol=0)
        assert (shares[wanted == 0] == 0).all()
    assert torch.multinomial(p[0], 3).cpu().sort().values.tolist() == [1, 2, 3]
    strided = torch.zeros(2, 40, dtype=torch.int64, device=D)
    torch.multinomial(p, 20, replacement=True, out=strided[:, ::2])
    assert strided[0, ::2].min() > 0
    assert not strided[:, 1::2].any()


NAN = float("nan")


@pytest.mark.parametrize(
    "call",
    [
        *(
            lambda weights=weights: torch.multinomial(torch.tensor(weights, device=D), 3, replacement=True)
            for weights in ([1.0, -1.0], [0.0, 0.0], [1.0, NAN], [1.0, float("inf")])
        ),
        lambda: torch.poisson(full(-1.0)),
        *(lambda wrong=wrong: torch.bernoulli(torch.tensor([0.5, wrong], device=D)) for wrong in (-0.5, 1.5, NAN)),
    ],
)
def test_wrong_probabilities_fail_when_they_are_waited_for(call: Callable[[], torch.Tensor]) -> None:
    call()
    with pytest.raises(torch.AcceleratorError):
        torch.rustdev.synchronize()


def test_counts_of_other_kinds() -> None:
    for call in (torch.poisson, lambda x: torch.binomial(x, x)):
        for dtype in (torch.int64, torch.float16, torch.bool):
            compare_refusals(call, torch.ones(3, dtype=dtype))
        assert call(full(1, 0)).shape == (0,)
        assert call(full(1, 5, 4).t()).shape == (4, 5)
    assert torch.binomial(full(1.0), full(NAN)).isnan().all()
    assert torch.binomial(full(NAN), full(0.5)).isnan().all()


Draw = Callable[[torch.Generator | None], torch.Tensor]
DRAWS: list[Draw] = [
    *(lambda generator, fill=fill: fill(empty(), generator=generator) for fill in FILLS.values()),
    lambda generator: empty(torch.int64).random_(generator=generator),
    lambda generator: torch.bernoulli(full(0.5), generator=generator),
    lambda generator: torch.multinomial(full(1, 1000, 50), 1, generator=generator),
    lambda generator: torch.multinomial(full(1, 3, 50), 40_000, True, generator=generator),
    lambda generator: torch.poisson(full(20.0), generator=generator),
    lambda generator: torch.binomial(full(50.0), full(0.4), generator),
    lambda generator: torch.rand(COUNT, generator=generator, device=D),
    lambda generator: torch.randn(COUNT, generator=generator, device=D),
    lambda generator: torch.randint(9, (COUNT,), generator=generator, device=D),
    lambda generator: torch.randint(5, 99, (COUNT,), generator=generator, device=D),
    lambda generator: torch.randperm(1000, generator=generator, device=D),
]


@pytest.mark.parametrize("draw", DRAWS)
def test_seeds_states_and_generators(draw: Draw) -> None:
    torch.rustdev.manual_seed(7)
    first, state, second = draw(None).cpu(), torch.rustdev.get_rng_state(), draw(None).cpu()
    assert not torch.equal(first, second)
    torch.rustdev.manual_seed(7)
    with torch.random.fork_rng(devices=[0], device_type="rustdev"):
        draw(None)
    assert torch.equal(draw(None).cpu(), first)
    generator = torch.Generator("rustdev").manual_seed(7)
    assert torch.equal(draw(generator).cpu(), first)
    assert torch.equal(draw(None).cpu(), second)
    torch.rustdev.set_rng_state(state)
    assert torch.equal(draw(None).cpu(), second)
    with pytest.raises(RuntimeError, match="generator"):
        draw(torch.Generator("rustdev:1"))


@pytest.mark.parametrize("draw", DRAWS)
def test_threads_do_not_change_the_values(draw: Draw) -> None:
    assert_any_threads(lambda: draw(torch.Generator("rustdev").manual_seed(1)))


@pytest.mark.parametrize(
    ("call", "taken"),
    [
        (lambda: empty(count=1).normal_(), 4),
        (lambda: empty(count=1 << 20).normal_(), 4),
        (lambda: empty(torch.complex64).uniform_(), 4),
        (lambda: torch.normal(full(1.0), full(1.0)), 4),
        (lambda: torch.randperm(10, device=D), 4),
        (lambda: functional.dropout(full(1.0), 0.5), 4),
        (lambda: functional.dropout(full(1.0), 0.5, training=False), 0),
        (lambda: empty(count=0).normal_(), 0),
    ],
)
def test_every_call_takes_four_numbers(call: Callable[[], object], taken: int) -> None:
    generator = torch.rustdev.default_generators[0].manual_seed(5)
    before = generator.get_offset()
    call()
    assert generator.get_offset() - before == taken


@pytest.mark.parametrize("name", FILLS)
def test_layouts_are_filled(name: str) -> None:
    whole = full(-7.0, 60, 80, 6)
    for view in (whole[::2, 1::3], whole.permute(2, 0, 1)[::3]):
        whole.fill_(-7)
        FILLS[name](view)
        filled = view.cpu()
        assert (filled != -7).all()
        assert (whole.cpu() != -7).sum() == filled.numel()
        assert_alike(filled, FILLS[name](empty()))
    assert FILLS[name](torch.empty((), device=D)).shape == ()
    with pytest.raises(RuntimeError, match="single memory location"):
        FILLS[name](empty(count=1).expand(20))


def test_probabilities_of_their_own() -> None:
    p = torch.tensor([0.0, 0.25, 1.0])
    for given in (p, p.to(D), p.to(D, torch.float64), p.to(D, torch.bfloat16)):
        values = torch.empty(20_000, 3, device=D).bernoulli_(given)
        torch.testing.assert_close(values.cpu().mean(0), p, atol=0.02, rtol=0)


@pytest.mark.parametrize("dtype", DIFFERENTIABLE, ids=str)
def test_dropout_and_its_gradient(dtype: torch.dtype) -> None:
    whole = torch.ones(200, 200, dtype=dtype)
    for host in (*layouts(whole), whole[:1].expand(200, 200)):
        leaf = torch.empty_strided(host.shape, host.stride(), dtype=dtype, device=D).fill_(1).requires_grad_()
        result = functional.dropout(leaf, 0.25)
        result.backward(torch.full_like(result, 3))
        values = result.detach().cpu()
        kept = values != 0
        assert kept.double().mean().item() == pytest.approx(0.75, abs=0.02)
        scale = torch.tensor(1 / 0.75).to(dtype)
        torch.testing.assert_close(values, kept * scale)
        torch.testing.assert_close(leaf.grad.cpu(), kept * scale * 3)
        assert result.stride() == torch.empty_like(host).stride()


def test_dropout_at_its_limits() -> None:
    x = torch.randn(100, device=D)
    assert torch.equal(functional.dropout(x, 0.5, training=False), x)
    for p, factor in ((0.0, 1), (1.0, 0)):
        for call in (functional.dropout, lambda x, p: torch.native_dropout(x, p, True)[0]):
            leaf = x.clone().requires_grad_()
            result = call(leaf, p)
            result.sum().backward()
            assert torch.equal(result.detach(), x * factor)
            assert torch.equal(leaf.grad, full(float(factor), 100))
    for train in (True, False, None):
        compare_outcomes(torch.native_dropout, torch.empty(0, 3), 0.5, train)
    compare_outcomes(torch.native_dropout, x.cpu(), 0.5, False)
    inplace = full(1.0)
    functional.dropout(inplace, 0.5, inplace=True)
    assert sorted(inplace.cpu().unique().tolist()) == [0.0, 2.0]
    result, mask = (part.cpu() for part in torch.native_dropout(full(float("inf")), 0.5, True))
    assert torch.equal(result.isinf(), mask)
    assert torch.equal(result.isnan(), ~mask)


#: Of ones; conformance/test_operators.py has those of PyTorch's database.
REFUSED: list[Callable[[torch.Tensor], object]] = [
    lambda x: torch.normal(x, -1.0),
    lambda x: torch.normal(x, -x),
    lambda x: torch.normal(0.0, x.long()),
    lambda x: torch.normal(x, x.to(torch.complex64)),
    lambda x: torch.normal(x, x[:2]),
    lambda x: x.half().uniform_(0, 1e6),
    lambda x: x.geometric_(1.0),
    lambda x: x.bernoulli_(1.5),
    lambda x: x.bernoulli_(x[:2]),
    lambda x: x.bernoulli_(x.expand(2, 3)),
    lambda x: x.bernoulli_(x.long()),
    lambda x: torch.bernoulli(x.long()),
    lambda x: x.random_(3, 3),
    lambda x: x.half().random_(0, 100_000),
    lambda x: x.to(torch.uint8).random_(0, 300),
    lambda x: torch.randperm(-1, device=x.device),
    lambda x: torch.randperm(300, dtype=torch.uint8, device=x.device),
    lambda x: torch.randperm(3000, dtype=torch.float16, device=x.device),
    lambda x: torch.multinomial(x, 1, out=torch.empty(0, device=x.device)),
    lambda x: torch.multinomial(x * 0, 1),
    lambda x: torch.native_dropout(x, -0.5, True),
    lambda x: torch.native_dropout(x, 1.5, True),
    lambda x: torch.native_dropout(x, NAN, True),
    lambda x: torch.native_dropout(x.long(), 0.5, True),
    lambda x: torch.native_dropout(x.to(torch.float8_e4m3fn), 0.5, True),
    lambda x: functional.dropout(x, 1.5),
]


@pytest.mark.parametrize("call", REFUSED)
def test_errors_are_those_of_the_cpu(call: Callable[[torch.Tensor], object]) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        call(torch.ones(3))
    compare_refusals(call, torch.ones(3))
