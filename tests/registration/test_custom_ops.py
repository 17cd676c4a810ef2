"""Operators of the namespace ``rustdev`` and user-defined operators: values, autocast, functionalization, opcheck."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

ops = torch.ops.rustdev
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
# opcheck looks at the gradients of its own copies, which are no leaves.
quiet_opcheck = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
CHECKS = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")


def tensor(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
    """Return random numbers on the device."""
    return torch.randn(*shape).to(dtype).to("rustdev").requires_grad_(grad)


def angles(length: int, half: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the cosines and sines of a rotary embedding."""
    angle = torch.outer(torch.arange(length, dtype=torch.float64), 10.0 ** -torch.linspace(0, 4, half, dtype=torch.float64))
    return angle.cos().to(dtype).to("rustdev"), angle.sin().to(dtype).to("rustdev")


def host_rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Return the embedding as the models write it, on the CPU in float64."""
    low, high = x.cpu().double().chunk(2, -1)
    cos, sin = cos.cpu().double(), sin.cpu().double()
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1).to(x.dtype)


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Compare a device tensor with a CPU tensor, dtype included."""
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5}.get(found.dtype, 1e-2)
    assert found.device.type == "rustdev"
    torch.testing.assert_close(found.detach().cpu(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values(dtype: torch.dtype) -> None:
    gate, up = tensor(5, 33, dtype=dtype), tensor(33, 5, dtype=dtype).t()
    before = torch.rustdev.op_calls()["swiglu"]
    close(ops.swiglu(gate, up), (functional.silu(gate.cpu().double()) * up.cpu().double()).to(dtype))
    assert torch.rustdev.op_calls()["swiglu"] == before + 1
    assert ops.swiglu(tensor(0, 3, dtype=dtype), tensor(0, 3, dtype=dtype)).shape == (0, 3)
    assert ops.rotary(tensor(0, 4, dtype=dtype), *angles(0, 2, dtype)).shape == (0, 4)
    x, (cos, sin) = tensor(2, 7, 3, 8, dtype=dtype).transpose(1, 2), angles(7, 4, dtype)
    close(ops.rotary(x, cos, sin), host_rotary(x, cos, sin))
    close(ops.rotary_backward(ops.rotary(x, cos, sin), cos, sin), x.cpu())
    residual, x, bias = tensor(4, 6, dtype=dtype), tensor(4, 6, dtype=dtype), tensor(6, dtype=dtype)
    expected = (residual.cpu().double() + x.cpu().double() + bias.cpu().double()).to(dtype)
    close(ops.residual_add(residual, x, bias), expected)
    pointer, version = residual.data_ptr(), residual._version
    assert ops.residual_add_(residual, x, bias) is residual
    assert (residual.data_ptr(), residual._version) == (pointer, version + 1)
    close(residual, expected)


def samples() -> dict[str, tuple[Any, ...]]:
    """Return one call of each operator, inputs of autograd where it has one."""
    cos, sin = angles(5, 4)
    return {
        "swiglu": (tensor(3, 4, grad=True), tensor(3, 4, grad=True)),
        "swiglu_backward": (tensor(3, 4), tensor(3, 4), tensor(3, 4)),
        "rotary": (tensor(2, 5, 8, grad=True), cos, sin),
        "rotary_backward": (tensor(2, 5, 8, grad=True), cos, sin),
        "geglu": (tensor(3, 4, grad=True), tensor(3, 4, grad=True)),
        "residual_add": (tensor(3, 4), tensor(3, 4), tensor(4)),
        "residual_add_": (tensor(3, 4), tensor(3, 4), tensor(4)),
    }


@quiet_opcheck
@pytest.mark.parametrize("name", samples())
def test_opcheck(name: str) -> None:
    operator = getattr(ops, name).default
    assert torch.library.opcheck(operator, samples()[name], test_utils=CHECKS) == dict.fromkeys(CHECKS, "SUCCESS")
    # opcheck's look at autograd knows CPU, CUDA and XPU alone: what it asks there.
    keys = ("AutogradPrivateUse1", "CompositeImplicitAutograd")
    assert any(torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), key) for key in keys)


def test_autocast_takes_the_widest_or_keeps_the_vectors() -> None:
    low, full = tensor(3, 4, dtype=torch.bfloat16), tensor(3, 4)
    cos, sin = angles(3, 2)
    with pytest.raises(RuntimeError, match="one dtype"):
        ops.swiglu(low, full)
    with torch.autocast("rustdev", dtype=torch.bfloat16):
        assert ops.swiglu(low, low).dtype is torch.bfloat16
        close(ops.swiglu(low, full), functional.silu(low.cpu().float()) * full.cpu())
        assert ops.geglu(low, full).dtype is torch.float32
        close(ops.residual_add(full, low, low), full.cpu() + low.cpu().float() * 2)
        close(ops.rotary(low, cos, sin), host_rotary(low, cos, sin))
        close(ops.residual_add_(low.clone(), full, full), (low.cpu().float() + 2 * full.cpu()).bfloat16())


