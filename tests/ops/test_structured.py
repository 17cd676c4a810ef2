"""Operators with a Rust kernel against the CPU: dtypes, promotion, broadcasting, strides, in-place, out=, numbers, errors."""

import operator
from collections.abc import Callable

import pytest
import torch

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

pytestmark = pytest.mark.usefixtures("strict")


def make(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Return small numbers, never zero where that matters."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype in INTEGERS:
        low = 1 if dtype == torch.uint8 else -5
        values = torch.randint(low, 6, shape, generator=generator)
        return torch.where(values == 0, 1, values).to(dtype)
    if dtype.is_complex:
        return torch.complex(torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)).to(dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def same(device: torch.Tensor, expected: torch.Tensor) -> None:
    """Compare values, dtype, shape and strides."""
    assert device.device.type == "rustdev"
    assert device.dtype == expected.dtype
    assert device.stride() == expected.stride()
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}.get(expected.dtype, 2e-6)
    torch.testing.assert_close(device.cpu(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def cases(table: dict[str, list[torch.dtype]]) -> pytest.MarkDecorator:
    """Parametrise over the operators of a table and their dtypes."""
    pairs = [(name, dtype) for name, dtypes in table.items() for dtype in dtypes]
    return pytest.mark.parametrize(("name", "dtype"), pairs, ids=lambda value: str(value).removeprefix("torch."))


@cases(BINARY)
def test_binary(name: str, dtype: torch.dtype) -> None:
    function: Callable[..., torch.Tensor] = getattr(torch, name)
    same_size = (((3, 4), (3, 4)), ((5000,), (5000,)))
    for shapes in (*same_size, ((3, 1), (1, 4)), ((3, 1), (1, 3)), ((4,), (2, 3, 4)), ((0, 4), (4,)), ((), (3,))):
        left, right = make(shapes[0], dtype), make(shapes[1], dtype, 1)
        same(function(left.to("rustdev"), right.to("rustdev")), function(left, right))
    left, right = make((6, 8), dtype), make((8, 6), dtype, 1)
    same(function(left.to("rustdev").t(), right.to("rustdev")), function(left.t(), right))
    same(function(left.to("rustdev"), right.to("rustdev").t()), function(left, right.t()))
    same(function(left.to("rustdev")[::2, 1::3], right.to("rustdev")[:3, :3]), function(left[::2, 1::3], right[:3, :3]))


@cases(UNARY)
def test_unary(name: str, dtype: torch.dtype) -> None:
    function: Callable[..., torch.Tensor] = getattr(torch, name)
    for shape in ((3, 4), (0,), (), (1,), (5000,)):
        host = make(shape, dtype)
        same(function(host.to("rustdev")), function(host))
    host = make((6, 8), dtype)
    same(function(host.to("rustdev").t()), function(host.t()))
    same(function(host.to("rustdev")[::2, 1::3]), function(host[::2, 1::3]))


@pytest.mark.parametrize("name", BINARY)
def test_promotion(name: str) -> None:
    function: Callable[..., torch.Tensor] = getattr(torch, name)
    for left in (torch.int32, torch.uint8, torch.float16, torch.float32):
        for right in (torch.bool, torch.int64, torch.bfloat16, torch.float64):
            if name == "sub" and right == torch.bool:
                continue
            one, other = make((4, 3), left), make((4, 3), right, 1)
            same(function(one.to("rustdev"), other.to("rustdev")), function(one, other))


@pytest.mark.parametrize("name", [name for name in BINARY if name != "maximum"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_numbers(name: str, dtype: torch.dtype) -> None:
    function: Callable[..., torch.Tensor] = getattr(torch, name)
    if dtype.is_complex and name in ("lt", "gt"):
        return
    host = make((3, 4), dtype)
    for number in (2, 1.5, True, torch.tensor(3), torch.tensor(2.5, dtype=torch.float64), torch.tensor([2.5])[0]):
        if name == "sub" and number is True:
            continue
        same(function(host.to("rustdev"), number), function(host, number))
    strided = host.to("rustdev").t()
    same(function(strided, 2), function(host.t(), 2))
    if name in ("add", "mul", "sub", "div"):
        same(
            getattr(strided, f"__r{name}__" if name != "div" else "__rtruediv__")(2),
            2 * host.t() if name == "mul" else 2 + host.t() if name == "add" else 2 - host.t() if name == "sub" else 2 / host.t(),
        )


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
            same(function(*case(host.to("rustdev"))), function(*case(host)))
    assert torch.equal(host.to("rustdev").t(), host.to("rustdev").t())


def test_a_zero_dim_tensor_of_the_device_does_not_promote() -> None:
    host, scalar = make((3,), torch.float32), torch.tensor(2.5, dtype=torch.float64)
    same(torch.add(host.to("rustdev"), scalar.to("rustdev")), torch.add(host, scalar))
    same(torch.add(scalar, host.to("rustdev")), torch.add(scalar, host))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("number", [torch.tensor(1 / 3), torch.tensor(1 / 3, dtype=torch.float64), torch.tensor([3.3])])
def test_a_number_on_the_device_has_the_precision_that_it_has_on_the_cpu(dtype: torch.dtype, number: torch.Tensor) -> None:
    tensor = make((3000,), dtype)
    for call in (operator.mul, operator.truediv, operator.add, operator.sub, operator.gt, operator.eq):
        given = number if number.dim() == 0 else number.to(dtype)
        assert torch.equal(call(tensor.to("rustdev"), given.to("rustdev")).cpu(), call(tensor, given)), call
        assert torch.equal(call(tensor.to("rustdev")[::2], given.to("rustdev")).cpu(), call(tensor[::2], given)), call


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
    device = host.to("rustdev")
    same(device + large, host + large)
    same(torch.add(device, device, alpha=large), torch.add(host, host, alpha=large))
    same(device == large, host == large)
    same(device.clone().fill_(large), host.clone().fill_(large))


def test_nan_wins() -> None:
    nan = float("nan")
    left, right = torch.tensor([nan, 1.0, nan, 0.0]), torch.tensor([1.0, nan, nan, -0.0])
    for function in (torch.maximum, torch.minimum):
        same(function(left.to("rustdev"), right.to("rustdev")), function(left, right))
    same(left.to("rustdev").relu(), left.relu())


@pytest.mark.parametrize("name", INPLACE)
def test_inplace(name: str) -> None:
    host = make((4, 6), torch.float32)
    device = host.to("rustdev")
    arguments = [] if name in UNARY else [make((6,), torch.float32, 1)]
    method = f"{name}_"
    for view in (lambda t: t, lambda t: t[1:, ::2], lambda t: t.t()[:3]):
        here, there = view(host), view(device)
        extra = [argument[: here.shape[-1]] for argument in arguments]
        result = getattr(there, method)(*(argument.to("rustdev") for argument in extra))
        getattr(here, method)(*extra)
        assert result is there
        torch.testing.assert_close(device.cpu(), host)
    if arguments:
        getattr(device, method)(2)
        getattr(host, method)(2)
        torch.testing.assert_close(device.cpu(), host)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000, 5000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.uint8])
def test_inplace_over_blocks_of_every_length(dtype: torch.dtype, count: int) -> None:
    """Results may only be written where no later element of the same loop is still to be read."""
    host = (make((count,), torch.float32) * 50).to(dtype)
    device = host.to("rustdev")
    calls = [lambda t: t.add_(t), lambda t: t.mul_(2), lambda t: torch.maximum(t.flip(0), t, out=t)]
    if dtype.is_floating_point:
        # Sines of large arguments take the slow path, block by block.
        calls += [torch.neg_, lambda t: t.mul_(1.5), torch.sin_, torch.sigmoid_, lambda t: t.clamp_(0.6, 0.7), torch.exp_]
    for call in calls:
        for tensor in (host, device):
            call(tensor)
        torch.testing.assert_close(device.cpu(), host)


@pytest.mark.parametrize("name", [*BINARY, "neg", "exp"])
def test_out(name: str) -> None:
    function: Callable[..., torch.Tensor] = getattr(torch, name)
    inputs = [make((4, 3), torch.float32, seed) for seed in range(1 if name in UNARY else 2)]
    devices = [tensor.to("rustdev") for tensor in inputs]
    expected = function(*inputs)
    out = torch.empty_like(expected, device="rustdev")
    assert function(*devices, out=out) is out
    same(out, expected)
    strided = torch.zeros(3, 8, dtype=expected.dtype, device="rustdev").t()[::2]
    same(function(*devices, out=strided).contiguous(), expected)
    grown = torch.empty(0, dtype=expected.dtype, device="rustdev")
    same(function(*devices, out=grown), expected)
    with pytest.warns(UserWarning, match="was resized"):
        function(*devices, out=torch.empty(2, dtype=expected.dtype, device="rustdev"))
    if name == "neg":
        return
    wide = torch.empty(4, 3, dtype=torch.float64, device="rustdev")
    torch.testing.assert_close(function(*devices, out=wide).cpu(), expected.double())


def test_out_that_is_resized_gets_the_strides_of_the_result() -> None:
    transposed, channels = make((4, 3), torch.float32).t(), make((2, 3, 4, 5), torch.float32)
    for host in (transposed, channels.to(memory_format=torch.channels_last)):
        device = host.to("rustdev")
        assert device.stride() == host.stride()
        grown = torch.empty(0, device="rustdev")
        same(torch.add(device, device, out=grown), torch.add(host, host, out=torch.empty(0)))


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
        host, device = memory.as_strided(sizes, strides), memory.to("rustdev").as_strided(sizes, strides)
        same(function(device), function(host))


def test_out_of_another_dtype_is_refused_where_nothing_casts() -> None:
    device = torch.ones(3, 3, device="rustdev")
    wide = torch.empty(3, 3, dtype=torch.float64, device="rustdev")
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got double instead"):
        torch.mm(device, device, out=wide)
    with pytest.raises(RuntimeError, match="Bad in-place call: input tensor size"):
        torch.ones(3, device="rustdev").addmm_(device, device)


def test_alpha_and_rounding() -> None:
    left, right = make((40,), torch.float32), make((40,), torch.float32, 1)
    one, other = left.to("rustdev"), right.to("rustdev")
    for alpha in (2, 0.5, -1):
        same(torch.add(one, other, alpha=alpha), torch.add(left, right, alpha=alpha))
        same(torch.sub(one, other, alpha=alpha), torch.sub(left, right, alpha=alpha))
        same(one.add(3, alpha=alpha), left.add(3, alpha=alpha))
    for dtype in (torch.float32, torch.int32, torch.uint8, torch.bfloat16):
        left, right = make((40,), dtype), make((40,), dtype, 1)
        for rounding in (None, "trunc", "floor"):
            same(
                torch.div(left.to("rustdev"), right.to("rustdev"), rounding_mode=rounding),
                torch.div(left, right, rounding_mode=rounding),
            )


def test_threshold_backward() -> None:
    for dtype in FLOATS:
        gradient, values = make((5, 7), dtype), make((5, 7), dtype, 1)
        for threshold in (0, 0.5):
            expected = torch.ops.aten.threshold_backward(gradient, values, threshold)
            same(torch.ops.aten.threshold_backward(gradient.to("rustdev"), values.to("rustdev"), threshold), expected)
            strided = torch.ops.aten.threshold_backward(gradient.to("rustdev").t(), values.to("rustdev").t(), threshold)
            same(strided, expected.t())


@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_reductions(name: str, dtype: torch.dtype) -> None:
    function: Callable[..., torch.Tensor] = getattr(torch, name)
    if name == "mean" and not (dtype.is_floating_point or dtype.is_complex):
        with pytest.raises(RuntimeError, match="could not infer output dtype"):
            function(make((3,), dtype).to("rustdev"))
        return
    for host in (make((3, 4, 5), dtype), make((5, 4, 3), dtype).permute(2, 0, 1), make((4, 6), dtype)[::2, ::3], make((), dtype)):
        device = (
            host.to("rustdev") if host.is_contiguous() else host.to("rustdev").as_strided(host.shape, host.to("rustdev").stride())
        )
        close(function(device), function(host))
        for dim in range(host.dim()):
            close(function(device, dim), function(host, dim))
            close(function(device, dim - host.dim(), keepdim=True), function(host, dim, keepdim=True))
        if host.dim() == 3:
            close(function(device, (0, 2)), function(host, (0, 2)))
            close(function(device, (2, 1), keepdim=True), function(host, (2, 1), keepdim=True))
            close(function(device, (0, 1, 2)), function(host, (0, 1, 2)))


def close(device: torch.Tensor, expected: torch.Tensor) -> None:
    """As same, where the order of a sum may differ."""
    assert device.dtype == expected.dtype
    tolerance = {torch.float16: 5e-3, torch.bfloat16: 4e-2}.get(expected.dtype, 1e-5)
    torch.testing.assert_close(device.cpu(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["all", "any", "prod", "amax", "amin"])
def test_other_reductions(name: str, dtype: torch.dtype) -> None:
    function: Callable[..., torch.Tensor] = getattr(torch, name)
    host = make((4, 3), dtype)
    device = host.to("rustdev")
    close(function(device), function(host))
    close(function(device, 1), function(host, 1))
    close(function(device.t(), 0, keepdim=True), function(host.t(), 0, keepdim=True))
    if name in ("all", "any"):
        close(function(device, ()), function(host, ()))
        close(function(device, (), keepdim=True), function(host, (), keepdim=True))
    if name in ("all", "any", "prod"):
        close(function(device[:0]), function(host[:0]))
        close(function(device[:0], 0), function(host[:0], 0))


def test_reductions_to_a_dtype_into_out_and_of_nothing() -> None:
    host = make((3, 4), torch.int32)
    device = host.to("rustdev")
    close(device.sum(0, dtype=torch.float64), host.sum(0, dtype=torch.float64))
    close(device.mean(1, dtype=torch.float32), host.mean(1, dtype=torch.float32))
    out = torch.empty(0, dtype=torch.int64, device="rustdev")
    assert torch.sum(device, 0, out=out) is out
    close(out, host.sum(0))
    for empty in (torch.empty(0), torch.empty(0, 3), torch.empty(3, 0)):
        close(empty.to("rustdev").sum(), empty.sum())
        close(empty.to("rustdev").mean(), empty.mean())
        close(empty.to("rustdev").sum(0), empty.sum(0))
        close(empty.to("rustdev").mean(-1), empty.mean(-1))
    with pytest.raises(IndexError, match="Dimension out of range"):
        device.sum(2)
    with pytest.raises(RuntimeError, match="appears multiple times"):
        device.sum((0, 0))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_products(dtype: torch.dtype) -> None:
    a, b = make((4, 5), dtype), make((5, 3), dtype, 1)
    one, other = a.to("rustdev"), b.to("rustdev")
    close(one @ other, a @ b)
    close(other.t() @ one.t(), b.t() @ a.t())
    close(one[:, ::2] @ other[::2], a[:, ::2] @ b[::2])
    for addend in (make((4, 3), dtype, 2), make((3,), dtype, 2), make((4, 1), dtype, 2), make((), dtype, 2)):
        close(torch.addmm(addend.to("rustdev"), one, other), torch.addmm(addend, a, b))
        close(torch.addmm(addend.to("rustdev"), one, other, beta=2, alpha=3), torch.addmm(addend, a, b, beta=2, alpha=3))
        close(torch.addmm(addend.to("rustdev"), one, other, beta=0), torch.addmm(addend, a, b, beta=0))


def test_products_into_out_inplace_and_of_nothing() -> None:
    a, b, c = make((4, 5), torch.float32), make((5, 3), torch.float32, 1), make((4, 3), torch.float32, 2)
    one, other, addend = a.to("rustdev"), b.to("rustdev"), c.to("rustdev")
    out = torch.empty(3, 4, device="rustdev").t()
    assert torch.mm(one, other, out=out) is out
    close(out, a @ b)
    addend.addmm_(one, other, beta=0.5)
    close(addend, c.addmm(a, b, beta=0.5))
    nan = torch.full((4, 3), float("nan"), device="rustdev")
    close(torch.addmm(nan, one, other, beta=0), a @ b)
    for m, k, n in ((0, 3, 2), (2, 3, 0), (2, 0, 3), (0, 0, 0)):
        left, right = torch.ones(m, k), torch.ones(k, n)
        close(left.to("rustdev") @ right.to("rustdev"), left @ right)
        close(
            torch.addmm(torch.ones(n).to("rustdev"), left.to("rustdev"), right.to("rustdev")),
            torch.addmm(torch.ones(n), left, right),
        )
    complex_ = make((4, 4), torch.complex64)
    close(complex_.to("rustdev").mH @ complex_.to("rustdev"), complex_.mH @ complex_)


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
    host = make((4, 5), torch.float32).requires_grad_()
    device = host.detach().to("rustdev").requires_grad_()
    for tensor in (host, device):
        ((tensor.relu() * 2 - tensor) / 3 + tensor.exp()).mean().backward()
    torch.testing.assert_close(device.grad.cpu(), host.grad)


@pytest.mark.usefixtures("strict")
def test_older_names_of_shifts_and_limits() -> None:
    for dtype in (torch.uint8, torch.int32, torch.int64):
        values, by = torch.arange(12).view(3, 4).to(dtype), torch.tensor([0, 1, 2, 5]).to(dtype)
        for shift in (operator.lshift, operator.rshift, operator.ilshift, operator.irshift):
            for amount in (by, 3):
                moved = amount.to("rustdev") if isinstance(amount, torch.Tensor) else amount
                mine, theirs = shift(values.to("rustdev"), moved), shift(values.clone(), amount)
                assert mine.dtype == theirs.dtype
                assert torch.equal(mine.cpu(), theirs)
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64):
        values = (torch.arange(-12, 12).view(4, 6).t() / 4).to(dtype)
        for low, high in ((-1, 1), (0, 2)):
            theirs, given = torch.nn.functional.hardtanh(values, low, high), values.to("rustdev")
            mine = torch.nn.functional.hardtanh(given, low, high)
            assert mine.stride() == theirs.stride()
            assert torch.equal(mine.cpu(), theirs)
            out = torch.empty(0, dtype=dtype, device="rustdev")
            torch.ops.aten.hardtanh.out(given, low, high, out=out)
            assert torch.equal(out.cpu(), theirs)
            torch.nn.functional.hardtanh_(given, low, high)
            assert torch.equal(given.cpu(), theirs)
    for device in ("cpu", "rustdev"):
        with pytest.raises(RuntimeError, match="Bool"):
            torch.nn.functional.hardtanh(torch.ones(2, device=device).bool())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("eps", [None, 0.1])
def test_logit_with_and_without_a_limit(dtype: torch.dtype, eps: float | None) -> None:
    host = torch.tensor([0, 1, 0, 1]) if dtype is torch.int64 else torch.linspace(0, 1, 21).to(dtype)
    calls = torch.rustdev.op_calls()["logit"]
    found = torch.logit(host.to("rustdev"), eps)
    assert torch.rustdev.op_calls()["logit"] == calls + 1
    tolerance = 2e-2 if dtype is torch.bfloat16 else 1e-5
    torch.testing.assert_close(found.cpu(), torch.logit(host, eps), rtol=tolerance, atol=tolerance)
    assert torch.rustdev.coverage()["aten::logit"] == "rust"


def test_logit_has_variants() -> None:
    host = torch.linspace(0.1, 0.9, 12, dtype=torch.float64).reshape(3, 4)
    out = torch.empty(0, dtype=torch.float64, device="rustdev")
    assert torch.logit(host.to("rustdev").t(), out=out) is out
    torch.testing.assert_close(out.cpu(), host.t().logit())
    strided = host.to("rustdev")[:, ::2]
    assert strided.logit_(eps=0.2) is strided
    torch.testing.assert_close(strided.cpu(), host[:, ::2].logit(eps=0.2))
    assert torch.autograd.gradcheck(torch.logit, host.to("rustdev").requires_grad_())


def test_logit_has_the_errors_of_the_cpu() -> None:
    torch.rustdev.set_fallback_mode("allow")
    for device in ("cpu", "rustdev"):
        with pytest.raises(NotImplementedError, match=r'"logit\w*" not implemented for'):
            torch.logit(torch.ones(2, dtype=torch.complex64, device=device))
        with pytest.raises(RuntimeError, match="can't be cast"):
            torch.ones(2, dtype=torch.int64, device=device).logit_()


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("name", ["complex", "polar"])
def test_complex_numbers_of_two_parts(name: str) -> None:
    function = getattr(torch, name)
    for dtype in (torch.float16, torch.float32, torch.float64):
        parts = [make((3, 4), dtype, seed).t() for seed in (0, 1)]
        if name == "polar" and dtype is torch.float16:
            parts = [part.float() for part in parts]
        same(function(*(part.to("rustdev") for part in parts)), function(*parts))
    for device in ("cpu", "rustdev"):
        floats, doubles = torch.ones(2, device=device), torch.ones(2, dtype=torch.float64, device=device)
        with pytest.raises(RuntimeError, match="Expected object of scalar type Float but got scalar type Double for second"):
            function(floats, doubles)
        with pytest.raises(NotImplementedError, match="Expected both inputs to be Half, Float or Double tensors but got Long"):
            function(floats.long(), floats)
        with pytest.raises(RuntimeError, match="scalar type ComplexFloat but got scalar type Float for argument 'out'"):
            function(floats, floats, out=torch.ones(2, device=device))


@pytest.mark.parametrize("form", ["contiguous", "transposed", "broadcast", "numbers", "empty"])
def test_choices(form: str) -> None:
    """Dense ones are launched at once; all others are as PyTorch's iterator lays them out."""
    condition = make((3, 4), torch.bool)
    for dtypes in ((torch.float32, torch.float32), (torch.int64, torch.float16), (torch.complex64, torch.complex64)):
        one, other = make((3, 4), dtypes[0]), make((3, 4), dtypes[1], seed=1)
        if form == "transposed":
            one, other, condition = one.t().contiguous().t(), other.t().contiguous().t(), condition.t().contiguous().t()
        elif form == "broadcast":
            one, other = one[:1], other[:, :1]
        elif form == "empty":
            one, other, condition = one[:0], other[:0], condition[:0]
        if form == "numbers":
            on_device = condition.to("rustdev"), one.to("rustdev")
            same(torch.where(on_device[0], 1.5, on_device[1]), torch.where(condition, 1.5, one))
            same(torch.where(on_device[0], on_device[1], 2), torch.where(condition, one, 2))
            same(torch.where(on_device[0], 1.5, 2.5), torch.where(condition, 1.5, 2.5))
            same(torch.where(torch.tensor(True), on_device[1], torch.tensor(2.0)), torch.where(torch.tensor(True), one, 2.0))
        else:
            found = torch.where(condition.to("rustdev"), one.to("rustdev"), other.to("rustdev"))
            same(found, torch.where(condition, one, other))
