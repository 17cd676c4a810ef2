"""The operator table: every row is bound to an operator, and a call of that operator reaches the kernel."""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional
from torch.utils import _pytree as pytree

aten = torch.ops.aten
rustdev = torch.ops.rustdev
pytestmark = pytest.mark.usefixtures("strict")


KIND = {"device": "rustdev", "dtype": torch.float32}
#: What the next tensors hold: numbers of both signs, or those from 0 to 1 that every operator takes; other ones for each seed.
VALUES = {"signs": False, "seed": 0, "made": 0}
#: What tensors are rounded to before they get their dtype; nothing for that dtype itself.
ROUNDED: dict[str, torch.dtype | None] = {"to": None}


def tensor(*shape: int) -> torch.Tensor:
    """Return a tensor of numbers that differ: on the device and of float32, unless a test changes ``KIND`` and ``VALUES``."""
    VALUES["made"] += 1
    generator = torch.Generator().manual_seed(1000 * VALUES["seed"] + VALUES["made"])
    dtype = ROUNDED["to"] or KIND["dtype"]
    numbers = torch.rand(shape, generator=generator, dtype=torch.float64)
    if VALUES["signs"]:
        numbers = 16 * numbers - (8 if dtype.is_signed else 0)
    elif not (dtype.is_floating_point or dtype.is_complex):
        numbers = numbers.round()
    if dtype.is_complex:
        numbers = torch.complex(numbers, numbers.flip(-1) if shape else numbers)
    return numbers.to(dtype).to(**KIND)


def positions(*shape: int) -> torch.Tensor:
    """Return indices of a dimension of two elements."""
    VALUES["made"] += 1
    generator = torch.Generator().manual_seed(1000 * VALUES["seed"] + VALUES["made"])
    return torch.randint(2, shape, generator=generator).to(KIND["device"])


def optimize(optimizer: type[torch.optim.Optimizer]) -> None:
    """Take a step of a fused optimizer."""
    parameter = tensor(2).requires_grad_()
    parameter.grad = tensor(2)
    optimizer([parameter], fused=True).step()


def lstm(values: torch.Tensor) -> torch.Tensor:
    """Return what a layer of an LSTM puts out."""
    states, weights = [tensor(1, 2, 1), tensor(1, 2, 1)], [tensor(4, 1), tensor(4, 1), tensor(4), tensor(4)]
    return torch.lstm(values, states, weights, True, 1, 0.0, False, False, False)[0]


def gru(values: torch.Tensor) -> torch.Tensor:
    """Return what a layer of a GRU puts out."""
    weights = [tensor(3, 1), tensor(3, 1), tensor(3), tensor(3)]
    return torch.gru(values, tensor(1, 2, 1), weights, True, 1, 0.0, False, False, False)[0]


def rnn(values: torch.Tensor) -> torch.Tensor:
    """Return what a layer of a plain recurrent network puts out."""
    weights = [tensor(1, 1), tensor(1, 1), tensor(1), tensor(1)]
    return torch.rnn_tanh(values, tensor(1, 2, 1), weights, True, 1, 0.0, False, False, False)[0]


def attention(query: torch.Tensor) -> torch.Tensor:
    """Return the attention of queries to other keys and values."""
    return functional.scaled_dot_product_attention(query, tensor(1, 1, 2, 32), tensor(1, 1, 2, 32))


def attend_and_go_back(query: torch.Tensor) -> None:
    """Make the gradient of attention, of differences that cancel: test_attention.py compares it."""
    gradient(attention, query)