def test_functionalization_takes_the_update_out() -> None:
    def update(residual: torch.Tensor, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        row = residual[0]
        ops.residual_add_(row, x, bias)
        return residual * 2

    arguments = tensor(2, 4), tensor(4), tensor(4)
    expected = arguments[0].cpu().clone()
    expected[0] += (arguments[1] + arguments[2]).cpu()
    graph = torch.fx.experimental.proxy_tensor.make_fx(torch.func.functionalize(update))(*arguments)
    called = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    assert ops.residual_add.default in called
    assert ops.residual_add_.default not in called
    close(arguments[0], expected)
    close(torch.func.functionalize(update)(tensor(2, 4).copy_(arguments[0]), *arguments[1:])[1], expected[1] * 2)


def launch(kernel: str, outputs: int = 1, inputs: int = 2, scalars: int = 0) -> None:
    """Launch a kernel with these numbers of operands and scalars."""
    ops._launch(kernel, [tensor(3)] * outputs, [tensor(3)] * inputs, [1.0] * scalars)


def swiglu_into(out: torch.Tensor, x: torch.Tensor) -> None:
    """Launch the kernel of swiglu into a tensor."""
    ops._launch("swiglu", [out], [x, x], [])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ops.swiglu(tensor(3), tensor(4)), RuntimeError, "different sizes"),
        (lambda: ops.swiglu(tensor(3), tensor(3).double()), RuntimeError, "one dtype"),
        (lambda: ops.swiglu(tensor(3).int(), tensor(3).int()), RuntimeError, "floating-point"),
        (lambda: ops.swiglu(tensor(3), tensor(3).to("rustdev:1")), RuntimeError, "same device"),
        (lambda: ops.swiglu(tensor(3), torch.ones(3)), RuntimeError, "same device"),
        (lambda: ops.rotary(tensor(2, 6), *angles(2, 4)), RuntimeError, "angles of sizes"),
        (lambda: ops.residual_add(tensor(3), tensor(4), tensor(3)), RuntimeError, "expanded size"),
        (lambda: ops.residual_add_(tensor(1).expand(3), tensor(3), tensor(3)), RuntimeError, "single memory location"),
        (lambda: ops.residual_add_(x := tensor(2, 3), tensor(3), x[0]), RuntimeError, "single memory location"),
        (lambda: launch("nothing"), ValueError, "no kernel nothing"),
        (lambda: launch("swiglu", outputs=0), ValueError, "0 outputs"),
        (lambda: launch("swiglu", inputs=10), RuntimeError, "not 11 operands"),
        (lambda: launch("swiglu", scalars=17), RuntimeError, "17 scalars"),
        (lambda: launch("swiglu", inputs=1), RuntimeError, "not 2 operands"),
        (lambda: launch("swiglu", scalars=1), RuntimeError, "1 scalars"),
        (lambda: swiglu_into(tensor(3), torch.ones(3)), ValueError, "dense tensors of the device"),
        (lambda: swiglu_into(tensor(3), tensor(3).to_sparse()), NotImplementedError, "neither the device nor the CPU"),
        (lambda: swiglu_into(tensor(3), tensor(3).to("rustdev:1")), RuntimeError, "same device"),
        (lambda: swiglu_into(tensor(1).expand(3), tensor(3)), RuntimeError, "single memory location"),
        (lambda: swiglu_into((x := tensor(4))[:3], x[1:]), RuntimeError, "single memory location"),
        (lambda: swiglu_into(tensor(3).int(), tensor(3).int()), NotImplementedError, "not implemented for 'Int'"),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_modes_do_not_see_the_parts_of_a_kernel() -> None:
    seen: list[Any] = []

    class Notes(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = tensor(3)
    with Notes():
        torch.dot(x, x)
        torch._unique2(x)
        ops.swiglu(x, x)
    assert [func.__name__ for func in seen] == ["dot", "_unique2", "swiglu"]


@quiet_opcheck
def test_operator_from_python() -> None:
    @torch.library.custom_op("rustdev_tests::scaled_sin", mutates_args=())
    def scaled_sin(x: torch.Tensor, scale: float) -> torch.Tensor:
        return x.sin() * scale

    @scaled_sin.register_fake
    def _(x: torch.Tensor, scale: float) -> torch.Tensor:
        return torch.empty_like(x)

    def setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.scale = inputs[1]

    scaled_sin.register_autograd(lambda ctx, grad: (grad * ctx.saved_tensors[0].cos() * ctx.scale, None), setup_context=setup)
    scaled_sin.register_autocast("rustdev", torch.bfloat16)
    scaled_sin.register_vmap(lambda info, dims, x, scale: (scaled_sin(x, scale), dims[0]))

    x = tensor(3, 4, grad=True)
    close(scaled_sin(x, 2.0), x.detach().cpu().sin() * 2)
    assert torch.autograd.gradcheck(lambda x: scaled_sin(x, 2.0), x.detach().double().requires_grad_())
    assert torch.library.opcheck(scaled_sin, (x, 2.0), test_utils=CHECKS) == dict.fromkeys(CHECKS, "SUCCESS")
    with torch.autocast("rustdev", dtype=torch.bfloat16):
        assert scaled_sin(x, 2.0).dtype is torch.bfloat16
    close(torch.vmap(lambda row: scaled_sin(row, 3.0))(x), x.detach().cpu().sin() * 3)
