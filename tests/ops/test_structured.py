"""Operators with a Rust kernel against the CPU: dtypes, promotion, broadcasting, strides, in-place, out=, numbers, errors."""

import functools
import itertools
import operator
from collections.abc import Callable

import pytest
import torch
from comparison import TOLERANCE, assert_same, compare, compare_errors, compare_gradients, copied, make_tensor

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
NUMBERS = INTEGERS + FLOATS + COMPLEX
EVERY = [torch.bool, *NUMBERS]

BINARY: dict[str, list[torch.dtype]] = {
    "add": EVERY,
    "sub": NUMBERS,
    "mul": EVERY,
    "div": EVERY,
    "maximum": [torch.bool, *INTEGERS, *FLOATS],
    "eq": EVERY,
    "lt": [torch.bool, *INTEGERS, *FLOATS],
    "gt": [torch.bool, *INTEGERS, *FLOATS],
}
UNARY: dict[str, list[torch.dtype]] = {
    "neg": NUMBERS,
    "exp": EVERY,
    "relu": INTEGERS + FLOATS,
}
INPLACE = ["add", "sub", "mul", "div", "neg", "exp", "relu", "eq"]

#: Of pointwise operators, and of reductions and products, whose sums are in another order.
close = functools.partial(compare, rtol=TOLERANCE)
summed = functools.partial(compare, rtol=TOLERANCE | {torch.float32: 1e-5, torch.complex64: 1e-5})

pytestmark = pytest.mark.usefixtures("strict")


def cases(table: dict[str, list[torch.dtype]]) -> pytest.MarkDecorator:
    """Parametrise over the operators of a table and their dtypes."""
    pairs = [(name, dtype) for name, dtypes in table.items() for dtype in dtypes]
    return pytest.mark.parametrize(("name", "dtype"), pairs, ids=lambda value: str(value).removeprefix("torch."))


