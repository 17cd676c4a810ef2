"""torchao: ``quantize_`` reaches PyTorch's operators for quantised products on the device, and a configuration for 4 bits a weight.

:func:`rustdev.integrations.enable` lets the first two of these configurations reach their operator, on the device alone:

| configuration | operator on the device |
|---|---|
| ``torchao.quantization.Int8WeightOnlyConfig`` | ``aten::_weight_int8pack_mm`` |
| ``torchao.quantization.Int8DynamicActivationInt8WeightConfig`` | ``aten::_int_mm`` |
| :class:`Int4WeightOnlyConfig` | ``aten::_weight_int4pack_mm_for_cpu``, which the CPU has too |
"""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MethodType, ModuleType
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchao.core.config import AOBaseConfig
from torchao.kernel import intmm
from torchao.quantization.quant_primitives import MappingType, _choose_qparams_affine_tinygemm, _quantize_affine_tinygemm
from torchao.quantization.transform_module import register_quantize_module_handler
from torchao.quantization.utils import _linear_extra_repr, pack_tinygemm_scales_and_zeros
from torchao.utils import TorchAOBaseTensor
from typing_extensions import Self

from .._imports import _replace_everywhere
from .._name import NAME

__all__ = ["Int4Tensor", "Int4WeightOnlyConfig", "multiply_int8"]

#: Sizes of groups for which PyTorch has kernels, and what the number of output features is a multiple of.
GROUP_SIZES = (32, 64, 128, 256)
ROWS = 16
#: Dtypes of activations for which PyTorch has kernels.
FLOATING = (torch.float32, torch.bfloat16, torch.float16)

_logger = logging.getLogger(__name__)
_aten = torch.ops.aten


_patched: list[str] = []


def cache_key() -> list[str]:
    """Return what compiled code with quantised tensors depends on: this file, and whether torchao is patched."""
    return [hashlib.sha256(Path(__file__).read_bytes()).hexdigest(), *_patched]


def multiply_int8(quantization: ModuleType) -> None:
    """Patch the products of int8 weights on the device, with activations that are not quantised and with those that are.

    Args:
        quantization: ``torchao.quantization``.
    """
    cls = quantization.Int8Tensor
    by_function, by_operator = cls._TORCH_FN_TABLE[cls][functional.linear], cls._ATEN_OP_TABLE[cls][_aten.linear.default]
    cls.implements_torch_function(functional.linear)(_int8_linear(by_function))
    cls.implements(_aten.linear.default)(_int8_linear(by_operator))
    _replace_everywhere(intmm.safe_int_mm, _int8_product(intmm.safe_int_mm))
    _patched.append("int8")


