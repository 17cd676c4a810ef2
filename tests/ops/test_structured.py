"""Pointwise operators against the CPU: dtypes, promotion, broadcasting, strides, in-place, out=, numbers, large results, errors."""

import functools
import itertools
import operator
from collections.abc import Callable

import pytest
import torch
from comparison import (
    EVERY,
    TOLERANCE,
    compare,
    compare_errors,
    compare_outcomes,
    copied,
    make_tensor,
)
from torch.nn import functional

Call = Callable[..., torch.Tensor]
BINARY = ["add", "sub", "mul", "div", "maximum", "eq", "lt", "gt"]
UNARY = ["neg", "exp", "relu"]
INPLACE = ["add", "sub", "mul", "div", "neg", "exp", "relu", "eq"]
aten = torch.ops.aten

close = functools.partial(compare, rtol=TOLERANCE)

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("sizes", [((3,), (3,)), ((3,), ()), ((), ())], ids=str)
def test_promotion_of_every_pair_of_dtypes(sizes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    torch.rustdev.set_fallback_mode("allow")

    def added(left: torch.Tensor, right: torch.Tensor) -> torch.dtype | str:
        try:
            return torch.add(left, right).dtype
        except RuntimeError as error:
            return str(error)

    others = [torch.uint16, torch.uint64, torch.complex32, torch.float8_e5m2]
    for left, right in itertools.product([*EVERY, *others], repeat=2):
        hosts = [torch.ones(shape).to(dtype) for shape, dtype in zip(sizes, (left, right), strict=True)]
        expected = added(*hosts)
        # The CPU lacks sums of some dtypes.
        if "not implemented" not in str(expected):
            assert added(*copied(hosts)) == expected, (left, right)


@pytest.mark.parametrize(
    "operands",
    [
        [((2, 3), (3, 1)), ((2, 3), (1, 2))],
        [((2, 3), (1, 2)), ((2, 3), (3, 1))],
        [((2, 3, 4, 5), (60, 1, 15, 3)), ((2, 3, 4, 5), (60, 1, 15, 3))],
        [((2, 3, 4, 5), (60, 1, 15, 3)), ((3, 1, 1), (1, 1, 1))],
        [((2, 3, 4, 5), (60, 1, 15, 3)), ((2, 3, 4, 5), (60, 20, 5, 1))],
        [((3, 1), (1, 9))],
        [((1, 3), (9, 1))],
        [((2, 3), (1, 4))],
        [((3,), (1,)), ((2, 1), (1, 1))],
        [((4, 1, 3), (3, 3, 1)), ((1, 5, 1), (1, 1, 1))],
        [((2, 3, 4), (1, 2, 6)), ((4,), (1,))],
        [((2, 3, 4), (24, 2, 6))],
        [((2, 3, 4), (0, 4, 1)), ((2, 3, 4), (1, 2, 6))],
        [((1, 1, 4, 5), (20, 1, 5, 1)), ((1, 1, 4, 5), (20, 20, 5, 1))],
        [((), ()), ((2, 3), (1, 2))],
        [((1, 3, 1), (1, 5, 7))],
        [((2, 3), (0, 0)), ((2, 3), (1, 2))],
    ],
    ids=str,
)
def test_results_lie_as_the_operands_do(operands: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    hosts = [torch.arange(400.0).as_strided(*operand) for operand in operands]
    close(torch.sgn if len(hosts) == 1 else torch.maximum, *hosts)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_numbers(name: str, dtype: torch.dtype) -> None:
    function, host = getattr(torch, name), make_tensor((3, 4), dtype)
    # Tensors without dimensions are numbers; of the host, too.
    for number in (2, 1.5, True, torch.tensor(3), torch.tensor(2.5, dtype=torch.float64), torch.tensor([2.5])[0]):
        compare_outcomes(function, host, number, rtol=TOLERANCE)
        compare_outcomes(lambda tensor, number=number: function(tensor, number), host.t(), rtol=TOLERANCE)
    if name in ("add", "mul", "sub", "div"):
        close(getattr(operator, name if name != "div" else "truediv"), 2, host.t())
    close(lambda tensor: torch.add(torch.tensor(2.5, dtype=torch.float64), tensor), host)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("number", [torch.tensor(1 / 3), torch.tensor(1 / 3, dtype=torch.float64), torch.tensor([3.3])])
def test_a_number_on_the_device_has_the_precision_that_it_has_on_the_cpu(dtype: torch.dtype, number: torch.Tensor) -> None:
    tensor, given = make_tensor((3000,), dtype), number if number.dim() == 0 else number.to(dtype)
    for call in (operator.mul, operator.truediv, operator.add, operator.sub, operator.gt, operator.eq):
        compare(call, tensor, given)
        compare(call, tensor[::2], given)


def test_numbers_in_host_memory_are_read_at_the_call() -> None:
    device, strided = torch.ones(3, device="rustdev"), torch.ones(2, 3, device="rustdev").t()
    number = torch.tensor(2.0)
    torch.rustdev._sleep(50_000_000)
    results = [device * number, strided * number, device.clone().mul_(number)]
    number.fill_(3)
    assert all(result.cpu().eq(2).all() for result in results)


LARGE = 2**53 + 1


@pytest.mark.parametrize("call", [lambda x: x + LARGE, lambda x: torch.add(x, x, alpha=LARGE), lambda x: x == LARGE])
def test_large_integers_stay_exact(call: Call) -> None:
    compare(call, torch.tensor([1, -1, LARGE]))


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000, 5000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.uint8])
def test_inplace_over_blocks_of_every_length(dtype: torch.dtype, count: int) -> None:
    """Results may only be written where no later element of the same loop is still to be read."""
    host = (make_tensor((count,), torch.float32) * 50).to(dtype)
    calls = [lambda t: t.add_(t), lambda t: t.mul_(2), lambda t: torch.maximum(t.flip(0), t, out=t)]
    if dtype.is_floating_point:
        # Sines of large arguments take the slow path, block by block.
        calls += [torch.neg_, lambda t: t.mul_(1.5), torch.sin_, torch.sigmoid_, lambda t: t.clamp_(0.6, 0.7), torch.exp_]
    for call in calls:
        close(call, host, atol=TOLERANCE | {torch.bfloat16: 1e-5})
        call(host)


