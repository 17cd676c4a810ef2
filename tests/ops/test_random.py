"""Random numbers: distributions, dtypes, layouts, generators and offsets, errors."""

import threading
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
DTYPES = [torch.bool, *INTEGERS, *UNSIGNED, *FLOATS, torch.complex64, torch.complex32, torch.float8_e4m3fn]
COUNT = 50_000

Fill = Callable[[torch.Tensor], torch.Tensor]
FILLS: dict[str, Fill] = {
    "uniform": lambda tensor: tensor.uniform_(-1, 3),
    "normal": lambda tensor: tensor.normal_(2, 0.5),
    "log_normal": lambda tensor: tensor.log_normal_(0, 0.25),
    "exponential": lambda tensor: tensor.exponential_(0.5),
    "cauchy": lambda tensor: tensor.cauchy_(1, 2),
    "geometric": lambda tensor: tensor.geometric_(0.5),
    "bernoulli": lambda tensor: tensor.bernoulli_(0.3),
    "bernoulli_tensor": lambda tensor: tensor.bernoulli_(torch.full_like(tensor, 0.3, dtype=torch.float32)),
    "random": lambda tensor: tensor.random_(),
    "random_to": lambda tensor: tensor.random_(2),
    "random_from_to": lambda tensor: tensor.random_(0, 2),
    "randperm": lambda tensor: torch.randperm(5, out=tensor.resize_(5)),
}

pytestmark = pytest.mark.usefixtures("strict")


def empty(dtype: torch.dtype = torch.float32, count: int = COUNT) -> torch.Tensor:
    """Return a device tensor to be filled."""
    return torch.empty(count, dtype=dtype, device="rustdev")


def moments(values: torch.Tensor) -> tuple[float, float]:
    """Return mean and standard deviation."""
    host = values.detach().cpu().double()
    return host.mean().item(), host.std().item()


def distance(left: torch.Tensor, right: torch.Tensor) -> float:
    """Return the Kolmogorov-Smirnov statistic of two samples: the greatest distance of their distributions."""
    positions = torch.cat([left, right]).unique()
    shares = [torch.searchsorted(sample.sort().values, positions, right=True) / sample.numel() for sample in (left, right)]
    return (shares[0] - shares[1]).abs().max().item()


def outcome(call: Callable[[], object]) -> type[Exception] | None:
    """Return the type of the exception that a call and the end of its work raise, if any."""
    try:
        call()
        torch.rustdev.synchronize()
    except (RuntimeError, TypeError, ValueError) as error:
        return type(error)
    return None


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", [name for name in FILLS if name != "randperm"])
def test_the_distribution_is_that_of_the_cpu(name: str, dtype: torch.dtype) -> None:
    fill = FILLS[name]
    mine, theirs = fill(empty(dtype)).cpu().double(), fill(torch.empty(COUNT, dtype=dtype)).double()
    # One in a thousand such samples of one distribution are further apart.
    assert distance(mine, theirs) < 1.95 * (2 / COUNT) ** 0.5


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("name", "mean", "std"),
    [
        ("uniform", 1.0, 4 / 12**0.5),
        ("normal", 2.0, 0.5),
        ("exponential", 2.0, 2.0),
        ("log_normal", 1.0317, 0.2621),
        ("bernoulli", 0.3, 0.21**0.5),
        ("bernoulli_tensor", 0.3, 0.21**0.5),
        ("geometric", 2.0, 2**0.5),
    ],
)
def test_moments(name: str, mean: float, std: float, dtype: torch.dtype) -> None:
    assert moments(FILLS[name](empty(dtype))) == pytest.approx((mean, std), abs=0.03)


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *FLOATS], ids=str)
def test_whole_numbers(dtype: torch.dtype) -> None:
    values = empty(dtype).random_().cpu().double()
    limits = {torch.bool: 1, torch.float16: 2**11, torch.bfloat16: 2**8, torch.float32: 2**24, torch.float64: 2**53}
    limit = limits.get(dtype) or torch.iinfo(dtype).max
    assert values.min() >= 0
    assert limit * 0.98 - 1 < values.max() <= limit
    assert values.mean().item() == pytest.approx(limit / 2, rel=0.03)


