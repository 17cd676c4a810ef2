"""LSTM, GRU and RNN over whole sequences against the CPU: values, first and second gradients, layers composed of cells."""

import copy
import functools
import itertools

import pytest
import torch
from comparison import compare, compare_errors, compare_gradients
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

Sizes = tuple[tuple[int, ...], ...]
STEPS, BATCH, INPUTS, SIZE = 5, 9, 7, 6
LAYERS = [
    {"num_layers": layers, "bidirectional": bidirectional, "bias": bias, "batch_first": batch_first}
    for layers, bidirectional, bias, batch_first in itertools.product((1, 2), (False, True), (False, True), (False, True))
    # Of two layers, the first is as one alone.
    if layers == 1 or bias
]


KINDS = {
    "lstm": (nn.LSTM, {}, "lstm_layer"),
    "gru": (nn.GRU, {}, "gru_layer"),
    "tanh": (nn.RNN, {"nonlinearity": "tanh"}, "elman_layer"),
    "relu": (nn.RNN, {"nonlinearity": "relu"}, "elman_layer"),
}
close_gradients = functools.partial(compare_gradients, rtol=1e-4, atol=1e-5)
every_kind = pytest.mark.parametrize("kind", KINDS)


def make(kind: str, **options: object) -> nn.RNNBase:
    """Return a module of the CPU, the same each time."""
    torch.manual_seed(0)
    kind, more, _ = KINDS[kind]
    return kind(INPUTS, SIZE, **more, **options)


def sequence(module: nn.RNNBase, batch: int = BATCH, dtype: torch.dtype = torch.float32) -> Tensor:
    sizes = (batch, STEPS, INPUTS) if module.batch_first else (STEPS, batch, INPUTS)
    return torch.randn(sizes, dtype=dtype, generator=torch.Generator().manual_seed(1))


@every_kind
@pytest.mark.parametrize("options", LAYERS, ids=lambda options: "-".join(str(int(value)) for value in options.values()))
def test_layers_are_those_of_the_cpu(kind: str, options: dict[str, object]) -> None:
    module = make(kind, **options)
    values, before = sequence(module), torch.rustdev.op_calls()
    close_gradients(module, values)
    calls = torch.rustdev.op_calls()
    for kernel in (KINDS[kind][2], f"{KINDS[kind][2]}_backward"):
        assert calls[kernel] - before[kernel] == module.num_layers * (2 if module.bidirectional else 1)
    with torch.no_grad():
        compare(lambda values: copy.deepcopy(module).to(values.device)(values), values, rtol=1e-4, atol=1e-5)


@every_kind
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("batch", [1, 9, 80])
def test_dtypes(kind: str, dtype: torch.dtype, batch: int) -> None:
    """Against float64: 16 bit floats round the states at each step, and the slope of relu jumps at 0."""
    module = make(kind, num_layers=2, bidirectional=True).to(dtype)
    values, results = sequence(module, batch, dtype), []
    for of in (module.to("rustdev"), copy.deepcopy(module).cpu().double()):
        given = values.to(of.weight_ih_l0.device, of.weight_ih_l0.dtype).requires_grad_()
        found = pytree.tree_leaves(of(given))
        sum(function(it).sum() for function, it in zip((torch.square, torch.sin, torch.cos), found, strict=False)).backward()
        results.append([it.detach().cpu() for it in (*found, given.grad, *(it.grad for it in of.parameters()))])
    tolerance = {torch.float64: 1e-12, torch.bfloat16: 0.05, torch.float16: 0.01}[dtype]
    for found, exact in list(zip(*results, strict=True))[: 2 if kind == "relu" and dtype != torch.float64 else None]:
        assert found.dtype == dtype
        assert (found.double() - exact).abs().max() <= tolerance * max(1.0, exact.abs().max().item())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "relu"])
