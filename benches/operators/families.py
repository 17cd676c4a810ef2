"""The measured operators, grouped in families with equal inputs."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

aten = torch.ops.aten
Sizes = dict[str, tuple[int, ...]]
SIZES: Sizes = {"1": (1,), "1k": (1024,), "64k": (65536,), "1M": (1024, 1024), "16M": (4096, 4096)}
MATRICES: Sizes = {"128x768": (128, 768), "1024x1024": (1024, 1024), "4096x4096": (4096, 4096)}
IMAGES: Sizes = {"8x16x32x32": (8, 16, 32, 32), "32x64x56x56": (32, 64, 56, 56)}
#: Number of parameters of a model: about two layers of a transformer of width 1024.
MODEL: Sizes = {"25M": (25 * 10**6,)}


@dataclass(frozen=True)
class Family:
    """Operators that take the same inputs.

    Attributes:
        name: Name in the table.
        inputs: Number of inputs, all of one shape.
        operators: Functions by name.
        sizes: Shapes by name.
        random: Whether results are random, so that they are not compared.
        positive: Whether inputs are positive.
        pointwise: Whether the operators are pointwise.
        copied: Whether the operators read and write only their tensors, so that a copy of as many bytes is comparable.
        transposed: Whether to measure also with one input transposed.
    """

    name: str
    inputs: int
    operators: dict[str, Callable[..., Any]]
    sizes: Sizes
    random: bool = False
    positive: bool = False
    pointwise: bool = False
    copied: bool = True
    transposed: bool = False


def along(name: str, dim: int) -> Callable[..., Any]:
    """Return a function of torch applied along a dimension."""
    call = getattr(torch, name)
    return lambda tensor: call(tensor, dim)


def of_torch(*names: str) -> dict[str, Callable[..., Any]]:
    """Return functions of torch by name."""
    return {name: getattr(torch, name) for name in names}


def of_nn(*names: str) -> dict[str, Callable[..., Any]]:
    """Return functions of torch.nn.functional by name."""
    return {name: getattr(functional, name) for name in names}


@functools.cache
def positions(count: int, high: int, device: torch.device) -> torch.Tensor:
    """Return random indices below ``high``, the same on every device."""
    return torch.randint(high, (count,), generator=torch.Generator().manual_seed(2)).to(device)


@functools.cache
def edges(device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Return sorted numbers, the same on every device."""
    return (torch.arange(-500, 500) / 128).to(device, dtype)


def through(call: Callable[..., Any]) -> Callable[[torch.Tensor], Any]:
    """Return a function of a tensor that calls ``call`` with the flattened tensor and as many random indices into it."""
    return lambda a: call(a.view(-1), positions(a.numel(), a.numel(), a.device))


def through_rows(call: Callable[..., Any]) -> Callable[[torch.Tensor], Any]:
    """Return a function of a matrix that calls ``call`` with the matrix and as many random row indices."""
    return lambda a: call(a, positions(a.shape[0], a.shape[0], a.device))


