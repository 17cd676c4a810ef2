"""Calls that sum many terms, in the forward or the backward pass, mostly into one element."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .measure import Call

#: (name, function, *arguments).
Line = tuple[Any, ...]


class Terms:
    """The tensors of calls with ``count`` terms."""

    def __init__(self, count: int, dtype: torch.dtype) -> None:
        """Create the tensors."""
        generator = torch.Generator().manual_seed(count)
        self.count, self.dtype = count, dtype
        # A power of two whose sum over all terms is at most 4096, which float16 holds.
        self.one = 1.0
        while count * self.one > 4096:
            self.one /= 2
        self.ones = torch.full((count,), self.one).to(dtype)
        #: Random values from 0.5 to 1.5, scaled by `one`.
        self.mixed = ((torch.rand(count, generator=generator) + 0.5) * self.one).to(dtype)
        #: Ones, then zeros.
        self.half = torch.cat([torch.ones(count // 2), torch.zeros(count - count // 2)]).to(dtype) * self.one
        #: Factors near 1 whose product is near 1.
        eps = torch.finfo(dtype).eps
        self.factors = torch.tensor([1 + eps, 1 - eps]).repeat(count // 2).to(dtype)
        #: Indices that are all 0, and that alternate between 0 and 1.
        self.place, self.two = torch.zeros(count, dtype=torch.long), torch.arange(count) % 2
        self.target, self.table = torch.zeros(3, dtype=dtype), torch.zeros(3, 80, dtype=dtype)
        self.large = torch.zeros(40 * count, dtype=dtype)
        self.rows = self.ones.unsqueeze(1).repeat(1, 80)
        self.image = self.mixed.reshape(1, 1, 10, -1)


def calls(count: int, dtype: torch.dtype) -> Iterator[Call]:
    """Yield the calls with ``count`` terms, a multiple of 20."""
    terms = Terms(count, dtype)
    for group in (meetings, rows, sums, indices, bags, images, pools, layers, sparse):
        for name, function, *arguments in group(terms):
            yield Call(name, count, function, tuple(arguments))


def meetings(terms: Terms) -> Iterator[Line]:
    """Yield scatters into one element."""
    target, place = terms.target, terms.place
    for kind in ("ones", "mixed", "half"):
        values = getattr(terms, kind)
        yield f"scatter_add, {kind}", lambda x, i, y: x.scatter_add(0, i, y), target, place, values
        yield f"scatter_add of two elements, {kind}", lambda x, i, y: x.scatter_add(0, i, y), target, terms.two, values
        yield f"scatter_add in a large target, {kind}", lambda x, i, y: x.scatter_add(0, i, y), terms.large, place, values
        for name in ("scatter_reduce", "index_reduce"):
            yield f"{name} mean, {kind}", functools.partial(_reduced, name, "mean"), target, place, values
        yield f"scatter_reduce sum, {kind}", functools.partial(_reduced, "scatter_reduce", "sum"), target, place, values
        yield f"index_add, {kind}", lambda x, i, y: x.index_add(0, i, y), target, place, values
        yield f"index_add with alpha, {kind}", lambda x, i, y: x.index_add(0, i, y, alpha=0.5), target, place, values
        yield f"index_put, {kind}", lambda x, i, y: x.index_put((i,), y, accumulate=True), target, place, values
        yield f"put, {kind}", lambda x, i, y: x.put(i, y, accumulate=True), target, place, values
    for name in ("scatter_reduce", "index_reduce"):
        yield f"{name} prod", functools.partial(_reduced, name, "prod"), target + 1, place, terms.factors
    yield "bincount with weights", lambda i, w: torch.bincount(i, w.detach().float()).to(w.dtype), place, terms.mixed
    yield "masked_scatter", lambda x, y: x.masked_scatter(x > 0, y), terms.mixed, terms.mixed


def _reduced(name: str, reduce: str, target: Tensor, index: Tensor, values: Tensor) -> Tensor:
    found: Tensor = getattr(target, name)(0, index, values, reduce, include_self=False)
    return found


def rows(terms: Terms) -> Iterator[Line]:
    """Yield scatters into one row or column."""
    table, place = terms.table, terms.place
    yield "index_add of rows", lambda x, i, y: x.index_add(0, i, y), table, place, terms.rows
    yield "index_add of columns", lambda x, i, y: x.t().contiguous().index_add(1, i, y.t()), table, place, terms.rows
    yield "scatter_add of rows", lambda x, i, y: x.scatter_add(0, i.unsqueeze(1).expand(-1, 80), y), table, place, terms.rows
    yield "index_put of rows", lambda x, i, y: x.index_put((i,), y, accumulate=True), table, place, terms.rows
    yield "index_reduce of rows", functools.partial(_reduced, "index_reduce", "mean"), table, place, terms.rows


def sums(terms: Terms) -> Iterator[Line]:
    """Yield reductions and scans."""
    for kind in ("ones", "mixed", "half"):
        values = getattr(terms, kind)
        yield f"sum, {kind}", torch.sum, values
        yield f"mean, {kind}", torch.mean, values
        yield f"cumsum, {kind}", lambda x: x.cumsum(0), values
        yield f"sum of columns, {kind}", lambda x: x.unsqueeze(1).repeat(1, 5).sum(0), values
        yield f"segment_reduce sum, {kind}", lambda x: torch.segment_reduce(x, "sum", lengths=_lengths(x)), values
        yield f"segment_reduce mean, {kind}", lambda x: torch.segment_reduce(x, "mean", lengths=_lengths(x), unsafe=True), values
    mixed = terms.mixed
    for name in ("nansum", "nanmean", "trapezoid", "cumulative_trapezoid", "var", "std"):
        yield name, getattr(torch, name), mixed
    for order in (1.0, 2.0, 3.0):
        yield f"vector_norm of order {order}", functools.partial(torch.linalg.vector_norm, ord=order), mixed
    yield "prod", torch.prod, terms.factors
    yield "cumprod", lambda x: x.cumprod(0), terms.factors
    yield "logsumexp", lambda x: x.logsumexp(0), mixed
    yield "logcumsumexp", lambda x: x.logcumsumexp(0), mixed
    yield "histc", lambda x: torch.histc(x, 2, 0, 2), torch.ones(min(terms.count, 3000), dtype=terms.dtype)
    yield "trace", lambda x: torch.diag_embed(x).trace(), mixed[:1000]
    yield "cov", lambda x: torch.cov(x.view(2, -1)), mixed
    yield "renorm", lambda x: torch.renorm(x.view(1, -1), 2, 0, 1.0), mixed


def _lengths(values: Tensor) -> Tensor:
    return torch.tensor([values.numel()], device=values.device)


def indices(terms: Terms) -> Iterator[Line]:
    """Yield gathers of one element, whose gradients are summed there."""
    target, table, place = terms.target, terms.table, terms.place
    yield "gather", lambda x, i: x.gather(0, i), target, place
    yield "index_select", lambda x, i: x.index_select(0, i), target, place
    yield "index_select of rows", lambda x, i: x.index_select(0, i), table, place
    yield "index_select of columns", lambda x, i: x.index_select(1, i), table, place
    yield "take", lambda x, i: x.take(i), target, place
    yield "take_along_dim", lambda x, i: x.take_along_dim(i, 0), target, place
    yield "index", lambda x, i: x[i], target, place
    yield "index of rows", lambda x, i: x[i], table, place
    yield "index of two dimensions", lambda x, i: x[i, i], table, place
    yield "embedding", lambda x, i: functional.embedding(i, x), table, place
    yield "embedding by frequency", lambda x, i: functional.embedding(i, x, scale_grad_by_freq=True), table, place
    yield "repeat_interleave", lambda x: x.repeat_interleave(terms.count), terms.ones[:1]


def bags(terms: Terms) -> Iterator[Line]:
    """Yield embedding bags: one bag of all terms, and a bag for each term."""
    table, place = terms.table + terms.one, terms.place
    for mode in ("sum", "mean", "max"):
        bag = functools.partial(functional.embedding_bag, mode=mode)
        yield f"embedding_bag {mode}, one bag", lambda x, i, bag=bag: bag(i.unsqueeze(0), x), table, place
        yield f"embedding_bag {mode}, bags of one", lambda x, i, bag=bag: bag(i.unsqueeze(1), x), table, place
    bag = functools.partial(functional.embedding_bag, mode="sum")
    weighted = lambda x, i, w: bag(i.unsqueeze(0), x, per_sample_weights=w.unsqueeze(0))  # noqa: E731
    yield "embedding_bag with weights", weighted, terms.table + 1, place, terms.mixed


def images(terms: Terms) -> Iterator[Line]:
    """Yield upsampling of small images, which sums the gradients of many pixels."""
    size, dot, image = (terms.count // 10, 10), terms.ones[:1].reshape(1, 1, 1, 1), terms.image[:, :, :4, :4]
    line, square, cube = (terms.ones[: 2**dims].reshape(1, 1, *[2] * dims) for dims in (1, 2, 3))
    resize, pad = functional.interpolate, functools.partial(functional.pad, mode="replicate")
    yield "interpolate nearest", lambda x: resize(x, size=size), dot
    for mode in ("bilinear", "bicubic"):
        smaller = functools.partial(resize, size=(2, 2), mode=mode, antialias=True)
        yield f"interpolate {mode}", functools.partial(resize, size=size, mode=mode), square
        yield f"interpolate {mode} with antialias", smaller, terms.image
    yield "interpolate linear", lambda x: resize(x, size=terms.count, mode="linear"), line
    yield "interpolate trilinear", lambda x: resize(x, size=(terms.count // 10, 5, 2), mode="trilinear"), cube
    grid = torch.full((1, *size, 2), 0.25).to(terms.dtype)
    for mode in ("bilinear", "nearest", "bicubic"):
        sample = functools.partial(functional.grid_sample, mode=mode, align_corners=False)
        yield f"grid_sample {mode}", lambda x, g, sample=sample: sample(x, g.detach()), image, grid
    yield "pad replicate", lambda x: pad(x.view(1, 1, -1), (terms.count, terms.count)), terms.mixed[:5]
    yield "pad replicate of images", lambda x: pad(x.view(1, 1, 2, 2), (size[0], 0, 10, 0)), terms.mixed[:4]
    yield "unfold", lambda x: x.unfold(0, 500, 1), terms.mixed[:1000]
    yield "fold", lambda x: functional.fold(x[:1000].view(1, 100, 10), (10, 19), (10, 10)), terms.mixed
    yield "im2col", lambda x: functional.unfold(x, (10, 50)), terms.image[:, :, :, :100]


def pools(terms: Terms) -> Iterator[Line]:
    """Yield pooling of many elements by a window, and of one element by many windows."""
    image, dot = terms.image, terms.image[:, :, :1, :1]
    thick, cube = image.unsqueeze(2), dot.unsqueeze(2)
    size = (terms.count // 10, 10)
    peak = terms.half.clone()
    peak[terms.count // 2] = 8.0
    for dims, large, one, many in ((2, image, dot, size), (3, thick, cube, (size[0], 5, 2))):
        for kind in ("avg", "max"):
            pool = getattr(functional, f"adaptive_{kind}_pool{dims}d")
            yield f"{pool.__name__} to one", functools.partial(pool, output_size=1), large
            yield f"{pool.__name__} from one", functools.partial(pool, output_size=many), one
    yield "avg_pool1d", lambda x: functional.avg_pool1d(x.view(1, 1, -1), 500, 1), terms.mixed[:2000]
    yield "avg_pool2d", lambda x: functional.avg_pool2d(x, (10, 50), 1), image[..., :300]
    yield "lp_pool2d", lambda x: functional.lp_pool2d(x, 2.0, (10, 50), 1), image[..., :300]
    yield "avg_pool3d", lambda x: functional.avg_pool3d(x, (1, 10, 50), 1), thick[..., :300]
    yield "max_pool1d", lambda x: functional.max_pool1d(x.view(1, 1, -1), 500, 1), peak[:2000]
    yield "max_pool2d", lambda x: functional.max_pool2d(x, (1, 500), 1), peak[:4000].reshape(1, 1, 1, -1)
    yield "max_pool3d", lambda x: functional.max_pool3d(x, (1, 1, 500), 1), peak[:4000].reshape(1, 1, 1, 1, -1)


def layers(terms: Terms) -> Iterator[Line]:
    """Yield operators of layers that the operator database lacks, or whose samples there have fewer rows, keys or steps."""
    mixed, tens = terms.mixed, terms.mixed.reshape(-1, 10)
    yield "softmax", lambda x: x.softmax(0), mixed
    yield "log_softmax", lambda x: x.log_softmax(0), mixed
    yield "weight_norm", lambda v, g: torch._weight_norm(v.view(1, -1), g.view(1, 1)), mixed, mixed[:1]
    yield "linear of many rows", functional.linear, tens, mixed[:30].reshape(3, 10), mixed[:3]
    yield "layer_norm of many rows", lambda x, w: functional.layer_norm(x, (10,), w, w), tens, mixed[:10]
    yield "rms_norm of many rows", lambda x, w: functional.rms_norm(x, (10,), w), tens, mixed[:10]
    yield "conv2d by channel", functools.partial(functional.conv2d, groups=2), tens.view(1, 2, -1, 10), mixed[:18].view(2, 1, 3, 3)
    rows, few, attend = (
        tens.view(1, 1, -1, 10)[:, :, :2000],
        tens.view(1, 1, -1, 10)[:, :, :8],
        functional.scaled_dot_product_attention,
    )
    yield "scaled_dot_product_attention to many keys", attend, few, rows, rows
    yield "scaled_dot_product_attention of many queries", attend, rows, few, few
    yield "nll_loss with weights", lambda x, i, w: functional.nll_loss(x, i, w.detach()), tens, terms.two[: len(tens)], mixed[:10]
    yield "repeat", lambda x: x.repeat(terms.count), mixed[:1]
    yield "broadcast div", torch.div, tens, mixed[:10]
    if terms.count > 1000:
        return
    generator = torch.Generator().manual_seed(0)
    for name, gates in (("gru", 3), ("lstm", 4), ("rnn_tanh", 1)):
        weights = [(torch.rand(8 * gates, size, generator=generator) / 8).to(terms.dtype) for size in (10, 8)]
        yield name, functools.partial(_recurrent, getattr(torch, name), gates), terms.mixed.reshape(-1, 1, 10), *weights


def _recurrent(layer: Callable[..., Any], gates: int, x: Tensor, weight: Tensor, recurrent: Tensor) -> Tensor:
    state = x.new_zeros(1, x.size(1), 8)
    states = (state, state) if gates == 4 else state
    out: Tensor = layer(x, states, (weight, recurrent), False, 1, 0.0, True, False, False)[0]
    return out


def sparse(terms: Terms) -> Iterator[Line]:
    """Yield sparse tensors with many values at one index, and in one row."""
    place, mixed = terms.place, terms.mixed
    for kind in ("ones", "mixed", "half"):
        yield f"to_dense of sparse, {kind}", lambda i, y: _at(i, y).to_dense(), place, getattr(terms, kind)
        yield f"coalesce, {kind}", lambda i, y: _at(i, y).coalesce().to_dense(), place, getattr(terms, kind)
    yield "sparse mm", lambda i, y, x: torch.sparse.mm(_row(i, y), x), place, mixed, mixed.unsqueeze(1).repeat(1, 3)
    yield "sparse mv", lambda i, y, x: torch.mv(_row(i, y.detach()), x.detach()), place, mixed, mixed
    yield "sparse sum", lambda i, y: torch.sparse.sum(_row(i, y.detach()), 1).to_dense(), place, mixed


def _at(place: Tensor, values: Tensor) -> Tensor:
    return torch.sparse_coo_tensor(place.unsqueeze(0), values, (2,))


def _row(place: Tensor, values: Tensor) -> Tensor:
    count = values.numel()
    return torch.sparse_coo_tensor(torch.stack([place, torch.arange(count, device=place.device)]), values, (2, count))