def _int8_product(original: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return torchao's function for products of int8 matrices, with the device's operator.

    That has no conditions. torchao's function prints its argument, which waits; on devices but CUDA and XPU it multiplies as int32,
    and where sizes are no multiples of 8, on the CPU, from where it returns to another device's first.
    """

    def safe_int_mm(input: Tensor, mat2: Tensor) -> Tensor:  # noqa: A002 - torchao's name
        if input.device.type == NAME and input.dtype is mat2.dtype is torch.int8:
            return torch._int_mm(input, mat2)
        return original(input, mat2)

    return safe_int_mm


def _linear_arguments(x: Tensor, weight: Any, bias: Tensor | None = None) -> tuple[Tensor, Any, Tensor | None]:
    """Return the arguments of ``linear``, of which the last may be absent."""
    return x, weight, bias


def _finished(product: Tensor, x: Tensor, bias: Tensor | None) -> Tensor:
    """Return a product of the rows of x, [M, N], with the batch dimensions and the dtype of x, and a bias added."""
    product = product.reshape(*x.shape[:-1], -1)
    return (product if bias is None else product + bias).to(x.dtype)


def _needs_gradient(x: Tensor) -> bool:
    """Return whether a gradient is wanted through a product, which the operators of quantised products do not have."""
    return torch.is_grad_enabled() and x.requires_grad


def _int8_linear(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return torchao's function for products with int8 weights, with the device's operator where that has the same meaning."""

    def linear(function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        x, weight, bias = _linear_arguments(*args, **kwargs)
        q, scale = weight.qdata, weight.scale
        is_plain = weight.act_quant_kwargs is None and weight.act_pre_scale is None and scale.numel() == q.shape[0]
        is_plain &= q.dim() == 2 and q.is_contiguous()
        ours = x.device.type == q.device.type == NAME and x.dtype in FLOATING
        if not (ours and is_plain) or _needs_gradient(x):
            return original(function, types, args, kwargs)
        product = _aten._weight_int8pack_mm(x.reshape(-1, x.shape[-1]).contiguous(), q, scale.to(x.dtype).flatten())
        return _finished(product, x, bias)

    return linear


class Int4Tensor(TorchAOBaseTensor):  # type: ignore[misc]
    """Weights of a linear layer, [N, K], with 4 bits each: ``(q - 8) * scale + zero``.

    The order of the packed weights is that of the processor's kernels. It is the same on the device and on the CPU.

    Args:
        qdata: Packed weights, [N, K / 2], uint8.
        scale_and_zero: Scales and zeros of groups, [K / group_size, N, 2], of the dtype of the weights.
        group_size: Number of consecutive weights of a row with one scale and one zero.
    """

    tensor_data_names: ClassVar[list[str]] = ["qdata", "scale_and_zero"]
    tensor_attribute_names: ClassVar[list[str]] = ["group_size"]

    def __new__(cls, qdata: Tensor, scale_and_zero: Tensor, group_size: int) -> Self:
        """Return a tensor without a storage of its own."""
        shape = qdata.shape[0], qdata.shape[1] * 2
        return torch.Tensor._make_wrapper_subclass(cls, shape, device=qdata.device, dtype=scale_and_zero.dtype)

    def __init__(self, qdata: Tensor, scale_and_zero: Tensor, group_size: int) -> None:
        super().__init__()
        self.qdata, self.scale_and_zero, self.group_size = qdata, scale_and_zero, group_size

    @classmethod
    def from_hp(cls, weight: Tensor, group_size: int) -> Self:
        """Quantise weights, as torchao does it for its kernels with float zeros.

        Args:
            weight: [N, K], float32, bfloat16 or float16; N is a multiple of 16, K of the group.
            group_size: 32, 64, 128 or 256.
        """
        groups = {"block_size": (1, group_size), "quant_min": 0, "quant_max": 15}
        dtypes = {"scale_dtype": weight.dtype, "zero_point_dtype": weight.dtype}
        scale, zero = _choose_qparams_affine_tinygemm(weight, MappingType.ASYMMETRIC, target_dtype=torch.int32, **groups, **dtypes)
        q = _quantize_affine_tinygemm(weight, scale=scale, zero_point=zero, output_dtype=torch.int32, **groups)
        parts = (part.reshape(weight.shape[0], -1) for part in (scale, zero))
        return cls(
            _aten._convert_weight_to_int4pack_for_cpu(q, 2), pack_tinygemm_scales_and_zeros(*parts, weight.dtype), group_size
        )

    def dequantize(self) -> Tensor:
        """Return the weights that products are computed with, [N, K]."""
        return functional.linear(torch.eye(self.shape[1], dtype=self.dtype, device=self.device), self).T

    def _stable_hash_for_caching(self) -> str:
        """Return what compiled code depends on, for the keys of PyTorch's caches."""
        return f"{type(self).__qualname__}{tuple(self.shape), self.dtype, self.device, self.group_size, self.requires_grad}"

    def _quantization_type(self) -> str:
        """Return what the representation of a layer says of its weights."""
        return f"shape={tuple(self.shape)}, group_size={self.group_size}, device={self.device}"


@Int4Tensor.implements(_aten.linear.default)  # type: ignore[untyped-decorator]
@Int4Tensor.implements_torch_function(functional.linear)  # type: ignore[untyped-decorator]
def _int4_linear(function: Any, types: Any, args: Any, kwargs: Any) -> Tensor:
    """Multiply with packed weights: x is [*, K] of any floating dtype, the result [*, N] of its dtype."""
    x, weight, bias = _linear_arguments(*args, **kwargs)
    if _needs_gradient(x):
        return functional.linear(x, weight.dequantize().to(x.dtype), bias)
    rows = x.reshape(-1, x.shape[-1]).to(weight.dtype).contiguous()
    product = _aten._weight_int4pack_mm_for_cpu(rows, weight.qdata, weight.group_size, weight.scale_and_zero)
    return _finished(product, x, bias)


@dataclass
class Int4WeightOnlyConfig(AOBaseConfig):  # type: ignore[misc]
    """Configuration of ``torchao.quantization.quantize_`` for linear layers whose weights have 4 bits and a scale for each group.

    A layer whose input features are no multiple of the group, or whose output features are none of 16, is left as it is.

    Args:
        group_size: Number of consecutive weights of a row with one scale and one zero: 32, 64, 128 or 256.

    Raises:
        ValueError: If there is no kernel for such groups.
    """

    group_size: int = 128

    def __post_init__(self) -> None:
        if self.group_size not in GROUP_SIZES:
            raise ValueError(f"group_size is {self.group_size}, and there are kernels for {', '.join(map(str, GROUP_SIZES))}")


@register_quantize_module_handler(Int4WeightOnlyConfig)  # type: ignore[untyped-decorator]
def _quantize_int4(module: nn.Linear, config: Int4WeightOnlyConfig) -> nn.Linear:
    """Quantise the weights of a layer."""
    rows, columns = module.weight.shape
    if rows % ROWS or columns % config.group_size:
        _logger.info(
            "Linear(in_features=%d, out_features=%d) is not quantised: no multiples of %d and %d",
            columns, rows, config.group_size, ROWS,
        )  # fmt: skip
        return module
    module.weight = nn.Parameter(Int4Tensor.from_hp(module.weight.detach(), config.group_size), requires_grad=False)
    module.extra_repr = MethodType(_linear_extra_repr, module)  # type: ignore[method-assign]
    return module


torch.serialization.add_safe_globals([Int4Tensor])
