"""The cases of `halves.py`: operators that networks use, at sizes where the computation dominates the call overhead."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """An operator with the sizes of its operands.

    Attributes:
        family: Name of the group of cases.
        name: Name of the operator and its sizes.
        call: Function of the floating-point operands, then the indices.
        floats: Sizes of the random floating-point operands.
        indices: Sizes of the integer operands, with their exclusive upper bounds.
        module: Makes a module that is called instead of `call`; its parameters have the dtype of the operands.
        channels_last: Whether operands with four dimensions are in channels last format.
        positive: Whether floating-point operands are positive.
        backward: Whether gradients are measured, too.
        constants: Number of trailing floating-point operands without a gradient.
    """

    family: str
    name: str
    call: Callable[..., Any] | None = None
    floats: tuple[Sizes, ...] = ()
    indices: tuple[tuple[Sizes, int], ...] = ()
    module: Callable[[], nn.Module] | None = None
    channels_last: bool = False
    positive: bool = False
    backward: bool = True
    constants: int = 0


CASES: list[Case] = []


def add(family: str, name: str, call: Callable[..., Any] | None, *floats: Sizes, **options: Any) -> None:
    """Append a case."""
    CASES.append(Case(family, name, call, floats, **options))


def forward_only(family: str, name: str, call: Callable[..., Any], *floats: Sizes, **options: Any) -> None:
    """Append a case without gradients."""
    add(family, name, call, *floats, backward=False, **options)


def of_modules(family: str, name: str, module: Callable[..., nn.Module], *floats: Sizes) -> None:
    """Append a case of a module."""
    add(family, name, None, *floats, module=module)


# ---- convolutions ----------------------------------------------------------------------------------------------------------------
CONVOLUTIONS: list[tuple[str, Callable[..., Any], Sizes, Sizes, dict[str, Any]]] = [
    ("3x3, 32 to 32", functional.conv2d, (8, 32, 32, 32), (32, 32, 3, 3), {"padding": 1}),
    ("3x3, 64 to 64", functional.conv2d, (8, 64, 32, 32), (64, 64, 3, 3), {"padding": 1}),
    ("3x3, 64 to 128, stride 2", functional.conv2d, (8, 64, 32, 32), (128, 64, 3, 3), {"padding": 1, "stride": 2}),
    ("3x3, dilated", functional.conv2d, (8, 32, 32, 32), (32, 32, 3, 3), {"padding": 2, "dilation": 2}),
    ("1x1, 64 to 128", functional.conv2d, (8, 64, 32, 32), (128, 64, 1, 1), {}),
    ("7x7, 3 to 64, stride 2", functional.conv2d, (4, 3, 112, 112), (64, 3, 7, 7), {"padding": 3, "stride": 2}),
    ("16x16, patches", functional.conv2d, (4, 3, 112, 112), (192, 3, 16, 16), {"stride": 16}),
    ("3x3, one image", functional.conv2d, (1, 128, 28, 28), (128, 128, 3, 3), {"padding": 1}),
    ("3x3, 4 groups", functional.conv2d, (8, 64, 32, 32), (64, 16, 3, 3), {"padding": 1, "groups": 4}),
    ("3x3, depthwise", functional.conv2d, (8, 96, 32, 32), (96, 1, 3, 3), {"padding": 1, "groups": 96}),
    ("5x5, depthwise", functional.conv2d, (8, 96, 32, 32), (96, 1, 5, 5), {"padding": 2, "groups": 96}),
    ("3x3, depthwise, stride 2", functional.conv2d, (8, 96, 32, 32), (96, 1, 3, 3), {"padding": 1, "stride": 2, "groups": 96}),
    ("transposed 4x4, stride 2", functional.conv_transpose2d, (8, 64, 16, 16), (64, 32, 4, 4), {"padding": 1, "stride": 2}),
    ("transposed 2x2, stride 2", functional.conv_transpose2d, (4, 64, 32, 32), (64, 32, 2, 2), {"stride": 2}),
    ("1d, 3", functional.conv1d, (8, 64, 512), (64, 64, 3), {"padding": 1}),
    ("1d, 10, stride 5", functional.conv1d, (4, 1, 16000), (64, 1, 10), {"stride": 5}),
    ("1d, depthwise", functional.conv1d, (8, 96, 512), (96, 1, 4), {"padding": 3, "groups": 96}),
    ("1d, transposed", functional.conv_transpose1d, (4, 64, 256), (64, 32, 8), {"padding": 2, "stride": 4}),
    ("3d, 3x3x3", functional.conv3d, (2, 16, 16, 16, 16), (16, 16, 3, 3, 3), {"padding": 1}),
    ("3d, one volume", functional.conv3d, (1, 16, 16, 32, 32), (16, 16, 3, 3, 3), {"padding": 1}),
    ("3d, transposed", functional.conv_transpose3d, (1, 16, 8, 16, 16), (16, 16, 2, 2, 2), {"stride": 2}),
]
for text, convolve, images, weights, geometry in CONVOLUTIONS:
    call = functools.partial(convolve, **geometry)
    add("convolutions", text, call, images, weights)
    if len(images) == 4:
        add("convolutions", f"{text}, channels last", call, images, weights, channels_last=True)

# ---- normalisation ---------------------------------------------------------------------------------------------------------------
IMAGES = (8, 64, 32, 32)


def batch_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Batch norm in training mode, without running statistics."""
    return functional.batch_norm(x, None, None, weight, bias, training=True)