@pytest.mark.parametrize("name", [*BINARY, "neg", "exp"])
def test_out(name: str) -> None:
    function = getattr(torch, name)
    inputs = [make_tensor((4, 3), torch.float32, seed=seed) for seed in range(1 if name in UNARY else 2)]
    dtype = function(*inputs).dtype
    outs = [torch.zeros(4, 3, dtype=dtype), torch.zeros(3, 8, dtype=dtype).t()[::2], torch.empty(0, dtype=dtype)]
    for out in (*outs, torch.empty(4, 3, dtype=torch.float64)):
        compare_outcomes(lambda *given: function(*given[:-1], out=given[-1]), *inputs, out, rtol=1e-6)
    with pytest.warns(UserWarning, match="was resized"):
        function(*copied(inputs), out=torch.empty(2, dtype=dtype, device="rustdev"))


def test_out_that_is_resized_gets_the_strides_of_the_result() -> None:
    transposed, channels = make_tensor((4, 3), torch.float32).t(), make_tensor((2, 3, 4, 5), torch.float32)
    for host in (transposed, channels.to(memory_format=torch.channels_last)):
        assert host.to("rustdev").stride() == host.stride()
        compare(lambda tensor, out: torch.add(tensor, tensor, out=out), host, torch.empty(0))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 2,
        lambda x: 2 - x,
        lambda x: x < 0.5,
        lambda x: torch.where(x > 0, x, 1.0),
        lambda x: x + torch.tensor(2.0),
        lambda x: x + x,
        torch.neg,
    ],
)
def test_dimensions_of_one_element_keep_their_strides_beside_numbers(function: Call) -> None:
    memory = torch.arange(24.0)
    for sizes, strides in (((1, 3), (1, 1)), ((3, 1), (1, 3)), ((1, 2, 3), (1, 3, 1)), ((3, 2, 1), (2, 1, 7)), ((1,), (5,))):
        close(function, memory.as_strided(sizes, strides))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.add(x, 1, out=x.t()),
        lambda x: torch.exp(x, out=x.t()),
        lambda x: torch.clamp(x, 0, 1, out=x.t()),
        lambda x: x.t().add_(x),
    ],
)
def test_a_transposed_view_of_an_input_is_refused_as_output(call: Call) -> None:
    compare_errors(call, torch.arange(16.0).view(4, 4))