def test_complex_numbers(kind: str) -> None:
    """In inference: PyTorch's formula of the cells' gradients takes real numbers only."""
    module = make(kind, dtype=torch.complex128)
    with torch.no_grad():
        compare(lambda it: copy.deepcopy(module).to(it.device)(it)[0], sequence(module, dtype=torch.complex128), rtol=1e-7)


@every_kind
@pytest.mark.parametrize("batch_first", [False, True])
def test_second_derivatives(kind: str, batch_first: bool) -> None:
    on_device = make(kind, bidirectional=True, batch_first=batch_first, dtype=torch.float64).to("rustdev")
    values = sequence(on_device, 2, torch.float64)[:2].to("rustdev").requires_grad_()
    names, weights = zip(*on_device.named_parameters(), strict=True)

    def layer(values: Tensor, *weights: Tensor) -> Tensor:
        return torch.func.functional_call(on_device, dict(zip(names, weights, strict=True)), (values,))[0].sum(0)

    assert torch.autograd.gradcheck(layer, (values, *weights), fast_mode=True)
    assert torch.autograd.gradgradcheck(layer, (values, *weights), fast_mode=True)


@every_kind
def test_autocast_computes_in_the_lower_precision(kind: str) -> None:
    on_cpu = make(kind, num_layers=2)
    on_device, values = copy.deepcopy(on_cpu).to("rustdev"), sequence(on_cpu)
    with torch.autocast("rustdev", torch.bfloat16):
        results = pytree.tree_leaves(on_device(values.to("rustdev")))
        results[0].float().sum().backward()
    assert {result.dtype for result in results} == {torch.bfloat16}
    assert on_device.weight_hh_l0.grad.dtype == torch.float32
    torch.testing.assert_close(results[0].float().cpu(), on_cpu(values)[0], rtol=0.05, atol=0.02)


@every_kind
def test_dropout_lies_between_layers(kind: str) -> None:
    on_device = make(kind, num_layers=2, dropout=1.0).to("rustdev")
    with_zeros, _ = on_device(sequence(on_device).to("rustdev"))
    module, more, _ = KINDS[kind]
    second = module(SIZE, SIZE, **more).to("rustdev")
    for name, parameter in second.named_parameters():
        parameter.data.copy_(on_device.get_parameter(name.replace("l0", "l1")))
    torch.testing.assert_close(with_zeros, second(torch.zeros(STEPS, BATCH, SIZE, device="rustdev"))[0])


@every_kind
@pytest.mark.parametrize("batch", [BATCH, 70])
def test_states_are_used_and_have_gradients(kind: str, batch: int) -> None:
    module = make(kind)
    states = tuple(torch.randn(1, batch, SIZE) for _ in range(2))
    compare_gradients(module, sequence(module, batch), states if kind == "lstm" else states[0], rtol=1.3e-6, atol=1e-5)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_projections_are_made_of_cells() -> None:
    module = make("lstm", proj_size=3)
    close_gradients(module, sequence(module))


@every_kind
def test_packed_sequences_are_made_of_cells(kind: str) -> None:
    module, lengths = make(kind, bidirectional=True), torch.tensor([5, 4, 4, 3, 2, 2, 1, 1, 1])
    packed = nn.utils.rnn.pack_padded_sequence(sequence(module), lengths)
    expected = module(packed)[0].data.detach()
    found = module.to("rustdev")(packed.to("rustdev"))[0].data
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)


@every_kind
def test_transforms_see_the_operators(kind: str) -> None:
    module = make(kind)
    modules = {"cpu": module, "rustdev": copy.deepcopy(module).to("rustdev")}

    def total(parameters: dict[str, Tensor], values: Tensor) -> Tensor:
        return torch.func.functional_call(modules[values.device.type], parameters, (values,))[0].square().sum()

    compare(torch.func.grad(total), dict(module.named_parameters()), torch.randn(STEPS, 2, INPUTS), rtol=1e-4, atol=1e-5)


