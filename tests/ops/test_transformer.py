"""PyTorch's fast paths for multi-head attention and encoder layers, without the fallback, against the CPU's kernels."""

import pytest
import torch
from comparison import compare, compare_errors

T = torch.Tensor
BATCH, LENGTH, WIDTH, HEADS = 2, 5, 8, 2
#: The sizes of a mask, by its type.
MASKS = {0: (LENGTH, LENGTH), 1: (BATCH, LENGTH), 2: (BATCH, HEADS, LENGTH, LENGTH)}


def mask_of(kind: int | None) -> torch.Tensor | None:
    """Return a mask that leaves each query its first key."""
    if kind is None:
        return None
    mask = torch.rand(MASKS[kind]) > 0.5
    mask[..., 0] = False
    return mask


def projections(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Return the weights and biases of attention."""
    return [torch.randn(size, dtype=dtype) / 2 for size in [(3 * WIDTH, WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,)]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("weights", [None, "averaged", "by head"])
@pytest.mark.parametrize("kind", [None, *MASKS])
@pytest.mark.parametrize("shared", ["qkv", "kv", "qk", ""])
def test_multi_head_attention(shared: str, kind: int | None, weights: str | None, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    tensors = {name: torch.randn(BATCH, LENGTH, WIDTH, dtype=dtype) for name in "qkv"}
    mask = mask_of(kind)

    def attend(query: T, key: T, value: T, mask: T | None, *given: T) -> tuple[T, T | None]:
        inputs = {"q": query, "k": key, "v": value}
        query, key, value = (inputs[shared[0] if name in shared else name] for name in "qkv")
        needed = {"need_weights": weights is not None, "average_attn_weights": weights == "averaged"}
        return torch._native_multi_head_attention(query, key, value, WIDTH, HEADS, *given, mask, **needed, mask_type=kind)

    tolerance = {torch.float64: 1e-12, torch.bfloat16: 4e-2}.get(dtype, 1e-5)
    compare(attend, *tensors.values(), mask, *projections(dtype), rtol=tolerance)


@pytest.mark.parametrize("kind", [None, 0, 1])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer(norm_first: bool, activation: str, kind: int | None) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 16, 0.0, activation, norm_first=norm_first, batch_first=True).eval()
    mask = mask_of(kind)

    def encode(source: T, mask: T | None) -> T:
        masks = {} if mask is None else {"src_mask" if kind == 0 else "src_key_padding_mask": mask}
        with torch.no_grad():
            return layer.to(source.device)(source, **masks)

    compare(encode, torch.randn(BATCH, LENGTH, WIDTH), mask, rtol=1e-5)


def test_empty_batches_and_masks_of_four_dimensions() -> None:
    given, mask = projections(), mask_of(2)
    layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True).eval()

    def attend(x: T, mask: T | None, *given: T) -> tuple[T, T | None]:
        return torch._native_multi_head_attention(x, x, x, WIDTH, HEADS, *given, mask, mask_type=0)

    def encode(x: T) -> T:
        with torch.no_grad():
            return layer.to(x.device)(x)

    compare(lambda x, *given: attend(x, None, *given)[0], torch.empty(0, LENGTH, WIDTH), *given)
    compare(encode, torch.empty(0, LENGTH, WIDTH))
    compare(attend, torch.randn(BATCH, LENGTH, WIDTH), mask, *given, rtol=1e-5)


def test_a_query_without_keys_is_nan() -> None:
    torch.manual_seed(0)
    mask = torch.eye(LENGTH, dtype=torch.bool)
    mask[1] = True

    def attend(x: T, mask: T, *given: T) -> tuple[T, T]:
        return torch._native_multi_head_attention(x, x, x, WIDTH, HEADS, *given, mask, mask_type=0)

    compare(attend, torch.randn(BATCH, LENGTH, WIDTH), mask, *projections(), rtol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"heads": 3},
        {"width": 9},
        {"query": (LENGTH, WIDTH)},
        {"key": (BATCH, 7, WIDTH)},
        {"kind": None},
        {"weight": (WIDTH, WIDTH)},
    ],
    ids=str,
)
def test_errors_are_pytorchs(change: dict) -> None:
    query = torch.randn(change.get("query", (BATCH, LENGTH, WIDTH)))
    key = torch.randn(change["key"]) if "key" in change else query
    weight, *others = projections()

    def attend(query: T, key: T, weight: T, mask: T, *others: T) -> tuple[T, T]:
        width, heads, kind = change.get("width", WIDTH), change.get("heads", HEADS), change.get("kind", 0)
        return torch._native_multi_head_attention(query, key, key, width, heads, weight, *others, mask, mask_type=kind)

    compare_errors(attend, query, key, torch.randn(change.get("weight", weight.shape)), mask_of(0), *others)