def batch_norm_evaluated(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Batch norm in eval mode, by given statistics."""
    return functional.batch_norm(x, bias.detach(), weight.detach().abs(), weight, bias)


NORMS = "normalisation"
for last in (False, True):
    text = ", channels last" if last else ""
    add(NORMS, f"batch_norm{text}", batch_norm, IMAGES, (64,), (64,), channels_last=last)
    add(NORMS, f"batch_norm in evaluation{text}", batch_norm_evaluated, IMAGES, (64,), (64,), channels_last=last)
    add(NORMS, f"group_norm{text}", lambda x, w, b: functional.group_norm(x, 8, w, b), IMAGES, (64,), (64,), channels_last=last)
add(NORMS, "batch_norm of 1024x512", batch_norm, (1024, 512), (512,), (512,))
add(NORMS, "batch_norm of volumes", batch_norm, (2, 16, 16, 32, 32), (16,), (16,))
add(NORMS, "group_norm, 32 groups", lambda x, w, b: functional.group_norm(x, 32, w, b), (8, 128, 16, 16), (128,), (128,))
add(NORMS, "instance_norm", lambda x, w, b: functional.instance_norm(x, None, None, w, b), IMAGES, (64,), (64,))
add(NORMS, "layer_norm, 768", lambda x, w, b: functional.layer_norm(x, (768,), w, b), (8, 128, 768), (768,), (768,))
add(NORMS, "layer_norm, 96", lambda x, w, b: functional.layer_norm(x, (96,), w, b), (8, 784, 96), (96,), (96,))
add(NORMS, "layer_norm, no weights", lambda x: functional.layer_norm(x, (768,)), (8, 128, 768))
add(NORMS, "rms_norm", lambda x, w: functional.rms_norm(x, (768,), w), (8, 128, 768), (768,))
add(NORMS, "local_response_norm", lambda x: functional.local_response_norm(x, 5), (8, 64, 16, 16))
add(NORMS, "normalize", functional.normalize, (1024, 512))
add(NORMS, "weight_norm", lambda v, g: torch._weight_norm(v, g, 0), (512, 768), (512, 1))

# ---- pooling, images -------------------------------------------------------------------------------------------------------------
POOLING = "pooling"
for last in (False, True):
    text = ", channels last" if last else ""
    add(POOLING, f"max_pool2d 2{text}", lambda x: functional.max_pool2d(x, 2), IMAGES, channels_last=last)
    add(POOLING, f"max_pool2d 3, stride 2{text}", lambda x: functional.max_pool2d(x, 3, 2, 1), IMAGES, channels_last=last)
    add(POOLING, f"avg_pool2d 2{text}", lambda x: functional.avg_pool2d(x, 2), IMAGES, channels_last=last)
    add(POOLING, f"avg_pool2d 3{text}", lambda x: functional.avg_pool2d(x, 3, 1, 1), IMAGES, channels_last=last)
    add(POOLING, f"adaptive_avg_pool2d 1{text}", lambda x: functional.adaptive_avg_pool2d(x, 1), IMAGES, channels_last=last)
    add(POOLING, f"adaptive_avg_pool2d 7{text}", lambda x: functional.adaptive_avg_pool2d(x, 7), IMAGES, channels_last=last)
    add(POOLING, f"adaptive_max_pool2d 7{text}", lambda x: functional.adaptive_max_pool2d(x, 7), IMAGES, channels_last=last)
add(POOLING, "max_pool1d", lambda x: functional.max_pool1d(x, 2), (8, 64, 1024))
add(POOLING, "avg_pool1d", lambda x: functional.avg_pool1d(x, 4), (8, 64, 1024))
add(POOLING, "max_pool3d", lambda x: functional.max_pool3d(x, 2), (2, 16, 16, 32, 32))
add(POOLING, "avg_pool3d", lambda x: functional.avg_pool3d(x, 2), (2, 16, 16, 32, 32))
add(POOLING, "adaptive_avg_pool3d", lambda x: functional.adaptive_avg_pool3d(x, 4), (2, 16, 16, 32, 32))
add(POOLING, "adaptive_max_pool3d", lambda x: functional.adaptive_max_pool3d(x, 4), (2, 16, 16, 32, 32))
add(POOLING, "lp_pool2d", lambda x: functional.lp_pool2d(x, 2.0, 2), IMAGES, positive=True)
add(POOLING, "fractional_max_pool2d", lambda x: functional.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.5)), IMAGES)


def unpooled(x: torch.Tensor) -> torch.Tensor:
    """Max pooling, then unpooling."""
    values, where = functional.max_pool2d(x, 2, return_indices=True)
    return functional.max_unpool2d(values, where, (2, 2))


add(POOLING, "max_unpool2d", unpooled, IMAGES)
RESAMPLING = "resampling"
for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"):
    scaled = functools.partial(functional.interpolate, scale_factor=2, mode=mode)
    add(RESAMPLING, f"interpolate {mode}", scaled, (4, 32, 32, 32))
    add(RESAMPLING, f"interpolate {mode}, channels last", scaled, (4, 32, 32, 32), channels_last=True)
add(RESAMPLING, "interpolate linear", lambda x: functional.interpolate(x, scale_factor=2, mode="linear"), (8, 64, 512))
add(RESAMPLING, "interpolate nearest, 1d", lambda x: functional.interpolate(x, scale_factor=2), (8, 64, 512))
add(RESAMPLING, "interpolate trilinear", lambda x: functional.interpolate(x, scale_factor=2, mode="trilinear"), (2, 8, 8, 16, 16))
add(RESAMPLING, "interpolate nearest, 3d", lambda x: functional.interpolate(x, scale_factor=2), (2, 8, 8, 16, 16))
smoothed = functools.partial(functional.interpolate, size=24, mode="bilinear", antialias=True)
add(RESAMPLING, "interpolate bilinear, antialias", smoothed, (4, 32, 64, 64))
for mode in ("bilinear", "nearest", "bicubic"):
    sampled = functools.partial(functional.grid_sample, mode=mode, align_corners=False)
    add(RESAMPLING, f"grid_sample {mode}", sampled, (4, 32, 32, 32), (4, 32, 32, 2))
sampled = functools.partial(functional.grid_sample, align_corners=False)
add(RESAMPLING, "grid_sample of volumes", sampled, (1, 8, 16, 16, 16), (1, 16, 16, 16, 3))
add(RESAMPLING, "affine_grid", lambda x: functional.affine_grid(x, [8, 3, 64, 64], align_corners=False), (8, 2, 3))
add(RESAMPLING, "pixel_shuffle", lambda x: functional.pixel_shuffle(x, 2), IMAGES)
add(RESAMPLING, "pixel_unshuffle", lambda x: functional.pixel_unshuffle(x, 2), IMAGES)
add(RESAMPLING, "channel_shuffle", lambda x: functional.channel_shuffle(x, 4), IMAGES)
add(RESAMPLING, "unfold 3x3", lambda x: functional.unfold(x, 3, padding=1), (4, 32, 32, 32))
add(RESAMPLING, "fold 3x3", lambda x: functional.fold(x, (32, 32), 3, padding=1), (4, 288, 1024))
for mode in ("constant", "reflect", "replicate", "circular"):
    add(RESAMPLING, f"pad {mode}", lambda x, mode=mode: functional.pad(x, (2, 2, 2, 2), mode), IMAGES)
add(RESAMPLING, "pad replicate of volumes", lambda x: functional.pad(x, (1,) * 6, "replicate"), (2, 8, 16, 32, 32))
add(RESAMPLING, "pad reflect of rows", lambda x: functional.pad(x, (4, 4), "reflect"), (8, 64, 1024))

# ---- products, attention, recurrent layers ---------------------------------------------------------------------------------------
PRODUCTS = "products"
add(PRODUCTS, "mm 512", torch.mm, (512, 512), (512, 512))
add(PRODUCTS, "mm of a transposed", lambda a, b: a @ b.t(), (512, 512), (512, 512))
add(PRODUCTS, "mm 64", torch.mm, (64, 64), (64, 64))
add(PRODUCTS, "mv", torch.mv, (1024, 1024), (1024,))
add(PRODUCTS, "dot", torch.dot, (1 << 20,), (1 << 20,))
add(PRODUCTS, "outer", torch.outer, (1024,), (1024,))
add(PRODUCTS, "linear", functional.linear, (16, 64, 256), (512, 256), (512,))
add(PRODUCTS, "linear, one row", functional.linear, (1, 1024), (1024, 1024), (1024,))
add(PRODUCTS, "bilinear", functional.bilinear, (256, 32), (256, 32), (32, 32, 32), (32,))
add(PRODUCTS, "addmm", torch.addmm, (512, 512), (512, 256), (256, 512))
add(PRODUCTS, "bmm", torch.bmm, (32, 64, 64), (32, 64, 64))
add(PRODUCTS, "baddbmm", torch.baddbmm, (32, 64, 64), (32, 64, 64), (32, 64, 64))
add(PRODUCTS, "addbmm", torch.addbmm, (64, 64), (32, 64, 64), (32, 64, 64))
add(PRODUCTS, "addmv", torch.addmv, (1024,), (1024, 1024), (1024,))
add(PRODUCTS, "addr", torch.addr, (1024, 1024), (1024,), (1024,))
add(PRODUCTS, "einsum", lambda a, b: torch.einsum("bhqd,bhkd->bhqk", a, b), (4, 8, 64, 32), (4, 8, 64, 32))
add(PRODUCTS, "einsum of three", lambda a, b, c: torch.einsum("bi,ij,bj->b", a, b, c), (512, 128), (128, 128), (512, 128))
add(PRODUCTS, "tensordot", lambda a, b: torch.tensordot(a, b, 2), (64, 32, 64), (32, 64, 128))
add(PRODUCTS, "kron", torch.kron, (32, 32), (32, 32))
add(PRODUCTS, "chain", lambda a, b, c: torch.linalg.multi_dot([a, b, c]), (256, 128), (128, 256), (256, 64))
ATTENTION = "attention"
HEADS = (4, 8, 128, 32)
add(ATTENTION, "scaled_dot_product", functional.scaled_dot_product_attention, HEADS, HEADS, HEADS)
add(ATTENTION, "causal", functools.partial(functional.scaled_dot_product_attention, is_causal=True), HEADS, HEADS, HEADS)
add(ATTENTION, "with a mask", functional.scaled_dot_product_attention, HEADS, HEADS, HEADS, (1, 1, 128, 128))
add(ATTENTION, "512 queries of 64", functional.scaled_dot_product_attention, *[(2, 4, 512, 64)] * 3)
of_modules(ATTENTION, "MultiheadAttention", lambda: OfOne(nn.MultiheadAttention(128, 4, batch_first=True), 3), (8, 64, 128))
encoder = functools.partial(nn.TransformerEncoderLayer, 128, 4, 256, 0.0, batch_first=True)
of_modules(ATTENTION, "TransformerEncoderLayer", encoder, (8, 64, 128))


class OfOne(nn.Module):
    """Wraps a module: passes one input several times, and returns the first result."""

    def __init__(self, inner: nn.Module, times: int) -> None:
        """Store the module."""
        super().__init__()
        self.inner, self.times = inner, times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Call the module."""
        first: torch.Tensor = self.inner(*[x] * self.times)[0]
        return first


RECURRENT = "recurrent layers"
for kind in (nn.LSTM, nn.GRU, nn.RNN):
    name = kind.__name__
    of_modules(RECURRENT, name, lambda kind=kind: OfOne(kind(64, 128), 1), (32, 8, 64))
    both = functools.partial(kind, 64, 64, 2, bidirectional=True)
    of_modules(RECURRENT, f"{name}, two directions", lambda both=both: OfOne(both(), 1), (32, 8, 64))
of_modules(RECURRENT, "LSTMCell", lambda: OfOne(nn.LSTMCell(128, 128), 1), (256, 128))
of_modules(RECURRENT, "GRUCell", lambda: nn.GRUCell(128, 128), (256, 128))
of_modules(RECURRENT, "RNNCell", lambda: nn.RNNCell(128, 128), (256, 128))

# ---- losses ----------------------------------------------------------------------------------------------------------------------
LOSSES = "losses"
SCORES, ROWS = (1024, 1000), (((1024,), 1000),)
PAIR = ((1024, 512), (1024, 512))
add(LOSSES, "cross_entropy", functional.cross_entropy, SCORES, indices=ROWS)
add(LOSSES, "cross_entropy, smoothed", functools.partial(functional.cross_entropy, label_smoothing=0.1), SCORES, indices=ROWS)
add(LOSSES, "cross_entropy of images", functional.cross_entropy, (4, 21, 64, 64), indices=(((4, 64, 64), 21),))
add(LOSSES, "cross_entropy of probabilities", functional.cross_entropy, SCORES, SCORES)
add(LOSSES, "nll_loss", functional.nll_loss, SCORES, indices=ROWS)
add(LOSSES, "mse_loss", functional.mse_loss, *PAIR)
add(LOSSES, "l1_loss", functional.l1_loss, *PAIR)
add(LOSSES, "smooth_l1_loss", functional.smooth_l1_loss, *PAIR)
add(LOSSES, "huber_loss", functional.huber_loss, *PAIR)
add(LOSSES, "binary_cross_entropy_with_logits", lambda x, y: functional.binary_cross_entropy_with_logits(x, y.sigmoid()), *PAIR)
add(LOSSES, "binary_cross_entropy", lambda x, y: functional.binary_cross_entropy(x.sigmoid(), y.sigmoid()), *PAIR)
add(LOSSES, "kl_div", lambda x, y: functional.kl_div(x, y, reduction="batchmean"), *PAIR, positive=True)
add(LOSSES, "poisson_nll_loss", functional.poisson_nll_loss, *PAIR, positive=True)
add(LOSSES, "gaussian_nll_loss", functional.gaussian_nll_loss, *PAIR, (1024, 512), positive=True)
add(LOSSES, "soft_margin_loss", functional.soft_margin_loss, *PAIR, constants=1)
add(LOSSES, "hinge_embedding_loss", functional.hinge_embedding_loss, *PAIR, constants=1)
add(LOSSES, "margin_ranking_loss", functional.margin_ranking_loss, (65536,), (65536,), (65536,), constants=1)
add(LOSSES, "triplet_margin_loss", functional.triplet_margin_loss, *PAIR, (1024, 512))
add(LOSSES, "cosine_embedding_loss", functional.cosine_embedding_loss, *PAIR, (1024,), constants=1)
add(LOSSES, "multi_margin_loss", functional.multi_margin_loss, (1024, 100), indices=(((1024,), 100),))
add(LOSSES, "multilabel_margin_loss", functional.multilabel_margin_loss, (1024, 50), indices=(((1024, 50), 50),))
soft_margins = lambda x, y: functional.multilabel_soft_margin_loss(x, y.sigmoid())  # noqa: E731
add(LOSSES, "multilabel_soft_margin_loss", soft_margins, (1024, 100), (1024, 100))
ctc = lambda x, targets: torch.ctc_loss(x.log_softmax(-1), targets + 1, [64] * 16, [12] * 16)  # noqa: E731
add(LOSSES, "ctc_loss", ctc, (64, 16, 32), indices=(((16, 12), 31),))
DISTANCES = "distances"
add(DISTANCES, "pairwise_distance", functional.pairwise_distance, *PAIR)
add(DISTANCES, "cosine_similarity", functional.cosine_similarity, *PAIR)
add(DISTANCES, "renorm", lambda x: x.renorm(2, 0, 1.0), (1024, 512))

# ---- rows through indices --------------------------------------------------------------------------------------------------------
TABLES = "embeddings and indices"
TABLE, LOOKUPS = (10000, 128), (((64, 64), 10000),)
add(TABLES, "embedding", lambda w, i: functional.embedding(i, w), TABLE, indices=LOOKUPS)
for mode in ("sum", "mean", "max"):
    add(TABLES, f"embedding_bag {mode}", lambda w, i, mode=mode: functional.embedding_bag(i, w, mode=mode), TABLE, indices=LOOKUPS)
MATRIX, COLUMNS = (1024, 1024), (((1024, 1024), 1024),)
SOME = (((1024,), 1024),)
add(TABLES, "gather", lambda x, i: x.gather(1, i), MATRIX, indices=COLUMNS)
add(TABLES, "take_along_dim", lambda x, i: torch.take_along_dim(x, i, 0), MATRIX, indices=COLUMNS)
add(TABLES, "index_select", lambda x, i: x.index_select(0, i), MATRIX, indices=SOME)
add(TABLES, "index", lambda x, i: x[i], MATRIX, indices=SOME)
add(TABLES, "index of columns", lambda x, i: x[:, i], MATRIX, indices=SOME)
add(TABLES, "take", lambda x, i: x.take(i), MATRIX, indices=COLUMNS)
add(TABLES, "scatter", lambda x, y, i: x.scatter(1, i, y), MATRIX, MATRIX, indices=COLUMNS)
add(TABLES, "scatter_add", lambda x, y, i: x.scatter_add(1, i, y), MATRIX, MATRIX, indices=COLUMNS)
add(TABLES, "index_add", lambda x, y, i: x.index_add(0, i, y), MATRIX, MATRIX, indices=SOME)
add(TABLES, "index_copy", lambda x, y, i: x.index_copy(0, i, y), MATRIX, MATRIX, indices=SOME)
add(TABLES, "index_fill", lambda x, i: x.index_fill(0, i, 1.0), MATRIX, indices=SOME)
add(TABLES, "index_put, accumulated", lambda x, y, i: x.index_put((i,), y, accumulate=True), MATRIX, MATRIX, indices=SOME)
PARTS = ((256, 1024), (256, 1024))
for how in ("sum", "prod", "mean", "amax"):
    scattered = lambda x, y, i, how=how: x.scatter_reduce(1, i, y, how)  # noqa: E731
    other = "amin" if how == "sum" else how
    by_rows = lambda x, y, i, how=other: x.index_reduce(0, i, y, how)  # noqa: E731
    add(TABLES, f"scatter_reduce {how}", scattered, *PARTS, indices=(((256, 1024), 1024),), positive=True)
    add(TABLES, f"index_reduce {how}", by_rows, *PARTS, indices=(((256,), 256),), positive=True)
add(TABLES, "masked_select", lambda x: x.masked_select(x > 0), MATRIX)
add(TABLES, "masked_scatter", lambda x, y: x.masked_scatter(x > 0, y), MATRIX, MATRIX)


def of_segments(x: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
    """Sum segments of 16 rows."""
    return torch.segment_reduce(x, "sum", lengths=torch.full_like(segments, 16), unsafe=True)


add(TABLES, "segment_reduce", of_segments, (16384, 64), indices=(((1024,), 9),))


# ---- along a dimension -----------------------------------------------------------------------------------------------------------
ALONG = "along a dimension"
REDUCTIONS = "softmax log_softmax sum mean var std logsumexp amax cumsum cumprod logcumsumexp prod"
for dim in (-1, 0):
    text = "rows" if dim else "columns"
    for named in REDUCTIONS.split():
        reduce = functools.partial(getattr(torch, named), dim=dim)
        add(ALONG, f"{named} of {text}", reduce, MATRIX, positive=named in ("cumprod", "prod", "std"))
    for named in ("max", "median", "cummax", "sort"):
        add(ALONG, f"{named} of {text}", lambda x, named=named, dim=dim: getattr(torch, named)(x, dim)[0], MATRIX)
    add(ALONG, f"topk of {text}", lambda x, dim=dim: x.topk(8, dim)[0], MATRIX)
    add(ALONG, f"kthvalue of {text}", lambda x, dim=dim: x.kthvalue(100, dim)[0], (256, 1024))
    add(ALONG, f"norm of {text}", lambda x, dim=dim: torch.linalg.vector_norm(x, 2, dim), MATRIX)
    add(ALONG, f"diff of {text}", lambda x, dim=dim: x.diff(dim=dim), MATRIX)
    forward_only(ALONG, f"argmax of {text}", lambda x, dim=dim: x.argmax(dim), MATRIX)
    forward_only(ALONG, f"argsort of {text}", lambda x, dim=dim: x.argsort(dim), MATRIX)
    forward_only(ALONG, f"count_nonzero of {text}", lambda x, dim=dim: x.count_nonzero(dim), MATRIX)
add(ALONG, "sum", torch.sum, MATRIX)
add(ALONG, "mean", torch.mean, MATRIX)
add(ALONG, "norm", torch.norm, MATRIX)
add(ALONG, "prod", torch.prod, (65536,), positive=True)
add(ALONG, "nansum", torch.nansum, MATRIX)
add(ALONG, "max", torch.max, MATRIX)
add(ALONG, "median", torch.median, MATRIX)
add(ALONG, "quantile-like sort", lambda x: x.flatten().sort()[0], MATRIX)
add(ALONG, "trapezoid", torch.trapezoid, MATRIX)
forward_only(ALONG, "unique", torch.unique, MATRIX)
forward_only(ALONG, "nonzero", torch.nonzero, MATRIX)
forward_only(ALONG, "searchsorted", lambda x, y: torch.searchsorted(x.sort()[0], y), (1024,), (1 << 18,))
forward_only(ALONG, "bucketize", lambda x, y: torch.bucketize(y, x.sort()[0]), (128,), (1 << 18,))
forward_only(ALONG, "isin", torch.isin, (1 << 16,), (1024,))
forward_only(ALONG, "mode", lambda x: x.round().mode(-1)[0], (256, 256))
forward_only(ALONG, "aminmax", torch.aminmax, MATRIX)

# ---- elementwise -----------------------------------------------------------------------------------------------------------------
ELEMENTWISE = "elementwise"
ACTIVATIONS = """relu gelu silu mish elu selu celu hardswish hardsigmoid hardtanh softplus leaky_relu logsigmoid softshrink
    hardshrink tanhshrink relu6 softsign"""
OF_ALL = """exp expm1 exp2 sigmoid tanh sin cos tan sinh cosh atan asinh erf erfc erfinv abs neg square reciprocal frac sinc
    nan_to_num logit"""
OF_TWO = "add sub mul div maximum minimum atan2 hypot fmod remainder logaddexp pow xlogy copysign"
for named in ACTIVATIONS.split():
    add(ELEMENTWISE, named, getattr(functional, named), MATRIX)
for named in OF_ALL.split():
    add(ELEMENTWISE, named, getattr(torch, named), MATRIX)
for named in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "lgamma", "digamma", "i0"):
    add(ELEMENTWISE, named, getattr(torch, named), MATRIX, positive=True)
for named in OF_TWO.split():
    add(ELEMENTWISE, named, getattr(torch, named), MATRIX, MATRIX, positive=True)
for named in ("floor", "ceil", "round", "trunc", "sign", "signbit", "isnan", "isfinite", "logical_not"):
    forward_only(ELEMENTWISE, named, getattr(torch, named), MATRIX)
for named in ("eq", "lt", "heaviside", "isclose", "floor_divide", "logical_and"):
    forward_only(ELEMENTWISE, named, getattr(torch, named), MATRIX, MATRIX)
add(ELEMENTWISE, "add of a row", torch.add, MATRIX, (1024,))
add(ELEMENTWISE, "mul of a column", torch.mul, MATRIX, (1024, 1))
add(ELEMENTWISE, "pow 3", lambda x: x.pow(3), MATRIX)
add(ELEMENTWISE, "pow 0.5", lambda x: x.pow(0.5), MATRIX, positive=True)
add(ELEMENTWISE, "clamp", lambda x: x.clamp(-0.5, 0.5), MATRIX)
add(ELEMENTWISE, "where", lambda x, y: torch.where(x > y, x, y), MATRIX, MATRIX)
add(ELEMENTWISE, "lerp", lambda x, y: torch.lerp(x, y, 0.3), MATRIX, MATRIX)
add(ELEMENTWISE, "addcmul", torch.addcmul, MATRIX, MATRIX, MATRIX)
add(ELEMENTWISE, "addcdiv", torch.addcdiv, MATRIX, MATRIX, MATRIX, positive=True)
add(ELEMENTWISE, "masked_fill", lambda x: x.masked_fill(x > 0, 0.0), MATRIX)
add(ELEMENTWISE, "dropout", lambda x: functional.dropout(x, 0.1), MATRIX)
add(ELEMENTWISE, "prelu", functional.prelu, IMAGES, (64,))
add(ELEMENTWISE, "glu", functional.glu, MATRIX)
add(ELEMENTWISE, "rrelu", functional.rrelu, MATRIX)
add(ELEMENTWISE, "dist", torch.dist, MATRIX, MATRIX)
for named in ("i1", "ndtr", "erfcx", "log_ndtr"):
    forward_only(ELEMENTWISE, f"special.{named}", getattr(torch.special, named), MATRIX)
forward_only(ELEMENTWISE, "polygamma", functools.partial(torch.special.polygamma, 1), MATRIX, positive=True)

# ---- movement and random numbers -------------------------------------------------------------------------------------------------
MOVEMENT = "movement"
add(MOVEMENT, "contiguous of a transposed", lambda x: x.t().contiguous(), MATRIX)
add(MOVEMENT, "cat", lambda x, y: torch.cat([x, y], 1), MATRIX, MATRIX)
add(MOVEMENT, "stack", lambda x, y: torch.stack([x, y], -1), MATRIX, MATRIX)
add(MOVEMENT, "flip", lambda x: x.flip(-1), MATRIX)
add(MOVEMENT, "roll", lambda x: x.roll((3, 5), (0, 1)), MATRIX)
add(MOVEMENT, "rot90", torch.rot90, MATRIX)
add(MOVEMENT, "repeat", lambda x: x.repeat(2, 2), (512, 512))
add(MOVEMENT, "repeat_interleave", lambda x: x.repeat_interleave(4, 0), (256, 1024))
add(MOVEMENT, "tril", torch.tril, MATRIX)
add(MOVEMENT, "diag_embed", torch.diag_embed, (64, 128))
add(MOVEMENT, "to channels last", lambda x: x.contiguous(memory_format=torch.channels_last), IMAGES)
add(MOVEMENT, "as windows", lambda x: x.unfold(1, 16, 8).contiguous(), MATRIX)
forward_only(MOVEMENT, "bernoulli", torch.bernoulli, MATRIX, positive=True)
forward_only(MOVEMENT, "rand_like", torch.rand_like, MATRIX)
forward_only(MOVEMENT, "randn_like", torch.randn_like, MATRIX)
forward_only(MOVEMENT, "exponential", lambda x: torch.empty_like(x).exponential_(), MATRIX)
forward_only(MOVEMENT, "multinomial", lambda x: x.multinomial(16), (256, 1024), positive=True)
forward_only(MOVEMENT, "full_like", lambda x: torch.full_like(x, 2.0), MATRIX)
forward_only(MOVEMENT, "histc", lambda x: x.histc(64, -2, 2), MATRIX)

# ---- matrices and lists ----------------------------------------------------------------------------------------------------------
MATRICES = "matrices"
add(MATRICES, "matrix_exp", torch.linalg.matrix_exp, (16, 16, 16))
add(MATRICES, "matrix_power", lambda x: torch.linalg.matrix_power(x, 5), (128, 128))
add(MATRICES, "cross", lambda a, b: torch.linalg.cross(a, b), (65536, 3), (65536, 3))
add(MATRICES, "trace", torch.trace, MATRIX)
add(MATRICES, "cov", torch.cov, (128, 1024))
add(MATRICES, "corrcoef", torch.corrcoef, (128, 1024))
LISTS = "lists of tensors"
SHAPES = ((1024, 1024), (1024,), (512, 1024), (512,))
forward_only(LISTS, "_foreach_add", lambda *a: torch._foreach_add(a, a), *SHAPES)
forward_only(LISTS, "_foreach_mul", lambda *a: torch._foreach_mul(a, 0.5), *SHAPES)
forward_only(LISTS, "_foreach_sqrt", lambda *a: torch._foreach_sqrt(a), *SHAPES, positive=True)
forward_only(LISTS, "_foreach_norm", lambda *a: torch._foreach_norm(a), *SHAPES)
forward_only(LISTS, "_foreach_lerp", lambda *a: torch._foreach_lerp(a, a, 0.1), *SHAPES)


def step(kind: type[torch.optim.Optimizer], **options: Any) -> Callable[..., None]:
    """Return a step of an optimizer. Its state is created in the first call and kept."""
    made: dict[Any, torch.optim.Optimizer] = {}

    def take(*tensors: torch.Tensor) -> None:
        key = (tensors[0].device, tensors[0].dtype)
        if key not in made:
            parameters = [nn.Parameter(tensor.clone()) for tensor in tensors]
            for parameter in parameters:
                parameter.grad = parameter.detach() * 0.01
            made[key] = kind(parameters, **options)
        made[key].step()

    return take


OPTIMIZERS: list[tuple[str, type[torch.optim.Optimizer], dict[str, Any]]] = [
    ("AdamW", torch.optim.AdamW, {}),
    ("AdamW, fused", torch.optim.AdamW, {"fused": True}),
    ("SGD", torch.optim.SGD, {"lr": 1e-3, "momentum": 0.9}),
    ("RMSprop", torch.optim.RMSprop, {}),
    ("Adagrad", torch.optim.Adagrad, {}),
]
for text, optimizer, options in OPTIMIZERS:
    forward_only(LISTS, text, step(optimizer, **options), *SHAPES)