@every_kind
def test_bad_arguments_are_refused_as_on_the_cpu(kind: str) -> None:
    module = make(kind)
    values, on_device = sequence(module), copy.deepcopy(module).to("rustdev")
    for wrong in (torch.randn(STEPS, BATCH, INPUTS + 1), values.double()):
        compare_errors(lambda it: (module if it.is_cpu else on_device)(it), wrong, text=False)
    function = {"lstm": torch.lstm, "gru": torch.gru, "tanh": torch.rnn_tanh, "relu": torch.rnn_relu}[kind]
    states = [torch.zeros(1, BATCH, SIZE, device="rustdev")] * 2
    with pytest.raises(RuntimeError):  # an input in host memory
        function(values, states if kind == "lstm" else states[0], list(on_device.parameters()), True, 1, 0.0, False, False, False)
    close_gradients(module, values)


def test_layers_refuse_sizes_that_do_not_go_together() -> None:
    weights, states = ((4, 2), (4, 1), (4,), (4,)), ((3, 1), (3, 1))

    def layer(*size: int, weights: Sizes = weights, states: Sizes = states) -> None:
        values, given, lasts = ([torch.zeros(it, device="rustdev") for it in sizes] for sizes in ([size], weights, states))
        torch.ops.rustdev.lstm_layer(*values, given, lasts, False)

    layer(5, 3, 2)
    refused = [((5, 3, 1), {}), ((3, 2), {}), ((0, 3, 2), {})]
    refused += [
        ((5, 3, 2), {"weights": it})
        for it in (weights[:1], weights[:3], ((3, 2), *weights[1:]), ((4, 2), (4,)), (*weights[:3], (3,)))
    ]
    refused += [((5, 3, 2), {"states": it}) for it in ((), states[:1], ((3, 1), (2, 1)), ((3, 2), (3, 2)))]
    for size, others in refused:
        with pytest.raises(RuntimeError, match="expected a layer"):
            layer(*size, **others)


@every_kind
def test_an_empty_batch(kind: str) -> None:
    module, empty = make(kind), torch.randn(STEPS, 0, INPUTS)
    assert module(empty)[0].shape == module.to("rustdev")(empty.to("rustdev"))[0].shape


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_recurrent_cells(kind: type[nn.RNNCellBase]) -> None:
    state = torch.randn(3, 6)
    given = (state, torch.randn(3, 6)) if kind is nn.LSTMCell else state
    compare_gradients(kind(4, 6), torch.randn(3, 4), rtol=5e-5)
    compare_gradients(kind(4, 6), torch.randn(3, 4), given, rtol=5e-5)


def test_cells_refuse_gates_that_are_none() -> None:
    gates = torch.ones(2, 2, device="rustdev")
    for cell in (torch.ops.aten._thnn_fused_lstm_cell, torch.ops.aten._thnn_fused_gru_cell):
        for refused in (gates, gates[0]):
            with pytest.raises(RuntimeError, match="expected gates of"):
                cell(refused, refused, gates)
    wide = torch.ones(2, 8, device="rustdev")
    for state in (wide, gates[0], gates[:1]):
        with pytest.raises(RuntimeError, match="a cell state of a quarter"):
            torch.ops.aten._thnn_fused_lstm_cell(wide, wide, state)


def test_a_checkpoint_unpacks_what_a_layer_saves_once() -> None:
    torch.manual_seed(0)
    layer, x = nn.LSTM(4, 3).to("rustdev"), torch.randn(5, 2, 4, device="rustdev", requires_grad=True)
    outputs = [layer(x)[0], checkpoint(lambda x: layer(x)[0], x, use_reentrant=False)]
    plain, recomputed = (torch.autograd.grad(output.sum(), x)[0] for output in outputs)
    assert torch.equal(plain, recomputed)
    nodes = [outputs[0].grad_fn]
    for node in nodes:
        nodes += [following for following, _ in node.next_functions if following is not None]
    assert any("Layer" in node.name() for node in nodes)