@pytest.mark.parametrize("dtype", [*INTEGERS, *UNSIGNED, *FLOATS], ids=str)
def test_whole_numbers_between_limits(dtype: torch.dtype) -> None:
    values = empty(dtype).random_(3, 9).cpu().long()
    assert values.bincount(minlength=9)[3:].sub(COUNT / 6).abs().max() < COUNT / 6 * 0.06
    assert (values.min(), values.max()) == (3, 8)
    assert empty(dtype).random_(5).cpu().long().unique().tolist() == list(range(5))


def test_the_whole_range_of_64_bits() -> None:
    values = empty(torch.int64).random_(-(2**63), None).cpu().double()
    assert values.min() < -9.2e18
    assert values.max() > 9.2e18
    assert abs(values.mean().item()) < 1e17


def test_uniform_never_reaches_its_end() -> None:
    for dtype in FLOATS:
        assert empty(dtype, 1 << 20).uniform_(1, 2).max() < 2


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FILLS)
def test_dtypes_are_those_of_the_cpu(name: str, dtype: torch.dtype) -> None:
    expected = outcome(lambda: FILLS[name](torch.empty(3, dtype=dtype)))
    assert outcome(lambda: FILLS[name](empty(dtype, 3))) is expected
    nothing = outcome(lambda: FILLS[name](torch.empty(0, dtype=dtype)))
    assert outcome(lambda: FILLS[name](empty(dtype, 0))) is nothing


def test_factories_and_functions() -> None:
    assert moments(torch.randn(COUNT, device="rustdev")) == pytest.approx((0, 1), abs=0.02)
    assert moments(torch.rand(COUNT, device="rustdev")) == pytest.approx((0.5, 12**-0.5), abs=0.02)
    assert torch.randint(0, 7, (COUNT,), device="rustdev").cpu().bincount().min() > COUNT / 7 * 0.9
    like = empty(torch.bfloat16)
    assert moments(torch.randn_like(like)) == pytest.approx((0, 1), abs=0.02)
    assert moments(torch.rand_like(like)) == pytest.approx((0.5, 12**-0.5), abs=0.02)
    assert torch.randint_like(like, 3, 7).cpu().unique().tolist() == [3, 4, 5, 6]
    probability = torch.full((COUNT,), 0.3, device="rustdev")
    assert moments(torch.bernoulli(probability)) == pytest.approx((0.3, 0.458), abs=0.02)
    assert moments(torch.bernoulli(probability, 0.6)) == pytest.approx((0.6, 0.49), abs=0.02)
    assert torch.bernoulli(probability, out=empty(torch.bool, 0)).shape == (COUNT,)


def test_normal_with_tensors() -> None:
    mean, std = torch.full((COUNT,), 3.0, device="rustdev"), torch.full((2, COUNT), 2.0, device="rustdev")
    assert moments(torch.normal(mean, 2.0)) == pytest.approx((3, 2), abs=0.05)
    assert moments(torch.normal(3.0, std)) == pytest.approx((3, 2), abs=0.05)
    assert moments(torch.normal(mean, std)) == pytest.approx((3, 2), abs=0.05)
    assert moments(torch.normal(mean, std, out=empty(count=0))) == pytest.approx((3, 2), abs=0.05)
    assert moments(torch.normal(3.0, 2.0, (COUNT,), device="rustdev")) == pytest.approx((3, 2), abs=0.05)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_numbers(dtype: torch.dtype) -> None:
    values = torch.view_as_real(torch.randn(COUNT, dtype=dtype, device="rustdev"))
    assert moments(values) == pytest.approx((0, 0.5**0.5), abs=0.02)
    values = torch.view_as_real(torch.rand(COUNT, dtype=dtype, device="rustdev"))
    assert moments(values) == pytest.approx((0.5, 12**-0.5), abs=0.02)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float16, torch.float64], ids=str)