#: Of ones (3, 4) on a device.
REFUSED: dict[str, Call] = {
    "sizes": lambda x: x + x[:, :1].expand(3, 5),
    "out of a lesser kind": lambda x: torch.add(x, x, out=x.int()),
    "in place of a lesser kind": lambda x: x.long().add_(1.5),
    "in place of fewer elements": lambda x: x[0].add_(x),
    "bool": lambda x: x.bool() - x.bool(),
    "a fraction of integers": lambda x: torch.add(x.int(), x.int(), alpha=1.5),
    "memory an element further": lambda x: x.view(12)[1:].add_(x.view(12)[:-1]),
    "memory across": lambda x: x.view(12)[1:5].view(2, 2).add_(x.view(12)[:4].view(2, 2).t()),
    "expanded": lambda x: x[:1, :1].expand(3, 4).add_(1),
    "a limit of bool": lambda x: functional.hardtanh(x.bool()),
    "complex of two dtypes": lambda x: torch.complex(x, x.double()),
    "complex of integers": lambda x: torch.complex(x.long(), x),
    "complex into real": lambda x: torch.complex(x, x, out=x.clone()),
    "polar of two dtypes": lambda x: torch.polar(x, x.double()),
    "polar of integers": lambda x: torch.polar(x.long(), x),
    "polar into real": lambda x: torch.polar(x, x, out=x.clone()),
    "logit of complex": lambda x: torch.logit(x.cfloat()),
    "logit_ of integers": lambda x: x.long().logit_(),
    "mm into another dtype": lambda x: torch.mm(x, x.t(), out=x.new_empty(3, 3).double()),
    "addmm_ of other sizes": lambda x: x[0].addmm_(x.t(), x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_are_pytorchs(name: str) -> None:
    torch.rustdev.set_fallback_mode("allow" if "logit" in name else "error")
    compare_errors(REFUSED[name], torch.ones(3, 4))


#: Elements of 4 bytes that take 32 MiB, from which results are stored non-temporally, and some more: no whole number of blocks.
COUNT = (8 << 20) + 77
OF_LARGE: dict[str, Call] = {
    "neg": torch.neg,
    "add": lambda tensor: tensor + tensor,
    "eq": lambda tensor: tensor.view(torch.uint8) == 1,
    "neg_": torch.neg_,
    "clone": torch.clone,
    "full": lambda tensor: torch.full_like(tensor, 3),
    "zeros": torch.zeros_like,
    "add of 16 bits": lambda tensor: tensor.view(torch.bfloat16) + tensor.view(torch.bfloat16),
}


@pytest.mark.parametrize("name", OF_LARGE)
def test_a_large_result_is_the_cpus(name: str) -> None:
    host = (torch.arange(COUNT, dtype=torch.int32) % 251).float()
    assert torch.equal(OF_LARGE[name](host.to("rustdev")).cpu(), OF_LARGE[name](host))


@pytest.mark.parametrize("first", [1, 4])
def test_nothing_beside_a_large_result_is_written(first: int) -> None:
    memory = torch.full((COUNT + 16,), 7.0, device="rustdev")
    part = memory[first : first + COUNT]
    part.fill_(1)
    torch.neg(torch.ones(COUNT, device="rustdev"), out=part)
    part.copy_(part + part)
    expected = torch.full((COUNT + 16,), 7.0)
    expected[first : first + COUNT] = -2
    assert torch.equal(memory.cpu(), expected)


@pytest.mark.parametrize("dtype", EVERY, ids=str)
@pytest.mark.parametrize("name", [*BINARY, "where"])
def test_operands_of_two_dtypes(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name) if name != "where" else lambda x, y: torch.where(y != 0, x, y)
    left = make_tensor((6, 40), dtype)
    for other in (torch.bool, torch.int64, torch.bfloat16, torch.float64):
        right = make_tensor((6, 80), other, seed=1)
        for given in ((left, right[:, ::2]), (right[:, ::2], left), (left.t(), right[:, 40:].t()), (left, right[:1, :40])):
            compare_outcomes(function, *given, rtol=TOLERANCE)
