"""The fused operators of the namespace ``rustdev``, with everything that PyTorch requires of a custom operator.

That is a schema, a device kernel, a Meta kernel with the same checks and result strides, autograd, autocast and functionalization.
Autograd has three forms. swiglu is a ``torch.autograd.Function`` that saves two tensors where ``silu(gate) * up`` saves three.
rotary and rotary_backward are each other's derivative, so a gradient of any order is a call of one of them. The other operators are
not differentiable, except geglu, which is composed of differentiable operators.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .._name import NAME
from .registration import launch, past_torch_function, scalar_type

_library = torch.library.Library("rustdev", "FRAGMENT")
for _schema in (
    # silu(gate) * up, for operands of equal size.
    "swiglu(Tensor gate, Tensor up) -> Tensor",
    # The gradients of gate and up.
    "swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)",
    # Rotates each pair (x[i], x[i + d/2]) of the last dimension by the angle with the given cosine and sine, which broadcast over
    # the other dimensions.
    "rotary(Tensor x, Tensor cos, Tensor sin) -> Tensor",
    # The gradient of x: rotary by the negative angle.
    "rotary_backward(Tensor grad, Tensor cos, Tensor sin) -> Tensor",
    # gelu(gate) * up.
    "geglu(Tensor gate, Tensor up) -> Tensor",
    # residual + (x + bias), for inference; x and bias broadcast to the sizes of residual.
    "residual_add(Tensor residual, Tensor x, Tensor bias) -> Tensor",
    "residual_add_(Tensor(a!) residual, Tensor x, Tensor bias) -> Tensor(a!)",
):
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))


def _register(name: str, function: Callable[..., Any], key: str, *, with_keyset: bool = False) -> None:
    """Register a function as the kernel of an operator for a dispatch key."""
    _library.impl(name, past_torch_function(function), key, with_keyset=with_keyset)


_swiglu = torch.ops.rustdev.swiglu.default
_swiglu_backward = torch.ops.rustdev.swiglu_backward.default
_rotary = torch.ops.rustdev.rotary.default
_rotary_backward = torch.ops.rustdev.rotary_backward.default
_residual_add = torch.ops.rustdev.residual_add.default
_residual_add_ = torch.ops.rustdev.residual_add_.default

# ---- results and kernels -------------------------------------------------------------------------------------------------------


def _check_operands(name: str, first: Tensor, *others: Tensor) -> None:
    """Raise RuntimeError unless all tensors have one device and one floating-point dtype."""
    if not first.is_floating_point():
        raise RuntimeError(f"{name}: expected floating-point tensors, got {scalar_type(first.dtype)}")
    for other in others:
        if other.device != first.device:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{first.device} and {other.device}! (when checking arguments of {name})"
            )
        if other.dtype is not first.dtype:
            found = f"{scalar_type(first.dtype)} and {scalar_type(other.dtype)}"
            raise RuntimeError(f"{name}: expected tensors of one dtype, got {found}")


def _new_swiglu(gate: Tensor, up: Tensor) -> Tensor:
    _check_operands("rustdev::swiglu", gate, up)
    if gate.shape != up.shape:
        raise RuntimeError(f"rustdev::swiglu: gate and up have different sizes, {list(gate.shape)} and {list(up.shape)}")
    return torch.empty_like(gate)


def _new_swiglu_backward(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    return _new_swiglu(gate, up), _new_swiglu(gate, grad)


def _new_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    _check_operands("rustdev::rotary", x, cos, sin)
    if not 0 < cos.dim() <= x.dim() or x.size(-1) != cos.size(-1) * 2 or cos.shape != sin.shape:
        sizes = f"{list(cos.shape)} and {list(sin.shape)} for vectors of sizes {list(x.shape)}"
        raise RuntimeError(f"rustdev::rotary: angles of sizes {sizes}")
    return torch.empty_like(x)


def _summands(residual: Tensor, x: Tensor, bias: Tensor) -> list[Tensor]:
    """Return the three summands of residual_add, expanded to the size of residual."""
    _check_operands("rustdev::residual_add", residual, x, bias)
    return [residual, x.expand(residual.shape), bias.expand(residual.shape)]


def _new_residual_add(residual: Tensor, x: Tensor, bias: Tensor) -> Tensor:
    _summands(residual, x, bias)
    return torch.empty_like(residual)


def _same_residual(residual: Tensor, x: Tensor, bias: Tensor) -> Tensor:
    _summands(residual, x, bias)
    return residual


def _run_swiglu(gate: Tensor, up: Tensor) -> Tensor:
    out = _new_swiglu(gate, up)
    launch("swiglu", [out], [gate, up])
    return out


def _run_swiglu_backward(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    grad_gate, grad_up = _new_swiglu_backward(grad, gate, up)
    launch("swiglu_backward", [grad_gate], [grad, gate, up])
    # The gradient of up is silu(gate) * grad.
    launch("swiglu", [grad_up], [gate, grad])
    return grad_gate, grad_up


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, sign: float) -> Tensor:
    out = _new_rotary(x, cos, sin)
    (low, high), (out_low, out_high) = x.chunk(2, -1), out.chunk(2, -1)
    angles = [cos.expand(low.shape), sin.expand(low.shape)]
    launch("rotary", [out_low], [low, high, *angles], -sign)
    launch("rotary", [out_high], [high, low, *angles], sign)
    return out


def _run_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return _rotate(x, cos, sin, 1.0)


def _run_rotary_backward(grad: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return _rotate(grad, cos, sin, -1.0)


def _run_residual_add(residual: Tensor, x: Tensor, bias: Tensor) -> Tensor:
    out = _new_residual_add(residual, x, bias)
    launch("residual_add", [out], _summands(residual, x, bias))
    return out


def _run_residual_add_(residual: Tensor, x: Tensor, bias: Tensor) -> Tensor:
    launch("residual_add", [residual], _summands(residual, x, bias))
    return residual


for _name, _kernel, _meta in (
    ("swiglu", _run_swiglu, _new_swiglu),
    ("swiglu_backward", _run_swiglu_backward, _new_swiglu_backward),
    ("rotary", _run_rotary, _new_rotary),
    ("rotary_backward", _run_rotary_backward, _new_rotary),
    ("residual_add", _run_residual_add, _new_residual_add),
    ("residual_add_", _run_residual_add_, _same_residual),
):
    _register(_name, _kernel, "PrivateUse1")
    _register(_name, _meta, "Meta")

# ---- autograd ------------------------------------------------------------------------------------------------------------------
# Kernels of the autograd key. The device kernels run below it, where neither the autograd graph nor grad mode is visible.


def _below_autograd(operator: Any, *tensors: Any) -> Any:
    with torch._C._AutoDispatchBelowADInplaceOrView():
        return operator(*tensors)


class _Swiglu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Any:
        ctx.save_for_backward(gate, up)
        return _below_autograd(_swiglu, gate, up)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        gate, up = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return _swiglu_backward(grad, gate, up)
        # For double backward: only differentiable operators.
        sigmoid = gate.sigmoid()
        slope = sigmoid * (1 + gate * (1 - sigmoid))
        return grad * up * slope, _swiglu(gate, grad)


class _Rotation(torch.autograd.Function):
    """rotary or rotary_backward; the gradient is computed by the other one."""

    @staticmethod
    def forward(ctx: Any, rotate: Any, rotate_back: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Any:
        ctx.save_for_backward(cos, sin)
        ctx.rotate_back = rotate_back
        return _below_autograd(rotate, x, cos, sin)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, ctx.rotate_back(grad, *ctx.saved_tensors), None, None


def _rotation(rotate: Any, rotate_back: Any) -> Callable[..., Tensor]:
    """Return the autograd kernel of a rotation."""

    def rotate_with_graph(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if torch.is_grad_enabled() and (cos.requires_grad or sin.requires_grad):
            raise NotImplementedError("rustdev::rotary has no gradient for its angles: detach cos and sin")
        result: Tensor = _Rotation.apply(rotate, rotate_back, x, cos, sin)
        return result

    return rotate_with_graph


class _NotImplemented(torch.autograd.Function):
    """An operator without a derivative: the forward runs, and differentiating its result raises."""

    @staticmethod
    def forward(ctx: Any, operator: Any, *tensors: Tensor) -> Any:
        ctx.operator = operator.name()
        if operator._schema.is_mutable:
            ctx.mark_dirty(tensors[0])
        return _below_autograd(operator, *tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(f"derivative for {ctx.operator} is not implemented")

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(
            f"Trying to use forward AD with {ctx.operator} that does not support it because it has not been implemented yet."
        )


def _residual_add_with_graph_(residual: Tensor, x: Tensor, bias: Tensor) -> Any:
    owner = residual if residual._base is None else residual._base
    if torch.is_grad_enabled() and owner.is_leaf and owner.requires_grad:
        view = "" if owner is residual else "view of a "
        raise RuntimeError(f"a {view}leaf Variable that requires grad is being used in an in-place operation.")
    return _NotImplemented.apply(_residual_add_, residual, x, bias)


def _count_version(keys: torch.DispatchKeySet, residual: Tensor, x: Tensor, bias: Tensor) -> Tensor:
    """Kernel of ADInplaceOrView: increments the version counter, also without autograd, as for normal tensors in inference mode."""
    torch.autograd.graph.increment_version(residual)
    with torch._C._AutoDispatchBelowADInplaceOrView():
        result: Tensor = _residual_add_.redispatch(keys & torch._C._after_ADInplaceOrView_keyset, residual, x, bias)
    return result


_register("swiglu", lambda gate, up: _Swiglu.apply(gate, up), "AutogradPrivateUse1")
_register("rotary", _rotation(_rotary, _rotary_backward), "AutogradPrivateUse1")
_register("rotary_backward", _rotation(_rotary_backward, _rotary), "AutogradPrivateUse1")
_register("swiglu_backward", lambda *tensors: _NotImplemented.apply(_swiglu_backward, *tensors), "AutogradPrivateUse1")
_register("residual_add", lambda *tensors: _NotImplemented.apply(_residual_add, *tensors), "AutogradPrivateUse1")
_register("residual_add_", _residual_add_with_graph_, "AutogradPrivateUse1")
_register("residual_add_", _count_version, "ADInplaceOrView", with_keyset=True)
_register("geglu", lambda gate, up: functional.gelu(gate).mul(up), "CompositeImplicitAutograd")

# ---- autocast ------------------------------------------------------------------------------------------------------------------
# swiglu and residual_add compute in the widest dtype of their operands, as ATen's pointwise operators of several tensors do. rotary
# keeps the dtype of x and casts the angles, which models keep in float32, to it.

_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)  # type: ignore[attr-defined]


def _is_cast(tensor: Tensor) -> bool:
    """Whether autocast may cast a tensor."""
    return tensor.device.type == NAME and tensor.is_floating_point() and tensor.dtype is not torch.float64


def _to_widest(*tensors: Tensor) -> list[Tensor]:
    """Cast the tensors to the dtype that PyTorch's autocast policy `promote` chooses."""
    low = widest = torch.get_autocast_dtype(NAME)
    for tensor in filter(_is_cast, tensors):
        if torch.float32 in (widest, tensor.dtype):
            widest = torch.float32
        elif tensor.dtype is not low:
            raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return [tensor.to(widest) if _is_cast(tensor) else tensor for tensor in tensors]


