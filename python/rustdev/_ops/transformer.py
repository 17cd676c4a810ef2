"""What ``nn.MultiheadAttention`` and ``nn.TransformerEncoderLayer`` call when no gradient is needed.

Both are composed of the operators that the modules call otherwise. Attention without a mask has memory linear in the length.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

from .registration import kernel, scalar_type

_attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


def _over(scores: Tensor, mask: Tensor, kind: int | None) -> Tensor:
    """Return the mask of scores (batch, heads, length, length), true where they take no part, in sizes that broadcast to theirs."""
    batch, _, length, _ = scores.shape
    if mask.dim() != 2:
        kind = 2
    if kind is None:
        raise RuntimeError("Mask Type should be defined")
    sizes: tuple[int, ...]
    seen: tuple[int, ...]
    if kind == 0:
        sizes, seen, text = (length, length), (1, 1, length, length), "be (L, L)"
    elif kind == 1:
        sizes, seen, text = (batch, length), (batch, 1, 1, length), "be (B, L)"
    elif kind == 2:
        sizes, seen, text = scores.shape, scores.shape, "match input shape"
    else:
        raise RuntimeError("Mask Type should be 0 (src_mask) or 1 (src_key_padding_mask), or 2 (default_mask)")
    if mask.shape != sizes:
        raise RuntimeError(f"For mask_type == {kind} mask shape should {text}")
    return mask.to(torch.bool).reshape(seen)


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, kind: int | None) -> tuple[Tensor, Tensor]:
    """Return the attention of tensors (batch, heads, length, size), and its weights (batch, heads, length, length)."""
    scores = torch.matmul(query.mul(1 / math.sqrt(query.size(3))), key.transpose(2, 3))
    if mask is not None:
        scores.masked_fill_(_over(scores, mask, kind), -math.inf)
    weights = torch._softmax(scores, 3, False)
    return torch.matmul(weights, value), weights


def _project(inputs: list[Tensor], weight: Tensor, bias: Tensor) -> list[Tensor]:
    """Return the query, key and value, projected by the thirds of a weight and a bias."""
    if inputs[1] is inputs[0] and inputs[2] is inputs[0]:
        return list(functional.linear(inputs[0], weight, bias).chunk(3, 2))
    return [functional.linear(*operands) for operands in zip(inputs, weight.chunk(3), bias.chunk(3), strict=True)]


def _check(inputs: list[Tensor], embed_dim: int, num_head: int, weight: Tensor, bias: Tensor) -> None:
    """Raise the errors of PyTorch's CPU kernel."""
    query = inputs[0]
    for name, tensor in zip(("query", "key", "value"), inputs, strict=True):
        if tensor.dim() != 3:
            raise RuntimeError(f"expected 3-D `{name}`, got {tensor.dim()}-D tensor")
        if name == "query" and query.size(2) != embed_dim:
            raise RuntimeError(f"passed-in embed_dim {embed_dim} didn't match last dim of query {query.size(2)}")
    if any(tensor.shape != query.shape for tensor in inputs):
        raise RuntimeError("expected `query`/`key`/`value` shapes to match")
    if weight.dim() != 2:
        raise RuntimeError(f"expected 2-D `qkv_weight`, got {weight.dim()}-D tensor")
    if weight.size(0) != 3 * embed_dim:
        raise RuntimeError("expected `qkv_weight` first dim to be 3x embed_dim")
    if weight.size(1) != embed_dim:
        raise RuntimeError("expected `qkv_weight` second dim to be embed_Dim")
    if bias.dim() != 1:
        raise RuntimeError(f"expected 1-D `qkv_bias`, got {bias.dim()}-D tensor")
    if bias.size(0) != 3 * embed_dim:
        raise RuntimeError("expected `qkv_bias` first dim and first dim of query to be equal")
    # PyTorch's kernel divides by zero heads.
    if num_head <= 0 or embed_dim % num_head != 0:
        raise RuntimeError("`embed_dim` must divide evenly by `num_heads`")
    if not query.is_floating_point():
        raise NotImplementedError(f"\"transform_bias_rescale_qkv\" not implemented for '{scalar_type(query.dtype)}'")


@kernel("_native_multi_head_attention")
def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Return the result of attention and, if they are needed, its weights."""
    inputs = [query, key, value]
    _check(inputs, embed_dim, num_head, qkv_weight, qkv_bias)
    if query.numel() == 0:
        return query.new_empty(query.shape), None
    heads = (*query.shape[:2], num_head, embed_dim // num_head)
    q, k, v = (projected.view(heads).transpose(1, 2) for projected in _project(inputs, qkv_weight, qkv_bias))
    weights = None
    if need_weights or mask is not None:
        attended, weights = _attend(q, k, v, mask, mask_type)
    else:
        attended = _attention(q, k, v)[0]
    result = functional.linear(attended.transpose(1, 2).reshape(query.shape), proj_weight, proj_bias)
    if not need_weights or weights is None:
        return result, None
    return result, weights.sum(1).div_(num_head) if average_attn_weights else weights


@kernel("_transformer_encoder_layer_fwd")
def encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """Return the result of attention and of two linear layers, each with a residual connection and a layer norm."""
    if src.numel() == 0:
        return src.clone()

    def norm_if(wanted: bool, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.layer_norm(x, [embed_dim], weight, bias, eps) if wanted else x

    x = norm_if(norm_first, src, norm_weight_1, norm_bias_1)
    attention = (embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False)
    attended, _ = multi_head_attention(x, x, x, *attention, mask_type=mask_type)
    middle = norm_if(not norm_first, attended.add_(src), norm_weight_1, norm_bias_1)
    x = norm_if(norm_first, middle, norm_weight_2, norm_bias_2)
    inner = functional.linear(x, ffn_weight_1, ffn_bias_1)
    inner = torch.ops.aten.gelu_.default(inner) if use_gelu else inner.relu_()
    outer = functional.linear(inner, ffn_weight_2, ffn_bias_2)
    return norm_if(not norm_first, outer.add_(middle), norm_weight_2, norm_bias_2)