@functools.lru_cache(maxsize=2)  # one for each device: a model's state is large
def steps(name: str, implementation: str, device: torch.device, dtype: torch.dtype) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    """Return an optimizer's step over 1024x1024 matrices and vectors of 1024, which are created in the first call."""
    made: list[tuple[torch.optim.Optimizer, list[torch.Tensor]]] = []

    def step(flat: torch.Tensor) -> list[torch.Tensor]:
        if not made:
            count, width = flat.numel(), 1024
            shapes = [shape for _ in range(count // (width * width + width)) for shape in ((width, width), (width,))]
            pieces = flat[: sum(map(math.prod, shapes))].split([math.prod(shape) for shape in shapes])
            parameters = [piece.view(shape).clone() for piece, shape in zip(pieces, shapes, strict=True)]
            for parameter in parameters:
                parameter.grad = parameter * 0.01
            options: dict[str, Any] = {"momentum": 0.9} if name == "SGD" else {}
            if implementation != "default":
                options[implementation] = True
            optimizer = getattr(torch.optim, name)(parameters, lr=1e-3, **options)
            made.append((optimizer, parameters))
        optimizer, parameters = made[0]
        optimizer.step()
        return parameters

    return step


def optimizer(name: str, implementation: str) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    """Return a step of one of torch.optim's optimizers, for the device and dtype of its argument."""
    return lambda flat: steps(name, implementation, flat.device, flat.dtype)(flat)


FAMILIES = [
    Family(
        "arithmetic",
        2,
        {**of_torch("add", "sub", "mul", "div", "maximum", "fmod", "eq", "lt"), "copy_": lambda a, b: torch.empty_like(a).copy_(b)},
        SIZES,
        pointwise=True,
        transposed=True,
    ),
    Family(
        "elementary",
        1,
        of_torch(
            "neg",
            "abs",
            "floor",
            "round",
            "reciprocal",
            "exp",
            "exp2",
            "expm1",
            "tanh",
            "erf",
            "erfc",
            "sigmoid",
            "sin",
            "cos",
            "tan",
            "sinh",
            "cosh",
            "atan",
        ),
        SIZES,
        pointwise=True,
        transposed=True,
    ),
    Family(
        "of positive numbers",
        1,
        of_torch("log", "log2", "log10", "sqrt", "rsqrt", "log1p", "asinh", "lgamma", "digamma", "i0"),
        SIZES,
        positive=True,
        pointwise=True,
    ),
    Family("power", 2, of_torch("pow", "hypot", "atan2", "xlogy"), SIZES, positive=True, pointwise=True),
    Family(
        "activations",
        1,
        of_nn(
            "relu",
            "gelu",
            "silu",
            "mish",
            "elu",
            "selu",
            "hardswish",
            "hardsigmoid",
            "softplus",
            "leaky_relu",
            "logsigmoid",
            "softshrink",
        ),
        SIZES,
        pointwise=True,
        transposed=True,
    ),
    Family(
        "backward of activations",
        2,
        {
            "relu": lambda a, b: aten.threshold_backward(a, b, 0),
            **{name: getattr(aten, f"{name}_backward") for name in ("gelu", "silu", "mish", "tanh", "sigmoid", "hardswish")},
        },
        SIZES,
        pointwise=True,
    ),
    Family(
        "in place",
        1,
        {
            "relu_": torch.relu_,
            "neg_": torch.neg_,
            "sigmoid_": torch.sigmoid_,
            "mul_": lambda a: a.mul_(1.0),
            "clamp_": lambda a: a.clamp_(-0.5, 0.5),
        },
        SIZES,
        pointwise=True,
    ),
    Family(
        "in place, of two",
        2,
        {"add_": lambda a, b: a.add_(b, alpha=1e-3), "lerp_": lambda a, b: a.lerp_(b, 0.3)},
        SIZES,
        pointwise=True,
    ),
    Family(
        "choices",
        2,
        {
            "where": lambda a, b: torch.where(a > b, a, b),
            "clamp": lambda a, _: a.clamp(-0.5, 0.5),
            "lerp": lambda a, b: torch.lerp(a, b, 0.3),
            "addcmul": lambda a, b: torch.addcmul(a, a, b, value=0.5),
        },
        SIZES,
    ),
    Family("losses", 2, of_nn("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"), SIZES),
    Family(
        "reductions",
        1,
        of_torch("sum", "mean", "amax", "argmax", "aminmax", "var", "std", "norm", "nansum", "any", "count_nonzero"),
        SIZES,
    ),
    Family(
        "along the last dimension",
        1,
        {
            **{
                name: along(name, -1)
                for name in (
                    "sum",
                    "mean",
                    "amax",
                    "argmax",
                    "max",
                    "var",
                    "logsumexp",
                    "cumsum",
                    "cumprod",
                    "cummax",
                    "logcumsumexp",
                )
            },
            **{name: along(name, -1) for name in ("softmax", "log_softmax")},
            "layer_norm": lambda a: functional.layer_norm(a, a.shape[-1:]),
        },
        MATRICES,
    ),
    Family(
        "along the first dimension",
        1,
        {name: along(name, 0) for name in ("sum", "amax", "argmax", "max", "var", "logsumexp", "cumsum", "softmax")},
        MATRICES,
    ),
    Family(
        "movement",
        1,
        {
            "contiguous of a transposed": lambda a: a.t().contiguous(),
            "clone": torch.clone,
            "to float64": lambda a: a.double(),
            "repeat": lambda a: a.repeat(1, 2),
        },
        MATRICES,
    ),
    Family(
        "rearrangement",
        1,
        {
            "cat": lambda a: torch.cat([a, a], -1),
            "stack": lambda a: torch.stack([a, a]),
            "flip": lambda a: a.flip(-1),
            "roll": lambda a: a.roll((3, 5), (0, 1)),
            **of_torch("tril", "triu"),
        },
        MATRICES,
    ),
    Family(
        "padding and windows",
        1,
        {
            **{
                f"pad {mode}": lambda a, mode=mode: functional.pad(a, (2, 2, 2, 2), mode)
                for mode in ("constant", "reflect", "replicate")
            },
            "unfold": lambda a: functional.unfold(a, 3, padding=1),
            "fold": lambda a: functional.fold(a.flatten(2).repeat(1, 9, 1), a.shape[2:], 3, padding=1),
        },
        IMAGES,
        # With numbers of both signs, cancellation would make rounding errors exceed the tolerance.
        positive=True,
    ),
    Family(
        "order",
        1,
        {
            "sort": lambda a: a.flatten().sort(stable=True),
            "argsort": lambda a: a.flatten().argsort(stable=True),
            "topk": lambda a: a.flatten().topk(1 + a.numel() // 65536).values,
            "kthvalue": lambda a: a.flatten().kthvalue(1 + a.numel() // 2).values,
            "searchsorted": lambda a: torch.searchsorted(edges(a.device, a.dtype), a),
            **of_torch("median", "unique"),
        },
        SIZES,
    ),
    Family(
        "through indices",
        1,
        {
            "gather": through(lambda a, i: a.gather(0, i)),
            "take": through(lambda a, i: a.take(i)),
            "scatter_add": through(lambda a, i: torch.zeros_like(a).scatter_add_(0, i, a)),
            "scatter_reduce": through(lambda a, i: torch.zeros_like(a).scatter_reduce_(0, i, a, "amax")),
            "index": through(lambda a, i: a[i]),
            "index_put": through(lambda a, i: torch.zeros_like(a).index_put_((i,), a, accumulate=True)),
        },
        SIZES,
    ),
    Family(
        "rows through indices",
        1,
        {
            "index_select": through_rows(lambda a, i: a.index_select(0, i)),
            "index_add": through_rows(lambda a, i: torch.zeros_like(a).index_add_(0, i, a)),
            "embedding": through_rows(lambda a, i: functional.embedding(i, a)),
            "embedding backward": through_rows(lambda a, i: aten.embedding_dense_backward(a, i, a.shape[0], -1, False)),
            "embedding_bag": through_rows(lambda a, i: functional.embedding_bag(i.view(-1, 4), a)),
        },
        MATRICES,
    ),
    Family(
        "selection",
        1,
        {
            "masked_select": lambda a: a.masked_select(a > 0),
            "nonzero": lambda a: (a > 0).nonzero(),
            "masked_fill": lambda a: a.masked_fill(a > 0, 1.0),
        },
        SIZES,
    ),
    Family(
        "new tensors",
        1,
        {
            "arange": lambda a: torch.arange(a.numel(), dtype=a.dtype, device=a.device),
            "linspace": lambda a: torch.linspace(0, 1, a.numel(), dtype=a.dtype, device=a.device),
            "full": lambda a: torch.full_like(a, 2.5),
            "zeros": torch.zeros_like,
        },
        SIZES,
    ),
    Family(
        "random numbers",
        1,
        {
            "randn": torch.randn_like,
            "rand": torch.rand_like,
            "bernoulli_": lambda a: torch.empty_like(a).bernoulli_(0.3),
            "exponential_": lambda a: torch.empty_like(a).exponential_(),
            "randint": lambda a: torch.randint_like(a, 100),
            "randperm": lambda a: torch.randperm(a.numel(), device=a.device),
            "dropout": lambda a: functional.dropout(a, 0.3),
        },
        SIZES,
        random=True,
    ),
    Family(
        "optimizers",
        1,
        {
            f"{name} {implementation}": optimizer(name, implementation)
            for name, implementations in (
                ("AdamW", ("default", "fused", "foreach")),
                ("SGD", ("default", "fused", "foreach")),
                ("Adagrad", ("default", "fused", "foreach")),
            )
            for implementation in implementations
        },
        MODEL,
        copied=False,
    ),
]