def _swiglu_autocast(gate: Tensor, up: Tensor) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
        return _swiglu(*_to_widest(gate, up))


def _rotary_autocast(x: Tensor, cos: Tensor, sin: Tensor) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
        return _rotary(x, cos.to(x.dtype), sin.to(x.dtype))


def _residual_add_autocast(residual: Tensor, x: Tensor, bias: Tensor) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
        return _residual_add(*_to_widest(residual, x, bias))


def _residual_add_autocast_(residual: Tensor, x: Tensor, bias: Tensor) -> Any:
    # The dtype of an in-place result is fixed.
    with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
        return _residual_add_(residual, x.to(residual.dtype), bias.to(residual.dtype))


_register("swiglu", _swiglu_autocast, "AutocastPrivateUse1")
_register("rotary", _rotary_autocast, "AutocastPrivateUse1")
_register("residual_add", _residual_add_autocast, "AutocastPrivateUse1")
_register("residual_add_", _residual_add_autocast_, "AutocastPrivateUse1")

# ---- functionalization ---------------------------------------------------------------------------------------------------------
# PyTorch's fallback handles all operators without aliases. The in-place operator is replaced by the functional one and an update of
# its argument.

_FUNCTIONALIZE = torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize)


def _unwrapped(tensor: Tensor) -> Tensor:
    """Return the tensor that a functional tensor wraps, with all pending updates applied."""
    if not torch._is_functional_tensor(tensor):
        return tensor
    torch._functionalize_sync(tensor)
    return torch._from_functional_tensor(tensor)


def _residual_add_functionalized(residual: Tensor, x: Tensor, bias: Tensor) -> Tensor:
    wrapped = torch._is_functional_tensor(residual)
    if not wrapped and (torch._is_functional_tensor(x) or torch._is_functional_tensor(bias)):
        raise RuntimeError("rustdev::residual_add_: a tensor that is not functional would be changed by functional ones")
    inner = [_unwrapped(tensor) for tensor in (residual, x, bias)]
    with torch._C._ExcludeDispatchKeyGuard(_FUNCTIONALIZE):
        if not wrapped:
            _residual_add_(*inner)
            return residual
        result = _residual_add(*inner)
    torch._functionalize_replace(residual, result)
    torch._functionalize_commit_update(residual)
    torch._functionalize_sync(residual)
    return residual


_register("residual_add_", _residual_add_functionalized, "Functionalize")