def test_permutations(dtype: torch.dtype) -> None:
    count = 250 if dtype is torch.uint8 else 2000
    values = torch.randperm(count, dtype=dtype, device="rustdev").cpu().long()
    assert (values != torch.arange(count)).double().mean() > 0.95
    assert torch.equal(values.sort().values, torch.arange(count))
    out = torch.zeros(2 * count, dtype=dtype, device="rustdev")
    torch.randperm(count, out=out[::2])
    assert torch.equal(out[::2].cpu().long().sort().values, torch.arange(count))
    assert not out[1::2].cpu().any()
    assert torch.randperm(0, device="rustdev").shape == (0,)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_multinomial(dtype: torch.dtype) -> None:
    p = torch.tensor([[0.0, 1, 2, 1], [3, 0, 0, 1]], dtype=dtype, device="rustdev").repeat(10_000, 1)
    for replacement in (False, True):
        drawn = torch.multinomial(p, 1, replacement).cpu()
        assert drawn.shape == (20_000, 1)
        for row, weights in enumerate(([0, 0.25, 0.5, 0.25], [0.75, 0, 0, 0.25])):
            shares = drawn[row::2, 0].bincount(minlength=4) / 10_000
            torch.testing.assert_close(shares, torch.tensor(weights), atol=0.02, rtol=0)
            assert (shares[torch.tensor(weights) == 0] == 0).all()
    torch.multinomial(p[0], 1, out=torch.empty(0, dtype=torch.int64, device="rustdev"))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_multinomial_of_several_samples(dtype: torch.dtype) -> None:
    p = torch.tensor([[0.0, 1, 2, 1, 0], [3, 0, 0, 1, 0]], dtype=dtype, device="rustdev")
    assert torch.multinomial(p[0], 3).cpu().sort().values.tolist() == [1, 2, 3]
    drawn = torch.multinomial(p, 50_000, replacement=True)
    assert drawn.dtype == torch.int64
    for row, weights in zip(drawn.cpu(), ([0, 0.25, 0.5, 0.25, 0], [0.75, 0, 0, 0.25, 0]), strict=True):
        shares = row.bincount(minlength=5) / 50_000
        torch.testing.assert_close(shares, torch.tensor(weights), atol=0.01, rtol=0)
        assert (shares[torch.tensor(weights) == 0] == 0).all()
    strided = torch.zeros(2, 40, dtype=torch.int64, device="rustdev")
    torch.multinomial(p, 20, replacement=True, out=strided[:, ::2])
    assert strided[0, ::2].min() > 0
    assert not strided[:, 1::2].any()


