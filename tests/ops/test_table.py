"""The operator table: every row is bound to an operator, and a call of that operator reaches the kernel."""

import itertools
from collections.abc import Callable
from functools import partial

import pytest
import torch
from schema_calls import sample_of
from torch.nn import functional
from torch.utils import _pytree as pytree

aten = torch.ops.aten
rustdev = torch.ops.rustdev


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


def layer(function: Callable[..., tuple[torch.Tensor, ...]], gates: int, values: torch.Tensor) -> torch.Tensor:
    """Return the output of a recurrent layer with this number of gates."""
    states = [tensor(1, 2, 1), tensor(1, 2, 1)] if function is torch.lstm else []
    weights = [tensor(gates, 1), tensor(gates, 1), tensor(gates), tensor(gates)]
    return function(values, states or tensor(1, 2, 1), weights, True, 1, 0.0, False, False, False)[0]


LAYERS = {"elman": (torch.rnn_tanh, 1), "gru": (torch.gru, 3), "lstm": (torch.lstm, 4)}


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


def convolve(values: torch.Tensor) -> torch.Tensor:
    """Return the convolution of channels-last images whose channels have weights of their own."""
    return functional.conv2d(values.contiguous(memory_format=torch.channels_last), tensor(2, 1, 2, 2), groups=2)