@cases(BINARY)
def test_binary(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    same_size = (((3, 4), (3, 4)), ((5000,), (5000,)))
    for shapes in (*same_size, ((3, 1), (1, 4)), ((3, 1), (1, 3)), ((4,), (2, 3, 4)), ((0, 4), (4,)), ((), (3,))):
        left, right = make_tensor(shapes[0], dtype), make_tensor(shapes[1], dtype, seed=1)
        close(function, left, right)
    left, right = make_tensor((6, 8), dtype), make_tensor((8, 6), dtype, seed=1)
    close(function, left.t(), right)
    close(function, left, right.t())
    close(function, left[::2, 1::3], right[:3, :3])


@cases(UNARY)
def test_unary(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    for shape in ((3, 4), (0,), (), (1,), (5000,)):
        close(function, make_tensor(shape, dtype))
    host = make_tensor((6, 8), dtype)
    close(function, host.t())
    close(function, host[::2, 1::3])


@pytest.mark.parametrize("name", BINARY)
def test_promotion(name: str) -> None:
    function = getattr(torch, name)
    for left in (torch.int32, torch.uint8, torch.float16, torch.float32):
        for right in (torch.bool, torch.int64, torch.bfloat16, torch.float64):
            if name == "sub" and right == torch.bool:
                continue
            close(function, make_tensor((4, 3), left), make_tensor((4, 3), right, seed=1))


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


@pytest.mark.parametrize("name", [name for name in BINARY if name != "maximum"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_numbers(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    if dtype.is_complex and name in ("lt", "gt"):
        return
    host = make_tensor((3, 4), dtype)
    for number in (2, 1.5, True, torch.tensor(3), torch.tensor(2.5, dtype=torch.float64), torch.tensor([2.5])[0]):
        if name == "sub" and number is True:
            continue
        close(lambda tensor, number=number: function(tensor, number), host)
    close(function, host.t(), 2)
    if name in ("add", "mul", "sub", "div"):
        close(getattr(operator, name if name != "div" else "truediv"), 2, host.t())


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_wider_unsigned_integers_are_equal_or_not(dtype: torch.dtype) -> None:
    host = torch.tensor([[1, 2, 3], [40000, 5, 6]]).to(dtype)
    cases: list[Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor | int]]] = [
        lambda tensor: (tensor, tensor),
        lambda tensor: (tensor.t(), tensor.t()),
        lambda tensor: (tensor, tensor[:1]),
        lambda tensor: (tensor[:, ::2], 40000),
    ]
    for case in cases:
        for function in (torch.eq, torch.ne):
            close(lambda tensor, case=case, function=function: function(*case(tensor)), host)
    assert torch.equal(host.to("rustdev").t(), host.to("rustdev").t())


def test_a_zero_dim_tensor_of_the_device_does_not_promote() -> None:
    host, scalar = make_tensor((3,), torch.float32), torch.tensor(2.5, dtype=torch.float64)
    close(torch.add, host, scalar)
    close(lambda tensor: torch.add(scalar, tensor), host)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("number", [torch.tensor(1 / 3), torch.tensor(1 / 3, dtype=torch.float64), torch.tensor([3.3])])
def test_a_number_on_the_device_has_the_precision_that_it_has_on_the_cpu(dtype: torch.dtype, number: torch.Tensor) -> None:
    tensor = make_tensor((3000,), dtype)
    for call in (operator.mul, operator.truediv, operator.add, operator.sub, operator.gt, operator.eq):
        given = number if number.dim() == 0 else number.to(dtype)
        compare(call, tensor, given)
        compare(call, tensor[::2], given)


def test_numbers_in_host_memory_are_read_at_the_call() -> None:
    device, strided = torch.ones(3, device="rustdev"), torch.ones(2, 3, device="rustdev").t()
    number = torch.tensor(2.0)
    torch.rustdev._sleep(50_000_000)
    results = [device * number, strided * number, device.clone().mul_(number)]
    number.fill_(3)
    assert all(result.cpu().eq(2).all() for result in results)


def test_large_integers_stay_exact() -> None:
    large = 2**53 + 1
    host = torch.tensor([1, -1, large])
    compare(lambda tensor: tensor + large, host)
    compare(lambda tensor: torch.add(tensor, tensor, alpha=large), host)
    compare(lambda tensor: tensor == large, host)
    compare(lambda tensor: tensor.fill_(large), host)


def test_nan_wins() -> None:
    nan = float("nan")
    left, right = torch.tensor([nan, 1.0, nan, 0.0]), torch.tensor([1.0, nan, nan, -0.0])
    for function in (torch.maximum, torch.minimum):
        # Which of two zeros is the greater one is nobody's promise.
        compare(function, left, right, signs=False)
    compare(torch.relu, left)


@pytest.mark.parametrize("name", INPLACE)
def test_inplace(name: str) -> None:
    host = make_tensor((4, 6), torch.float32)
    arguments = [] if name in UNARY else [make_tensor((6,), torch.float32, seed=1)]
    for view in (lambda t: t, lambda t: t[1:, ::2], lambda t: t.t()[:3]):
        here = view(host)
        # With the elements between those of the view.
        close(
            lambda t, *given, view=view: (getattr(view(t), f"{name}_")(*given), t),
            host,
            *(it[: here.shape[-1]] for it in arguments),
        )
    if arguments:
        close(getattr(torch.Tensor, f"{name}_"), host, 2)


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
    for out in (torch.zeros(4, 3, dtype=dtype), torch.zeros(3, 8, dtype=dtype).t()[::2], torch.empty(0, dtype=dtype)):
        close(lambda *given: function(*given[:-1], out=given[-1]), *inputs, out)
    with pytest.warns(UserWarning, match="was resized"):
        function(*copied(inputs), out=torch.empty(2, dtype=dtype, device="rustdev"))
    if name == "neg":
        return
    wide = torch.empty(4, 3, dtype=torch.float64, device="rustdev")
    assert_same(function(*copied(inputs), out=wide), function(*inputs).double(), rtol=1e-7)


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
def test_dimensions_of_one_element_keep_their_strides_beside_numbers(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
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
def test_a_transposed_view_of_an_input_is_refused_as_output(call: Callable[[torch.Tensor], torch.Tensor]) -> None:
    compare_errors(call, torch.arange(16.0).view(4, 4))


def test_out_of_another_dtype_is_refused_where_nothing_casts() -> None:
    device = torch.ones(3, 3, device="rustdev")
    wide = torch.empty(3, 3, dtype=torch.float64, device="rustdev")
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got double instead"):
        torch.mm(device, device, out=wide)
    with pytest.raises(RuntimeError, match="Bad in-place call: input tensor size"):
        torch.ones(3, device="rustdev").addmm_(device, device)


def test_alpha_and_rounding() -> None:
    left, right = make_tensor((40,), torch.float32), make_tensor((40,), torch.float32, seed=1)
    for alpha in (2, 0.5, -1):
        close(lambda one, other, alpha=alpha: torch.add(one, other, alpha=alpha), left, right)
        close(lambda one, other, alpha=alpha: torch.sub(one, other, alpha=alpha), left, right)
        close(lambda one, alpha=alpha: one.add(3, alpha=alpha), left)
    for dtype in (torch.float32, torch.int32, torch.uint8, torch.bfloat16):
        left, right = make_tensor((40,), dtype), make_tensor((40,), dtype, seed=1)
        right[right == 0] = 1
        for rounding in (None, "trunc", "floor"):
            close(lambda one, other, rounding=rounding: torch.div(one, other, rounding_mode=rounding), left, right)


def test_threshold_backward() -> None:
    for dtype in FLOATS:
        gradient, values = make_tensor((5, 7), dtype), make_tensor((5, 7), dtype, seed=1)
        for threshold in (0, 0.5):
            compare(torch.ops.aten.threshold_backward, gradient, values, threshold)
            compare(torch.ops.aten.threshold_backward, gradient.t(), values.t(), threshold)


@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_reductions(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    if name == "mean" and not (dtype.is_floating_point or dtype.is_complex):
        with pytest.raises(RuntimeError, match="could not infer output dtype"):
            function(make_tensor((3,), dtype).to("rustdev"))
        return
    hosts = [make_tensor((3, 4, 5), dtype), make_tensor((5, 4, 3), dtype).permute(2, 0, 1)]
    for host in (*hosts, make_tensor((4, 6), dtype)[::2, ::3], make_tensor((), dtype)):
        summed(function, host)
        for dim in range(host.dim()):
            summed(function, host, dim)
            summed(lambda tensor, dim=dim: function(tensor, dim - tensor.dim(), keepdim=True), host)
        if host.dim() == 3:
            summed(function, host, (0, 2))
            summed(lambda tensor: function(tensor, (2, 1), keepdim=True), host)
            summed(function, host, (0, 1, 2))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["all", "any", "prod", "amax", "amin"])
def test_other_reductions(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    host = make_tensor((4, 3), dtype)
    summed(function, host)
    summed(function, host, 1)
    summed(lambda tensor: function(tensor, 0, keepdim=True), host.t())
    if name in ("all", "any"):
        summed(function, host, ())
        summed(lambda tensor: function(tensor, (), keepdim=True), host)
    if name in ("all", "any", "prod"):
        summed(function, host[:0])
        summed(function, host[:0], 0)


def test_reductions_to_a_dtype_into_out_and_of_nothing() -> None:
    host = make_tensor((3, 4), torch.int32)
    summed(lambda tensor: tensor.sum(0, dtype=torch.float64), host)
    summed(lambda tensor: tensor.mean(1, dtype=torch.float32), host)
    summed(lambda tensor, out: torch.sum(tensor, 0, out=out), host, torch.empty(0, dtype=torch.int64))
    for empty in (torch.empty(0), torch.empty(0, 3), torch.empty(3, 0)):
        for function in (torch.sum, torch.mean):
            summed(function, empty)
            summed(function, empty, 0)
            summed(function, empty, -1)
    compare_errors(torch.sum, host, 2)
    compare_errors(torch.sum, host, (0, 0))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_products(dtype: torch.dtype) -> None:
    a, b = make_tensor((4, 5), dtype), make_tensor((5, 3), dtype, seed=1)
    summed(torch.matmul, a, b)
    summed(torch.matmul, b.t(), a.t())
    summed(torch.matmul, a[:, ::2], b[::2])
    for shape in ((4, 3), (3,), (4, 1), ()):
        addend = make_tensor(shape, dtype, seed=2)
        summed(torch.addmm, addend, a, b)
        summed(lambda *given: torch.addmm(*given, beta=2, alpha=3), addend, a, b)
        summed(lambda *given: torch.addmm(*given, beta=0), addend, a, b)


def test_products_into_out_inplace_and_of_nothing() -> None:
    a, b, c = (make_tensor(shape, torch.float32, seed=seed) for seed, shape in enumerate([(4, 5), (5, 3), (4, 3)]))
    summed(lambda a, b, out: torch.mm(a, b, out=out), a, b, torch.empty(3, 4).t())
    summed(lambda *given: torch.Tensor.addmm_(*given, beta=0.5), c, a, b)
    summed(lambda *given: torch.addmm(*given, beta=0), torch.full((4, 3), float("nan")), a, b)
    for m, k, n in ((0, 3, 2), (2, 3, 0), (2, 0, 3), (0, 0, 0)):
        summed(torch.matmul, torch.ones(m, k), torch.ones(k, n))
        summed(torch.addmm, torch.ones(n), torch.ones(m, k), torch.ones(k, n))
    summed(lambda tensor: tensor.mH @ tensor, make_tensor((4, 4), torch.complex64))


def test_errors_are_pytorchs() -> None:
    device = torch.ones(3, 4, device="rustdev")
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(4\) must match the size of tensor b \(5\)"):
        device + torch.ones(5, device="rustdev")
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Int"):
        torch.add(device, device, out=torch.empty(3, 4, dtype=torch.int32, device="rustdev"))
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        torch.ones(3, dtype=torch.int64, device="rustdev").add_(1.5)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        torch.ones(4, device="rustdev").add_(device)
    with pytest.raises(RuntimeError, match=r"not implemented for bool|bool"):
        device.bool() - device.bool()
    with pytest.raises(RuntimeError, match="For integral input tensors, argument alpha must not be a floating point number"):
        torch.add(device.int(), device.int(), alpha=1.5)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        device @ device
    with pytest.raises(RuntimeError, match=r"same dtype|expected m1 and m2"):
        device @ device.t().double()
    flat = torch.ones(5, device="rustdev")
    with pytest.raises(RuntimeError, match=r"single memory location|refer to a"):
        flat[1:].add_(flat[:-1])
    with pytest.raises(RuntimeError, match=r"single memory location|refer to a"):
        flat[1:].view(2, 2).add_(flat[:-1].view(2, 2).t())
    with pytest.raises(RuntimeError, match="refers to a single memory location"):
        torch.ones(1, device="rustdev").expand(3).add_(1)


def test_devices_are_not_mixed() -> None:
    first, second, host = torch.ones(3, device="rustdev:0"), torch.ones(3, device="rustdev:1"), torch.ones(3)
    for left, right in ((first, second), (first, host), (host, first)):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            left + right
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            left[None] @ right[:, None]
    assert (second + second).device.index == 1
    assert (second + 1).device.index == 1
    assert second.sum().device.index == 1
    assert (second[None] @ second[:, None]).device.index == 1


def test_gradients() -> None:
    host = make_tensor((4, 5), torch.float32)
    compare_gradients(lambda tensor: ((tensor.relu() * 2 - tensor) / 3 + tensor.exp()).mean(), host, rtol=1e-6)


@pytest.mark.usefixtures("strict")
def test_older_names_of_shifts_and_limits() -> None:
    for dtype in (torch.uint8, torch.int32, torch.int64):
        values, by = torch.arange(12).view(3, 4).to(dtype), torch.tensor([0, 1, 2, 5]).to(dtype)
        for shift in (operator.lshift, operator.rshift, operator.ilshift, operator.irshift):
            for amount in (by, 3):
                compare(shift, values, amount)
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64):
        values = (torch.arange(-12, 12).view(4, 6).t() / 4).to(dtype)
        for low, high in ((-1, 1), (0, 2)):
            compare(torch.nn.functional.hardtanh, values, low, high)
            compare(
                lambda a, out, ends=(low, high): torch.ops.aten.hardtanh.out(a, *ends, out=out), values, torch.empty(0, dtype=dtype)
            )
            compare(torch.nn.functional.hardtanh_, values, low, high)
    compare_errors(torch.nn.functional.hardtanh, torch.ones(2).bool())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("eps", [None, 0.1])
def test_logit_with_and_without_a_limit(dtype: torch.dtype, eps: float | None) -> None:
    host = torch.tensor([0, 1, 0, 1]) if dtype is torch.int64 else torch.linspace(0, 1, 21).to(dtype)
    calls = torch.rustdev.op_calls()["logit"]
    close(torch.logit, host, eps)
    assert torch.rustdev.op_calls()["logit"] == calls + 1
    assert torch.rustdev.coverage()["aten::logit"] == "rust"


def test_logit_has_variants() -> None:
    host = torch.linspace(0.1, 0.9, 12, dtype=torch.float64).reshape(3, 4)
    close(lambda tensor, out: torch.logit(tensor, out=out), host.t(), torch.empty(0, dtype=torch.float64))
    close(torch.logit_, host[:, ::2], 0.2)
    assert torch.autograd.gradcheck(torch.logit, host.to("rustdev").requires_grad_())


def test_logit_has_the_errors_of_the_cpu() -> None:
    torch.rustdev.set_fallback_mode("allow")
    compare_errors(torch.logit, torch.ones(2, dtype=torch.complex64))
    compare_errors(torch.logit_, torch.ones(2, dtype=torch.int64))


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("name", ["complex", "polar"])
def test_complex_numbers_of_two_parts(name: str) -> None:
    function = getattr(torch, name)
    for dtype in (torch.float16, torch.float32, torch.float64):
        parts = [make_tensor((3, 4), dtype, seed=seed).t() for seed in (0, 1)]
        if name == "polar" and dtype is torch.float16:
            parts = [part.float() for part in parts]
        close(function, *parts)
    floats, doubles = torch.ones(2), torch.ones(2, dtype=torch.float64)
    compare_errors(function, floats, doubles)
    compare_errors(function, floats.long(), floats)
    compare_errors(lambda *given: function(*given[:2], out=given[2]), floats, floats, floats)


@pytest.mark.parametrize("form", ["contiguous", "transposed", "broadcast", "numbers", "empty"])
def test_choices(form: str) -> None:
    """Dense ones are launched at once; all others are as PyTorch's iterator lays them out."""
    condition = make_tensor((3, 4), torch.bool)
    for dtypes in ((torch.float32, torch.float32), (torch.int64, torch.float16), (torch.complex64, torch.complex64)):
        one, other = make_tensor((3, 4), dtypes[0]), make_tensor((3, 4), dtypes[1], seed=1)
        if form == "transposed":
            one, other, condition = one.t().contiguous().t(), other.t().contiguous().t(), condition.t().contiguous().t()
        elif form == "broadcast":
            one, other = one[:1], other[:, :1]
        elif form == "empty":
            one, other, condition = one[:0], other[:0], condition[:0]
        if form == "numbers":
            compare(lambda c, x: torch.where(c, 1.5, x), condition, one)
            compare(lambda c, x: torch.where(c, x, 2), condition, one)
            compare(lambda c: torch.where(c, 1.5, 2.5), condition)
            compare(lambda x: torch.where(torch.tensor(True), x, torch.tensor(2.0)), one)
        else:
            compare(torch.where, condition, one, other)