def gradient(function: Callable[[torch.Tensor], torch.Tensor], values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the gradient of the sum of a function's results."""
    values.requires_grad_()
    return torch.autograd.grad(function(values).sum(), values)


# One call per row; the usual call for those not named.
CALLS: dict[str, Callable[[], object]] = {
    "copy_": lambda: tensor(2).copy_(tensor(2)),
    "fill_": lambda: tensor(2).fill_(3),
    "zero_": lambda: tensor(2).zero_(),
    "mm": lambda: torch.mm(tensor(2, 2), tensor(2, 2)),
    "addmm": lambda: torch.addmm(tensor(2), tensor(2, 2), tensor(2, 2)),
    "bmm": lambda: torch.bmm(tensor(1, 2, 2), tensor(1, 2, 2)),
    "baddbmm": lambda: torch.baddbmm(tensor(1, 2, 2), tensor(1, 2, 2), tensor(1, 2, 2)),
    "addmv": lambda: torch.addmv(tensor(2), tensor(2, 2), tensor(2)),
    "sum": lambda: torch.sum(tensor(2, 2), 0),
    "mean": lambda: torch.mean(tensor(2, 2), 0),
    "all": lambda: torch.all(tensor(2, 2), 0),
    "any": lambda: torch.any(tensor(2, 2), 0),
    "prod": lambda: torch.prod(tensor(2, 2), 0),
    "linalg_vector_norm": lambda: torch.linalg.vector_norm(tensor(2)),
    "_cummax_helper": lambda: torch.cummax(tensor(2), 0),
    "_cummin_helper": lambda: torch.cummin(tensor(2), 0),
    "_log_softmax": lambda: torch.log_softmax(tensor(2), 0),
    "_log_softmax_backward_data": lambda: aten._log_softmax_backward_data(tensor(2), tensor(2), 0, torch.float32),
    "_logcumsumexp": lambda: torch.logcumsumexp(tensor(2), 0),
    "_scaled_dot_product_flash_attention_for_cpu": lambda: attention(tensor(1, 1, 2, 32)),
    "_scaled_dot_product_flash_attention_for_cpu_backward": lambda: attend_and_go_back(tensor(1, 1, 2, 32)),
    "_softmax": lambda: torch.softmax(tensor(2), 0),
    "_softmax_backward_data": lambda: aten._softmax_backward_data(tensor(2), tensor(2), 0, torch.float32),
    "bernoulli_": lambda: tensor(2).bernoulli_(tensor(2)),
    "bernoulli_.float": lambda: tensor(2).bernoulli_(0.5),
    "binomial": lambda: torch.binomial(tensor(2), tensor(2)),
    "multinomial": lambda: torch.multinomial(tensor(2), 3, replacement=True),
    "poisson": lambda: torch.poisson(tensor(2)),
    "cauchy_": lambda: tensor(2).cauchy_(),
    "cumprod": lambda: torch.cumprod(tensor(2), 0),
    "cumsum": lambda: torch.cumsum(tensor(2), 0),
    "exponential_": lambda: tensor(2).exponential_(),
    "geometric_": lambda: tensor(2).geometric_(0.5),
    "log_normal_": lambda: tensor(2).log_normal_(),
    "native_dropout": lambda: torch.native_dropout(tensor(2), 0.5, True),
    "native_dropout_backward": lambda: aten.native_dropout_backward(tensor(2), tensor(2) > 0, 2.0),
    "_thnn_fused_lstm_cell": lambda: aten._thnn_fused_lstm_cell(tensor(2, 4), tensor(2, 4), tensor(2, 1)),
    "_thnn_fused_lstm_cell_backward_impl": lambda: aten._thnn_fused_lstm_cell_backward_impl(
        tensor(2, 1), tensor(2, 1), tensor(2, 1), tensor(2, 1), tensor(2, 4), False
    ),
    "elman_layer": lambda: rnn(tensor(2, 2, 1)),
    "elman_layer_backward": lambda: gradient(rnn, tensor(2, 2, 1)),
    "gru_layer": lambda: gru(tensor(2, 2, 1)),
    "gru_layer_backward": lambda: gradient(gru, tensor(2, 2, 1)),
    "lstm_layer": lambda: lstm(tensor(2, 2, 1)),
    "lstm_layer_backward": lambda: gradient(lstm, tensor(2, 2, 1)),
    "native_layer_norm": lambda: functional.layer_norm(tensor(2, 3), (3,)),
    "native_layer_norm_backward": lambda: aten.native_layer_norm_backward(
        tensor(2, 3), tensor(2, 3), (3,), tensor(2, 1), tensor(2, 1), None, None, [True, False, False]
    ),
    "max_pool2d_with_indices": lambda: functional.max_pool2d(tensor(1, 1, 2, 2), 2),
    "max_pool2d_with_indices_backward": lambda: aten.max_pool2d_with_indices_backward(
        tensor(1, 1, 1, 1), tensor(1, 1, 2, 2), 2, 2, 0, 1, False, positions(1, 1, 1, 1)
    ),
    "native_batch_norm": lambda: functional.batch_norm(tensor(2, 3), None, None, training=True),
    "native_batch_norm_backward": lambda: aten.native_batch_norm_backward(
        tensor(2, 3), tensor(2, 3), None, None, None, tensor(3), tensor(3), True, 1e-5, [True, False, False]
    ),
    "native_group_norm": lambda: functional.group_norm(tensor(2, 3), 3),
    "native_group_norm_backward": lambda: aten.native_group_norm_backward(
        tensor(2, 3), tensor(2, 3), tensor(2, 3), tensor(2, 3), None, 2, 3, 1, 3, [True, False, False]
    ),
    "nll_loss_backward": lambda: aten.nll_loss_backward(tensor(1)[0], tensor(2, 3), positions(2), None, 1, -100, tensor(1)[0]),
    "nll_loss_forward": lambda: functional.nll_loss(tensor(2, 3), positions(2)),
    "arange": lambda: torch.arange(3, **KIND),
    "cat": lambda: torch.cat([tensor(2), tensor(3)]),
    "col2im": lambda: functional.fold(tensor(1, 4, 1), (2, 2), 2),
    "flip": lambda: torch.flip(tensor(2), (0,)),
    "im2col": lambda: functional.unfold(tensor(1, 1, 2, 2), 2),
    "linspace": lambda: torch.linspace(0, 1, 3, **KIND),
    "logspace": lambda: torch.logspace(0, 1, 3, **KIND),
    "reflection_pad": lambda: functional.pad(tensor(1, 1, 3), (1, 1), mode="reflect"),
    "reflection_pad_backward": lambda: aten.reflection_pad1d_backward(tensor(1, 1, 5), tensor(1, 1, 3), (1, 1)),
    "repeat_interleave": lambda: torch.repeat_interleave(positions(2)),
    "replication_pad": lambda: functional.pad(tensor(1, 1, 3), (1, 1), mode="replicate"),
    "replication_pad_backward": lambda: aten.replication_pad1d_backward(tensor(1, 1, 5), tensor(1, 1, 3), (1, 1)),
    "histogram": lambda: torch.histc(tensor(3), 2, 0, 1),
    "isin": lambda: torch.isin(tensor(2), tensor(3)),
    "kthvalue": lambda: torch.kthvalue(tensor(2), 1),
    "median": lambda: torch.median(tensor(2)),
    "mode": lambda: torch.mode(tensor(2)),
    "nanmedian": lambda: torch.nanmedian(tensor(2)),
    "searchsorted": lambda: torch.searchsorted(tensor(2), tensor(2)),
    "sort.stable": lambda: torch.sort(tensor(2)),
    "topk": lambda: torch.topk(tensor(2), 1),
    "unique_collect": lambda: torch.unique(tensor(2), return_inverse=True),
    "unique_groups": lambda: torch.unique(tensor(2), return_inverse=True),
    "unique_line": lambda: torch.unique(tensor(2)),
    "unique_order": lambda: torch.unique(tensor(2, 2), dim=0),
    "unique_rows": lambda: torch.unique(tensor(2), return_inverse=True),
    "roll": lambda: torch.roll(tensor(2), 1),
    "tril": lambda: torch.tril(tensor(2, 2)),
    "tril_indices": lambda: torch.tril_indices(2, 2, **KIND),
    "triu": lambda: torch.triu(tensor(2, 2)),
    "triu_indices": lambda: torch.triu_indices(2, 2, **KIND),
    "unfold_backward": lambda: aten.unfold_backward(tensor(2, 2), (3,), 0, 2, 1),
    "normal_": lambda: tensor(2).normal_(),
    "random_": lambda: tensor(2).random_(),
    "randperm": lambda: torch.randperm(3, **KIND),
    "uniform_": lambda: tensor(2).uniform_(),
    "max.dim": lambda: tensor(2, 2).max(0),
    "min.dim": lambda: tensor(2, 2).min(0),
    "addcdiv": lambda: torch.addcdiv(tensor(2), tensor(2), tensor(2)),
    "addcmul": lambda: torch.addcmul(tensor(2), tensor(2), tensor(2)),
    "bitwise_and": lambda: tensor(2).int() & tensor(2).int(),
    "bitwise_not": lambda: ~tensor(2).int(),
    "bitwise_or": lambda: tensor(2).int() | tensor(2).int(),
    "bitwise_xor": lambda: tensor(2).int() ^ tensor(2).int(),
    "clamp": lambda: torch.clamp(tensor(2), 0.0, 1.0),
    "clamp_max": lambda: torch.clamp_max(tensor(2), 0.0),
    "clamp_max_tensor": lambda: torch.clamp_max(tensor(2), tensor(2)),
    "clamp_min": lambda: torch.clamp_min(tensor(2), 0.0),
    "clamp_min_tensor": lambda: torch.clamp_min(tensor(2), tensor(2)),
    "_prelu_kernel": lambda: torch.prelu(tensor(2), tensor(1)),
    "addr": lambda: torch.addr(tensor(2, 3), tensor(2), tensor(3)),
    "atan2": lambda: torch.atan2(tensor(2), tensor(2)),
    "binary_cross_entropy": lambda: functional.binary_cross_entropy(tensor(2), tensor(2)),
    "binary_cross_entropy_backward": lambda: aten.binary_cross_entropy_backward(tensor(2), tensor(2) / 2, tensor(2)),
    "bitwise_left_shift": lambda: torch.bitwise_left_shift(tensor(2).int(), tensor(2).int()),
    "bitwise_right_shift": lambda: torch.bitwise_right_shift(tensor(2).int(), tensor(2).int()),
    "clamp_tensor": lambda: torch.clamp(tensor(2), tensor(2), tensor(2)),
    "complex": lambda: torch.complex(tensor(2), tensor(2)),
    "complex_abs": lambda: tensor(2).cfloat().abs(),
    "copysign": lambda: torch.copysign(tensor(2), tensor(2)),
    "fmax": lambda: torch.fmax(tensor(2), tensor(2)),
    "fmin": lambda: torch.fmin(tensor(2), tensor(2)),
    "gcd": lambda: torch.gcd(tensor(2).int(), tensor(2).int()),
    "glu": lambda: functional.glu(tensor(2)),
    "glu_backward": lambda: aten.glu_backward(tensor(1), tensor(2), 0),
    "hardswish": lambda: functional.hardswish(tensor(2)),
    "hardswish_backward": lambda: aten.hardswish_backward(tensor(2), tensor(2)),
    "hardtanh_backward": lambda: aten.hardtanh_backward(tensor(2), tensor(2), -1.0, 1.0),
    "heaviside": lambda: torch.heaviside(tensor(2), tensor(2)),
    "huber_loss": lambda: functional.huber_loss(tensor(2), tensor(2)),
    "huber_loss_backward": lambda: aten.huber_loss_backward(tensor(2), tensor(2), tensor(2), 1, 1.0),
    "hypot": lambda: torch.hypot(tensor(2), tensor(2)),
    "lcm": lambda: torch.lcm(tensor(2).int(), tensor(2).int()),
    "log_sigmoid_backward": lambda: aten.log_sigmoid_backward(tensor(2), tensor(2), tensor(0)),
    "log_sigmoid_forward": lambda: functional.logsigmoid(tensor(2)),
    "logaddexp": lambda: torch.logaddexp(tensor(2), tensor(2)),
    "logaddexp2": lambda: torch.logaddexp2(tensor(2), tensor(2)),
    "logical_and": lambda: torch.logical_and(tensor(2), tensor(2)),
    "logical_or": lambda: torch.logical_or(tensor(2), tensor(2)),
    "logical_xor": lambda: torch.logical_xor(tensor(2), tensor(2)),
    "logit_backward": lambda: aten.logit_backward(tensor(2), tensor(2)),
    "mish_backward": lambda: aten.mish_backward(tensor(2), tensor(2)),
    "mse_loss_backward": lambda: aten.mse_loss_backward(tensor(2), tensor(2), tensor(2), 1),
    "nextafter": lambda: torch.nextafter(tensor(2), tensor(2)),
    "ldexp": lambda: torch.ldexp(tensor(2), tensor(2).int()),
    "polar": lambda: torch.polar(tensor(2), tensor(2)),
    "round_decimals": lambda: torch.round(tensor(2), decimals=1),
    "smooth_l1_loss_backward": lambda: aten.smooth_l1_loss_backward(tensor(2), tensor(2), tensor(2), 1, 1.0),
    "special_hermite_polynomial_h": lambda: torch.special.hermite_polynomial_h(tensor(2), tensor(2)),
    "special_hermite_polynomial_he": lambda: torch.special.hermite_polynomial_he(tensor(2), tensor(2)),
    "special_xlog1py": lambda: torch.special.xlog1py(tensor(2), tensor(2)),
    "xlogy": lambda: torch.xlogy(tensor(2), tensor(2)),
    "lerp": lambda: torch.lerp(tensor(2), tensor(2), tensor(2)),
    "lerp_scalar": lambda: torch.lerp(tensor(2), tensor(2), 0.5),
    "where": lambda: torch.where(tensor(2) > 0, tensor(2), tensor(2)),
    "pow": lambda: torch.pow(tensor(2), tensor(2)),
    "pow_scalar": lambda: torch.pow(tensor(2), 2.5),
    "elu": lambda: functional.elu(tensor(2)),
    "elu_backward": lambda: aten.elu_backward(tensor(2), 1.0, 1.0, 1.0, False, tensor(2)),
    "gelu": lambda: functional.gelu(tensor(2)),
    "gelu_backward": lambda: aten.gelu_backward(tensor(2), tensor(2)),
    "hardshrink_backward": lambda: aten.hardshrink_backward(tensor(2), tensor(2), 0.5),
    "hardsigmoid": lambda: functional.hardsigmoid(tensor(2)),
    "hardsigmoid_backward": lambda: aten.hardsigmoid_backward(tensor(2), tensor(2)),
    "leaky_relu": lambda: functional.leaky_relu(tensor(2)),
    "leaky_relu_backward": lambda: aten.leaky_relu_backward(tensor(2), tensor(2), 0.1, False),
    "mish": lambda: functional.mish(tensor(2)),
    "mse_loss": lambda: functional.mse_loss(tensor(2), tensor(2), reduction="none"),
    "sigmoid_backward": lambda: aten.sigmoid_backward(tensor(2), tensor(2)),
    "silu": lambda: functional.silu(tensor(2)),
    "silu_backward": lambda: aten.silu_backward(tensor(2), tensor(2)),
    "smooth_l1_loss": lambda: functional.smooth_l1_loss(tensor(2), tensor(2), reduction="none"),
    "kaiser_window": lambda: torch.kaiser_window(9, device="rustdev"),
    "softplus": lambda: functional.softplus(tensor(2)),
    "softplus_backward": lambda: aten.softplus_backward(tensor(2), tensor(2), 1.0, 20.0),
    "softshrink": lambda: functional.softshrink(tensor(2)),
    "softshrink_backward": lambda: aten.softshrink_backward(tensor(2), tensor(2), 0.5),
    "tanh_backward": lambda: aten.tanh_backward(tensor(2), tensor(2)),
    "threshold": lambda: functional.threshold(tensor(2), 0.5, 0.0),
    "residual_add": lambda: rustdev.residual_add(tensor(2), tensor(2), tensor(2)),
    "rotary": lambda: rustdev.rotary(tensor(2), tensor(1), tensor(1)),
    "swiglu": lambda: rustdev.swiglu(tensor(2), tensor(2)),
    "swiglu_backward": lambda: rustdev.swiglu_backward(tensor(2), tensor(2), tensor(2)),
    "threshold_backward": lambda: aten.threshold_backward(tensor(2), tensor(2), 0),
    "_amp_foreach_non_finite_check_and_unscale_": lambda: aten._amp_foreach_non_finite_check_and_unscale_(
        [tensor(2)], tensor(1), tensor(1)
    ),
    "_amp_update_scale_": lambda: aten._amp_update_scale_(tensor(1), tensor(1).int(), tensor(1), 2.0, 0.5, 1),
    "_foreach_add.List": lambda: torch._foreach_add([tensor(2)], [tensor(2)]),
    "_foreach_add.Scalar": lambda: torch._foreach_add([tensor(2)], 1.0),
    "_foreach_addcdiv.Scalar": lambda: torch._foreach_addcdiv([tensor(2)], [tensor(2)], [tensor(2)]),
    "_foreach_addcmul.Scalar": lambda: torch._foreach_addcmul([tensor(2)], [tensor(2)], [tensor(2)]),
    "_foreach_div.List": lambda: torch._foreach_div([tensor(2)], [tensor(2)]),
    "_foreach_div.Scalar": lambda: torch._foreach_div([tensor(2)], 2.0),
    "_foreach_lerp.List": lambda: torch._foreach_lerp([tensor(2)], [tensor(2)], [tensor(2)]),
    "_foreach_lerp.Scalar": lambda: torch._foreach_lerp([tensor(2)], [tensor(2)], 0.5),
    "_foreach_maximum.List": lambda: torch._foreach_maximum([tensor(2)], [tensor(2)]),
    "_foreach_minimum.List": lambda: torch._foreach_minimum([tensor(2)], [tensor(2)]),
    "_foreach_mul.List": lambda: torch._foreach_mul([tensor(2)], [tensor(2)]),
    "_foreach_mul.Scalar": lambda: torch._foreach_mul([tensor(2)], 2.0),
    "_foreach_sub.List": lambda: torch._foreach_sub([tensor(2)], [tensor(2)]),
    "_foreach_sub.Scalar": lambda: torch._foreach_sub([tensor(2)], 1.0),
    "_foreach_clamp_max.Scalar": lambda: torch._foreach_clamp_max([tensor(2)], 1.0),
    "_foreach_clamp_min.Scalar": lambda: torch._foreach_clamp_min([tensor(2)], 1.0),
    "_foreach_copy_": lambda: torch._foreach_copy_([tensor(2)], [tensor(2)]),
    "_foreach_norm.Scalar": lambda: torch._foreach_norm([tensor(2)]),
    "_foreach_pow.List": lambda: torch._foreach_pow([tensor(2)], [tensor(2)]),
    "_foreach_pow.Scalar": lambda: torch._foreach_pow([tensor(2)], 2.0),
    "_foreach_pow.ScalarAndTensor": lambda: torch._foreach_pow(2.0, [tensor(2)]),
    "_foreach_zero_": lambda: torch._foreach_zero_([tensor(2)]),
    "_fused_adagrad_": lambda: optimize(torch.optim.Adagrad),
    "_fused_adam_": lambda: optimize(torch.optim.Adam),
    "_fused_adamw_": lambda: optimize(torch.optim.AdamW),
    "_fused_sgd_": lambda: optimize(torch.optim.SGD),
}
CALLS |= {
    "_embedding_bag": lambda: functional.embedding_bag(positions(2) * 0, tensor(2, 2), positions(1) * 0),
    "embedding_dense_backward": lambda: aten.embedding_dense_backward(tensor(2, 2), positions(2), 2, -1, False),
    "embedding_renorm_": lambda: aten.embedding_renorm_(tensor(2, 2), positions(2), 1.0, 2.0),
    "gather": lambda: torch.gather(tensor(2), 0, positions(2)),
    "index": lambda: tensor(2)[positions(2)],
    "index_add": lambda: tensor(2).index_add(0, positions(2), tensor(2)),
    "index_copy": lambda: tensor(2).index_copy(0, positions(2), tensor(2)),
    "index_fill": lambda: tensor(2).index_fill(0, positions(2), 3),
    "index_put": lambda: tensor(2).index_put((positions(2),), tensor(2)),
    "index_reduce": lambda: tensor(2).index_reduce(0, positions(2), tensor(2), "prod"),
    "index_select": lambda: tensor(2).index_select(0, positions(2)),
    "masked_scatter": lambda: tensor(2).masked_scatter(tensor(2) > 0, tensor(2)),
    "masked_select": lambda: tensor(2).masked_select(tensor(2) > 0),
    "nonzero_count": lambda: tensor(2).nonzero(),
    "put": lambda: tensor(2).put_(positions(2), tensor(2)),
    "scatter": lambda: tensor(2).scatter(0, positions(2), 3),
    "scatter_add": lambda: tensor(2).scatter_add(0, positions(2), tensor(2)),
    "scatter_reduce": lambda: tensor(2).scatter_reduce(0, positions(2), tensor(2), "amax"),
    "take": lambda: torch.take(tensor(2), positions(2)),
}
BINARY = {"add", "sub", "mul", "div", "fmod", "remainder", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"}


def call(name: str) -> object:
    """Call the operator of a row."""
    VALUES["made"] = 0
    if name in CALLS:
        return CALLS[name]()
    if name in BINARY:
        return getattr(torch, name)(tensor(2, 3), tensor(3))
    if name.startswith("_foreach_"):
        return getattr(torch, name)([tensor(2)])
    if name.startswith("special_"):
        return getattr(torch.special, name.removeprefix("special_"))(tensor(2))
    return getattr(torch, name)(tensor(2))


# Rows of operators that PyTorch 2.15 has, and older ones make of others.
ROWS = [
    name
    for name in torch.rustdev.op_calls()
    if name != "ldexp" or not torch._C._dispatch_has_kernel_for_dispatch_key("aten::ldexp.Tensor", "CompositeImplicitAutograd")
]


@pytest.mark.parametrize("name", ROWS)
def test_every_row_is_bound_and_called(name: str) -> None:
    before = torch.rustdev.op_calls()[name]
    call(name)
    assert torch.rustdev.op_calls()[name] > before


DTYPES = [
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool, torch.uint16, torch.uint32, torch.uint64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu),
]
# Products of matrices of 8 bit floats are left to the fallback.
MATRICES = {"mm", "addmm", "bmm", "baddbmm", "addmv"}
# Operators that the CPU does not have, or calls with other arguments.
OWN = {"_thnn_fused_lstm_cell", "_thnn_fused_lstm_cell_backward_impl", "log_sigmoid_backward"}
OWN |= {"residual_add", "rotary", "swiglu", "swiglu_backward"}
# What differs from run to run or from device to device: random numbers, and memory that nothing was written to.
ARBITRARY = {
    *("bernoulli_", "bernoulli_.float", "binomial", "cauchy_", "exponential_", "geometric_", "log_normal_", "multinomial"),
    *("native_dropout", "normal_", "poisson", "random_", "randperm", "uniform_"),
}


#: Values of so many seeds.
SEEDS = 3


def expected_of(name: str) -> tuple[bool, object]:
    """Return whether the CPU takes a call, and its result, with numbers of both signs if it takes those."""
    for signs in (True, False):
        VALUES["signs"] = signs
        try:
            return True, call(name)
        except (RuntimeError, AttributeError, TypeError, ValueError, IndexError):
            continue
    return False, None


def is_no_further(found: object, expected: object, exact: object) -> bool:
    """Return whether the device's results are as near to the exact ones as the CPU's."""
    mine, theirs, best = (
        [it.cpu().double() for it in pytree.tree_leaves(tree) if isinstance(it, torch.Tensor)] for tree in (found, expected, exact)
    )
    results = zip(mine, theirs, best, strict=True)
    return all(bool((one - ideal).abs().amax() <= (other - ideal).abs().amax()) for one, other, ideal in results)


@pytest.mark.filterwarnings("ignore:ComplexHalf support", "ignore:Casting complex values", "ignore:index_reduce")
@pytest.mark.parametrize("name", torch.rustdev.op_calls())
def test_rows_have_every_dtype_of_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    for dtype, seed in itertools.product(DTYPES, range(SEEDS)):
        if dtype.itemsize == 1 and dtype.is_floating_point and name in MATRICES:
            continue
        monkeypatch.setitem(KIND, "dtype", dtype)
        monkeypatch.setitem(KIND, "device", "cpu")
        monkeypatch.setitem(VALUES, "seed", seed)
        monkeypatch.setitem(VALUES, "signs", True)
        is_taken, expected = expected_of(name)
        if not is_taken:
            continue
        monkeypatch.setitem(KIND, "device", "rustdev")
        found = call(name)
        torch.rustdev.synchronize()
        compared += 1
        if name not in ARBITRARY and expected is not None:
            try:
                torch.testing.assert_close(found, expected, check_device=False, equal_nan=True, msg=f"{dtype}, {seed}: {{}}".format)
            except AssertionError:
                monkeypatch.setitem(ROUNDED, "to", dtype)
                monkeypatch.setitem(KIND, "device", "cpu")
                monkeypatch.setitem(KIND, "dtype", torch.float64)
                if not (dtype.is_floating_point and is_no_further(found, expected, call(name))):
                    raise
                monkeypatch.setitem(ROUNDED, "to", None)
    assert (compared == 0) == (name in OWN)


def test_rows_of_the_table() -> None:
    rows = torch.rustdev.op_calls()
    expected = [
        "fill_",
        "zero_",
        "copy_",
        "add",
        "sub",
        "mul",
        "div",
        "neg",
        "relu",
        "threshold_backward",
        "exp",
        "maximum",
        "eq",
        "lt",
        "gt",
        "sum",
        "mean",
        "mm",
        "addmm",
    ]
    assert not set(expected) - set(rows)