# Operators of two tensors of integers.
OF_INTEGERS = ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "gcd", "lcm"]
# Calls of rows that no call made of their schema launches, or that need other values.
CALLS: dict[str, Callable[[], object]] = {
    **{f"{name}_layer": lambda name=name: layer(*LAYERS[name], tensor(2, 2, 1)) for name in LAYERS},
    **{f"{name}_layer_backward": lambda name=name: gradient(partial(layer, *LAYERS[name]), tensor(2, 2, 1)) for name in LAYERS},
    **{name: lambda name=name: getattr(torch, name)(tensor(2).int(), tensor(2).int()) for name in OF_INTEGERS},
    "_convert_weight_to_int4pack_for_cpu": lambda: aten._convert_weight_to_int4pack_for_cpu(tensor(16, 4).int(), 1),
    "_int_mm": lambda: torch._int_mm(tensor(2, 4).to(torch.int8), positions(4, 3).to(torch.int8)),
    "_weight_int4pack_mm_for_cpu": lambda: aten._weight_int4pack_mm_for_cpu(
        # Sums of whole numbers, which are exact in every order.
        positions(2, 32).to(**KIND),
        aten._convert_weight_to_int4pack_for_cpu(positions(16, 32).int(), 1),
        *(32, positions(1, 16, 2).to(**KIND)),
    ),
    "_weight_int8pack_mm": lambda: aten._weight_int8pack_mm(tensor(2, 32), positions(16, 32).to(torch.int8), tensor(16)),
    "addmv": lambda: torch.addmv(tensor(2), tensor(2, 2), tensor(2)),
    "_scaled_dot_product_flash_attention_for_cpu_backward": lambda: attend_and_go_back(tensor(1, 1, 2, 32)),
    "multinomial": lambda: torch.multinomial(tensor(2), 3, replacement=True),
    "_thnn_fused_lstm_cell": lambda: aten._thnn_fused_lstm_cell(tensor(2, 4), tensor(2, 4), tensor(2, 1)),
    "_thnn_fused_lstm_cell_backward_impl": lambda: aten._thnn_fused_lstm_cell_backward_impl(
        tensor(2, 1), tensor(2, 1), tensor(2, 1), tensor(2, 1), tensor(2, 4), False
    ),
    "depthwise": lambda: convolve(tensor(1, 2, 3, 3)),
    "depthwise_weight": lambda: aten.convolution_backward(
        tensor(1, 2, 2, 2).contiguous(memory_format=torch.channels_last),
        tensor(1, 2, 3, 3).contiguous(memory_format=torch.channels_last),
        *(tensor(2, 1, 2, 2), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 2, [False, True, False]),
    )[1],
    "native_layer_norm": lambda: functional.layer_norm(tensor(2, 3), (3,)),
    "native_layer_norm_backward": lambda: aten.native_layer_norm_backward(
        tensor(2, 3), tensor(2, 3), (3,), tensor(2, 1), tensor(2, 1), None, None, [True, False, False]
    ),
    "max_pool2d_with_indices_backward": lambda: aten.max_pool2d_with_indices_backward(
        tensor(1, 1, 1, 1), tensor(1, 1, 2, 2), 2, 2, 0, 1, False, positions(1, 1, 1, 1)
    ),
    "native_batch_norm": lambda: functional.batch_norm(tensor(2, 3), None, None, training=True),
    "native_batch_norm_backward": lambda: aten.native_batch_norm_backward(
        tensor(2, 3), tensor(2, 3), None, None, None, tensor(3), tensor(3), True, 1e-5, [True, False, False]
    ),
    "native_group_norm_backward": lambda: aten.native_group_norm_backward(
        tensor(2, 3), tensor(2, 3), tensor(2, 3), tensor(2, 3), None, 2, 3, 1, 3, [True, False, False]
    ),
    "nll_loss_backward": lambda: aten.nll_loss_backward(tensor(1)[0], tensor(2, 3), positions(2), None, 1, -100, tensor(1)[0]),
    "nll_loss_forward": lambda: functional.nll_loss(tensor(2, 3), positions(2)),
    "arange": lambda: torch.arange(3, **KIND),
    "eye": lambda: torch.eye(2, **KIND),
    "col2im": lambda: functional.fold(tensor(1, 4, 1), (2, 2), 2),
    "linspace": lambda: torch.linspace(0, 1, 3, **KIND),
    "logspace": lambda: torch.logspace(0, 1, 3, **KIND),
    "reflection_pad": lambda: functional.pad(tensor(1, 1, 3), (1, 1), mode="reflect"),
    "reflection_pad_backward": lambda: aten.reflection_pad1d_backward(tensor(1, 1, 5), tensor(1, 1, 3), (1, 1)),
    "repeat_interleave": lambda: torch.repeat_interleave(positions(2)),
    "replication_pad": lambda: functional.pad(tensor(1, 1, 3), (1, 1), mode="replicate"),
    "replication_pad_backward": lambda: aten.replication_pad1d_backward(tensor(1, 1, 5), tensor(1, 1, 3), (1, 1)),
    "unique_collect": lambda: torch.unique(tensor(2), return_inverse=True),
    "unique_groups": lambda: torch.unique(tensor(2), return_inverse=True),
    "unique_line": lambda: torch.unique(tensor(2)),
    "unique_order": lambda: torch.unique(tensor(2, 2), dim=0),
    "unique_rows": lambda: torch.unique(tensor(2), return_inverse=True),
    "tril_indices": lambda: torch.tril_indices(2, 2, **KIND),
    "triu_indices": lambda: torch.triu_indices(2, 2, **KIND),
    "unfold_backward": lambda: aten.unfold_backward(tensor(2, 2), (3,), 0, 2, 1),
    "randperm": lambda: torch.randperm(3, **KIND),
    "bitwise_not": lambda: ~tensor(2).int(),
    "clamp": lambda: torch.clamp(tensor(2), 0.0, 1.0),
    "clamp_max_tensor": lambda: torch.clamp_max(tensor(2), tensor(2)),
    "clamp_min_tensor": lambda: torch.clamp_min(tensor(2), tensor(2)),
    "clamp_tensor": lambda: torch.clamp(tensor(2), tensor(2), tensor(2)),
    "complex_abs": lambda: tensor(2).cfloat().abs(),
    "glu_backward": lambda: aten.glu_backward(tensor(1), tensor(2), 0),
    "log_sigmoid_backward": lambda: aten.log_sigmoid_backward(tensor(2), tensor(2), tensor(0)),
    "log_sigmoid_forward": lambda: functional.logsigmoid(tensor(2)),
    "ldexp": lambda: torch.ldexp(tensor(2), tensor(2).int()),
    "round_decimals": lambda: torch.round(tensor(2), decimals=1),
    "smooth_l1_loss_backward": lambda: aten.smooth_l1_loss_backward(tensor(2), tensor(2), tensor(2), 1, 1.0),
    "lerp_scalar": lambda: torch.lerp(tensor(2), tensor(2), 0.5),
    "where": lambda: torch.where(tensor(2) > 0, tensor(2), tensor(2)),
    "pow_scalar": lambda: torch.pow(tensor(2), 2.5),
    "kaiser_window": lambda: torch.kaiser_window(9, device="rustdev"),
    "residual_add": lambda: rustdev.residual_add(tensor(2), tensor(2), tensor(2)),
    "rotary": lambda: rustdev.rotary(tensor(2), tensor(1), tensor(1)),
    "swiglu": lambda: rustdev.swiglu(tensor(2), tensor(2)),
    "swiglu_backward": lambda: rustdev.swiglu_backward(tensor(2), tensor(2), tensor(2)),
    "_amp_update_scale_": lambda: aten._amp_update_scale_(tensor(1), tensor(1).int(), tensor(1), 2.0, 0.5, 1),
    "_fused_adam_": lambda: optimize(torch.optim.Adam),
    "_fused_adamw_": lambda: optimize(torch.optim.AdamW),
}
CALLS |= {
    "_embedding_bag": lambda: functional.embedding_bag(positions(2) * 0, tensor(2, 2), positions(1) * 0),
    "embedding_dense_backward": lambda: aten.embedding_dense_backward(tensor(2, 2), positions(2), 2, -1, False),
    "index_reduce": lambda: tensor(2).index_reduce(0, positions(2), tensor(2), "prod"),
    "nonzero_count": lambda: tensor(2).nonzero(),
    "scatter_reduce": lambda: tensor(2).scatter_reduce(0, positions(2), tensor(2), "amax"),
}


def make(what: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a tensor for a call made of a schema."""
    if what == "positions":
        return positions(*shape)
    return tensor(*shape) > 0 if what == "mask" else tensor(*shape)


def call(name: str) -> object:
    """Call the operator of a row."""
    sample = None if name in CALLS else sample_of(name)
    VALUES["made"] = 0
    return sample.call(make) if sample else CALLS[name]()


# Rows of operators that PyTorch 2.15 has, and older ones make of others.
ROWS = [
    name
    for name in torch.rustdev.op_calls()
    if name != "ldexp" or not torch._C._dispatch_has_kernel_for_dispatch_key("aten::ldexp.Tensor", "CompositeImplicitAutograd")
]


@pytest.mark.every_operator
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