@pytest.mark.parametrize("weights", [[1.0, -1.0], [0.0, 0.0], [1.0, float("nan")], [1.0, float("inf")]])
def test_multinomial_of_what_is_no_distribution(weights: list[float]) -> None:
    assert (
        outcome(lambda: torch.multinomial(torch.tensor(weights, device="rustdev"), 3, replacement=True)) is torch.AcceleratorError
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("rate", [0.0, 0.4, 6.0, 30.0, 150.0])
def test_poisson(rate: float, dtype: torch.dtype) -> None:
    rates = torch.full((COUNT,), rate, dtype=dtype)
    mine, theirs = torch.poisson(rates.to("rustdev")), torch.poisson(rates)
    assert mine.dtype == dtype
    assert distance(mine.cpu().double(), theirs.double()) < 1.95 * (2 / COUNT) ** 0.5
    rate = rates[0].item()
    assert moments(mine) == pytest.approx((rate, rate**0.5), rel=0.02, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("trials", "p"), [(0.0, 0.5), (10.0, 0.3), (10.0, 0.9), (60.0, 0.5), (1000.0, 0.7), (5.0, 1.0), (5.0, 0.0)]
)
def test_binomial(trials: float, p: float, dtype: torch.dtype) -> None:
    count, share = torch.full((COUNT,), trials, dtype=dtype), torch.tensor(p, dtype=dtype).expand(COUNT)
    mine, theirs = torch.binomial(count.to("rustdev"), share.to("rustdev")), torch.binomial(count, share.contiguous())
    assert mine.dtype == dtype
    assert distance(mine.cpu().double(), theirs.double()) < 1.95 * (2 / COUNT) ** 0.5
    assert moments(mine) == pytest.approx((trials * p, (trials * p * (1 - p)) ** 0.5), rel=0.02, abs=1e-6)


def test_counts_of_other_kinds() -> None:
    for call in (torch.poisson, lambda x: torch.binomial(x, x)):
        for dtype in (torch.int64, torch.float16, torch.bool):
            expected = outcome(lambda call=call, dtype=dtype: call(torch.ones(3, dtype=dtype)))
            assert outcome(lambda call=call, dtype=dtype: call(torch.ones(3, dtype=dtype, device="rustdev"))) is expected
        assert call(torch.ones(0, device="rustdev")).shape == (0,)
        assert call(torch.ones(5, 4, device="rustdev").t()).shape == (4, 5)
    assert outcome(lambda: torch.poisson(-torch.ones(3, device="rustdev"))) is torch.AcceleratorError
    one, nan = torch.ones(2, device="rustdev"), torch.full((2,), float("nan"), device="rustdev")
    assert torch.binomial(one, nan).isnan().all()
    assert torch.binomial(nan, one / 2).isnan().all()


DRAWS: list[Callable[[torch.Generator | None], torch.Tensor]] = [
    lambda generator: empty().uniform_(generator=generator),
    lambda generator: empty().normal_(generator=generator),
    lambda generator: empty().exponential_(generator=generator),
    lambda generator: empty().log_normal_(generator=generator),
    lambda generator: empty().cauchy_(generator=generator),
    lambda generator: empty().geometric_(0.1, generator=generator),
    lambda generator: empty(torch.int64).random_(generator=generator),
    lambda generator: empty().bernoulli_(0.5, generator=generator),
    lambda generator: torch.bernoulli(torch.full((COUNT,), 0.5, device="rustdev"), generator=generator),
    lambda generator: torch.randperm(1000, generator=generator, device="rustdev"),
    lambda generator: torch.multinomial(torch.ones(1000, 50, device="rustdev"), 1, generator=generator),
    lambda generator: torch.multinomial(torch.ones(3, 50, device="rustdev"), 40_000, True, generator=generator),
    lambda generator: torch.poisson(torch.full((COUNT,), 20.0, device="rustdev"), generator=generator),
    lambda generator: torch.binomial(
        torch.full((COUNT,), 50.0, device="rustdev"), torch.full((COUNT,), 0.4, device="rustdev"), generator
    ),
    lambda generator: torch.randn(COUNT, generator=generator, device="rustdev"),
    lambda generator: torch.randint(9, (COUNT,), generator=generator, device="rustdev"),
]


@pytest.mark.parametrize("draw", DRAWS)
def test_seeds_states_and_generators(draw: Callable[[torch.Generator | None], torch.Tensor]) -> None:
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
    with pytest.raises(RuntimeError, match="Expected a 'rustdev' device type for generator but found 'cpu'"):
        draw(torch.Generator())
    with pytest.raises(RuntimeError, match="generator"):
        draw(torch.Generator("rustdev:1"))


@pytest.mark.parametrize("draw", DRAWS)
def test_threads_do_not_change_the_values(draw: Callable[[torch.Generator | None], torch.Tensor]) -> None:
    before, found = torch.rustdev.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.rustdev.set_num_threads(threads)
            torch.rustdev.manual_seed(1)
            found.append(draw(None).cpu())
    finally:
        torch.rustdev.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_every_call_takes_four_numbers() -> None:
    generator = torch.rustdev.default_generators[0].manual_seed(5)
    x = torch.ones(COUNT, device="rustdev")
    calls: list[tuple[Callable[[], object], int]] = [
        (lambda: empty(count=1).normal_(), 4),
        (lambda: empty(count=1 << 20).normal_(), 4),
        (lambda: empty(torch.complex64).uniform_(), 4),
        (lambda: torch.normal(x, x), 4),
        (lambda: torch.randperm(10, device="rustdev"), 4),
        (lambda: functional.dropout(x, 0.5), 4),
        (lambda: functional.dropout(x, 0.5, training=False), 0),
        (lambda: empty(count=0).normal_(), 0),
    ]
    for call, taken in calls:
        before = generator.get_offset()
        call()
        assert generator.get_offset() - before == taken


def test_the_offset_is_taken_when_the_operator_is_called() -> None:
    torch.rustdev.manual_seed(3)
    expected = empty().normal_().cpu()
    go = threading.Event()
    torch.rustdev.launch_host_func(go.wait)
    torch.rustdev.manual_seed(3)
    tensor = empty().normal_()
    assert torch.rustdev.default_generators[0].get_offset() == 4
    torch.rustdev.manual_seed(4)
    go.set()
    assert torch.equal(tensor.cpu(), expected)


@pytest.mark.parametrize("name", [name for name in FILLS if name != "randperm"])
def test_layouts_are_filled(name: str) -> None:
    whole = torch.full((60, 80, 6), -7.0, device="rustdev")
    for view in (whole[::2, 1::3], whole.permute(2, 0, 1)[::3]):
        whole.fill_(-7)
        FILLS[name](view)
        filled = view.cpu()
        assert (filled != -7).all()
        assert (whole.cpu() != -7).sum() == filled.numel()
        # Sampled with the strides of a dense tensor, the distribution is the same.
        if name != "cauchy":
            assert moments(filled) == pytest.approx(moments(FILLS[name](empty())), rel=0.15, abs=0.1)
    assert FILLS[name](torch.empty((), device="rustdev")).shape == ()
    assert FILLS[name](empty(count=0)).shape == (0,)
    with pytest.raises(RuntimeError, match="single memory location"):
        FILLS[name](empty(count=1).expand(20))


def test_probabilities_of_their_own() -> None:
    p = torch.tensor([0.0, 0.25, 1.0])
    for given in (p, p.to("rustdev"), p.to("rustdev", torch.float64), p.to("rustdev", torch.bfloat16)):
        values = torch.empty(COUNT, 3, device="rustdev").bernoulli_(given)
        torch.testing.assert_close(values.cpu().mean(0), p, atol=0.01, rtol=0)
    values = torch.full((COUNT,), 0.25, device="rustdev")
    assert moments(values.bernoulli_(values))[0] == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("wrong", [-0.5, 1.5, float("nan")])
def test_a_tensor_of_wrong_probabilities_fails_when_it_is_waited_for(wrong: float) -> None:
    torch.bernoulli(torch.tensor([0.5, wrong], device="rustdev"))
    with pytest.raises(torch.AcceleratorError, match=r"expects p to be in \[0, 1\]"):
        torch.rustdev.synchronize()


CALLS: list[Callable[[torch.Tensor], object]] = [
    lambda x: x.normal_(0, -1),
    lambda x: torch.normal(x, -1.0),
    lambda x: torch.normal(x, -x),
    lambda x: torch.normal(0.0, x.long()),
    lambda x: torch.normal(x, x.to(torch.complex64)),
    lambda x: torch.normal(x, x[:2]),
    lambda x: x.uniform_(2, 1),
    lambda x: x.half().uniform_(0, 1e6),
    lambda x: x.bernoulli_(1.5),
    lambda x: x.bernoulli_(x[:2]),
    lambda x: x.bernoulli_(x.expand(2, 3)),
    lambda x: x.bernoulli_(x.long()),
    lambda x: torch.bernoulli(x.long()),
    lambda x: x.exponential_(0),
    lambda x: x.log_normal_(0, 0),
    lambda x: x.geometric_(1.0),
    lambda x: x.cauchy_(0, 0),
    lambda x: x.random_(3, 3),
    lambda x: x.half().random_(0, 100_000),
    lambda x: x.to(torch.uint8).random_(0, 300),
    lambda x: torch.randperm(-1, device=x.device),
    lambda x: torch.randperm(300, dtype=torch.uint8, device=x.device),
    lambda x: torch.randperm(3000, dtype=torch.float16, device=x.device),
    lambda x: torch.multinomial(x, 4),
    lambda x: torch.multinomial(x, 0),
    lambda x: torch.multinomial(-x, 1),
    lambda x: torch.multinomial(x * 0, 1),
    lambda x: torch.multinomial(x.long(), 1),
    lambda x: torch.multinomial(x, 1, out=torch.empty(0, device=x.device)),
    lambda x: torch.native_dropout(x, 1.5, True),
    lambda x: torch.native_dropout(x, -0.5, True),
    lambda x: torch.native_dropout(x, float("nan"), True),
    lambda x: torch.native_dropout(x.long(), 0.5, True),
    lambda x: torch.native_dropout(x.to(torch.float8_e4m3fn), 0.5, True),
    lambda x: functional.dropout(x, 1.5),
]


@pytest.mark.parametrize("call", CALLS)
def test_errors_are_those_of_the_cpu(call: Callable[[torch.Tensor], object]) -> None:
    expected = outcome(lambda: call(torch.ones(3)))
    assert expected is not None
    assert outcome(lambda: call(torch.ones(3, device="rustdev"))) is expected
