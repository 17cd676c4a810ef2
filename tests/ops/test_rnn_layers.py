"""LSTM, GRU and RNN over whole sequences against the CPU: values, first and second gradients, layers composed of cells."""

import copy
import itertools

import pytest
import torch
from torch import Tensor, nn

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
every_kind = pytest.mark.parametrize("kind", KINDS)


def pair(kind: str, dtype: torch.dtype = torch.float32, **options: object) -> tuple[nn.RNNBase, nn.RNNBase]:
    torch.manual_seed(0)
    make, more, _ = KINDS[kind]
    on_cpu = make(INPUTS, SIZE, **more, **options).to(dtype)
    return on_cpu, copy.deepcopy(on_cpu).to("rustdev")


def sequence(module: nn.RNNBase, batch: int = BATCH, dtype: torch.dtype = torch.float32) -> Tensor:
    torch.manual_seed(1)
    sizes = (batch, STEPS, INPUTS) if module.batch_first else (STEPS, batch, INPUTS)
    return torch.randn(sizes, dtype=dtype)


def call(module: nn.RNNBase, values: Tensor, states: list[Tensor] | None = None) -> list[Tensor]:
    """Return the output and the last states."""
    given = None if states is None else tuple(states) if isinstance(module, nn.LSTM) else states[0]
    out, last = module(values, given)
    return [out, *(last if isinstance(module, nn.LSTM) else [last])]


def run(module: nn.RNNBase, values: Tensor) -> list[Tensor]:
    """The output, the last states, and the gradients of the input and of the parameters."""
    given = values.to(module.weight_ih_l0.device, copy=True).requires_grad_()
    results = call(module, given)
    sum(function(result).sum() for function, result in zip((torch.square, torch.sin, torch.cos), results, strict=False)).backward()
    results += [given.grad, *(parameter.grad for parameter in module.parameters())]
    return [result.detach().cpu() for result in results]


@every_kind
@pytest.mark.parametrize("options", LAYERS, ids=lambda options: "-".join(str(int(value)) for value in options.values()))
def test_layers_are_those_of_the_cpu(kind: str, options: dict[str, object]) -> None:
    on_cpu, on_device = pair(kind, **options)
    values = sequence(on_cpu)
    before = torch.rustdev.op_calls()
    torch.testing.assert_close(run(on_device, values), run(on_cpu, values), rtol=1e-4, atol=1e-5)
    calls = torch.rustdev.op_calls()
    for kernel in (KINDS[kind][2], f"{KINDS[kind][2]}_backward"):
        assert calls[kernel] - before[kernel] == on_device.num_layers * (2 if on_device.bidirectional else 1)
    with torch.no_grad():
        found, expected = call(on_device, values.to("rustdev")), call(on_cpu, values)
        torch.testing.assert_close([result.cpu() for result in found], expected, rtol=1e-4, atol=1e-5)


@every_kind
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("batch", [1, 9, 80])
def test_dtypes(kind: str, dtype: torch.dtype, batch: int) -> None:
    """Against float64 rounded at the end: 16 bit floats round the states at each step, and the slope of relu jumps at 0."""
    exact, on_device = pair(kind, torch.float64, num_layers=2, bidirectional=True)
    exact.to(dtype).double()
    on_device.to(dtype)
    values = sequence(exact, batch, dtype)
    tolerance = {torch.float64: 1e-12, torch.bfloat16: 0.05, torch.float16: 0.01}[dtype]
    results = list(zip(run(on_device, values), run(exact, values.double()), strict=True))
    for found, expected in results[: 2 if kind == "relu" and dtype != torch.float64 else None]:
        assert found.dtype == dtype
        assert (found.double() - expected).abs().max() <= tolerance * max(1.0, expected.abs().max().item())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "relu"])
def test_complex_numbers(kind: str) -> None:
    """In inference: PyTorch's formula of the cells' gradients takes real numbers only."""
    make, more, _ = KINDS[kind]
    on_cpu, on_device = (make(INPUTS, SIZE, **more, dtype=torch.complex128) for _ in range(2))
    on_device.load_state_dict(on_cpu.state_dict())
    on_device.to("rustdev")
    values = sequence(on_cpu, dtype=torch.complex128)
    with torch.no_grad():
        torch.testing.assert_close(on_device(values.to("rustdev"))[0].cpu(), on_cpu(values)[0])


@every_kind
@pytest.mark.parametrize("batch_first", [False, True])
def test_second_derivatives(kind: str, batch_first: bool) -> None:
    _, on_device = pair(kind, torch.float64, bidirectional=True, batch_first=batch_first)
    values = sequence(on_device, 2, torch.float64)[:2].to("rustdev").requires_grad_()
    names, weights = zip(*on_device.named_parameters(), strict=True)

    def layer(values: Tensor, *weights: Tensor) -> Tensor:
        return torch.func.functional_call(on_device, dict(zip(names, weights, strict=True)), (values,))[0].sum(0)

    assert torch.autograd.gradcheck(layer, (values, *weights), fast_mode=True)
    assert torch.autograd.gradgradcheck(layer, (values, *weights), fast_mode=True)


@every_kind
def test_autocast_computes_in_the_lower_precision(kind: str) -> None:
    on_cpu, on_device = pair(kind, num_layers=2)
    values = sequence(on_cpu)
    with torch.autocast("rustdev", torch.bfloat16):
        results = call(on_device, values.to("rustdev"))
        results[0].float().sum().backward()
    assert {result.dtype for result in results} == {torch.bfloat16}
    assert on_device.weight_hh_l0.grad.dtype == torch.float32
    torch.testing.assert_close(results[0].float().cpu(), on_cpu(values)[0], rtol=0.05, atol=0.02)


@every_kind
def test_dropout_lies_between_layers(kind: str) -> None:
    _, on_device = pair(kind, num_layers=2, dropout=1.0)
    with_zeros, _ = on_device(sequence(on_device).to("rustdev"))
    make, more, _ = KINDS[kind]
    second = make(SIZE, SIZE, **more).to("rustdev")
    for name, parameter in second.named_parameters():
        parameter.data.copy_(on_device.get_parameter(name.replace("l0", "l1")))
    torch.testing.assert_close(with_zeros, second(torch.zeros(STEPS, BATCH, SIZE, device="rustdev"))[0])


@every_kind
@pytest.mark.parametrize("batch", [BATCH, 70])
def test_states_are_used_and_have_gradients(kind: str, batch: int) -> None:
    modules = pair(kind)
    torch.manual_seed(2)
    states = [torch.randn(1, batch, SIZE) for _ in range(2 if kind == "lstm" else 1)]
    results = []
    for module, device in zip(modules, ("cpu", "rustdev"), strict=True):
        given = [state.to(device, copy=True).requires_grad_() for state in states]
        call(module, sequence(module, batch).to(device), given)[0].sum().backward()
        results.append([state.grad.cpu() for state in given])
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_projections_are_made_of_cells() -> None:
    on_cpu, on_device = pair("lstm", proj_size=3)
    values = sequence(on_cpu)
    torch.testing.assert_close(run(on_device, values), run(on_cpu, values), rtol=1e-4, atol=1e-5)


@every_kind
def test_packed_sequences_are_made_of_cells(kind: str) -> None:
    on_cpu, on_device = pair(kind, bidirectional=True)
    lengths = torch.tensor([5, 4, 4, 3, 2, 2, 1, 1, 1])
    packed = nn.utils.rnn.pack_padded_sequence(sequence(on_cpu), lengths)
    found, expected = on_device(packed.to("rustdev"))[0], on_cpu(packed)[0]
    torch.testing.assert_close(found.data.cpu(), expected.data, rtol=1e-4, atol=1e-5)


@every_kind
def test_transforms_see_the_operators(kind: str) -> None:
    on_cpu, on_device = pair(kind)
    values = torch.randn(3, STEPS, 2, INPUTS)

    def total(parameters: dict[str, Tensor], module: nn.RNNBase, values: Tensor) -> Tensor:
        return torch.func.functional_call(module, parameters, (values,))[0].square().sum()

    found = torch.func.grad(total)(dict(on_device.named_parameters()), on_device, values[0].to("rustdev"))
    expected = torch.func.grad(total)(dict(on_cpu.named_parameters()), on_cpu, values[0])
    torch.testing.assert_close({name: value.cpu() for name, value in found.items()}, expected, rtol=1e-4, atol=1e-5)


@every_kind
def test_bad_arguments_are_refused_as_on_the_cpu(kind: str) -> None:
    modules = pair(kind)
    on_device = modules[1]
    for wrong in (torch.randn(STEPS, BATCH, INPUTS + 1), torch.randn(STEPS, BATCH, INPUTS, dtype=torch.float64)):
        errors = []
        for module, device in zip(modules, ("cpu", "rustdev"), strict=True):
            with pytest.raises((RuntimeError, ValueError)) as error:
                module(wrong.to(device))
            errors.append(type(error.value))
        assert errors[0] is errors[1]
    function = {"lstm": torch.lstm, "gru": torch.gru, "tanh": torch.rnn_tanh, "relu": torch.rnn_relu}[kind]
    states = [torch.zeros(1, BATCH, SIZE, device="rustdev")] * 2
    given = states if kind == "lstm" else states[0]
    with pytest.raises(RuntimeError):  # an input in host memory
        function(sequence(on_device), given, list(on_device.parameters()), True, 1, 0.0, False, False, False)
    run(on_device, sequence(on_device))


def test_layers_refuse_sizes_that_do_not_go_together() -> None:
    def zeros(*sizes: tuple[int, ...]) -> list[Tensor]:
        return [torch.zeros(size, device="rustdev") for size in sizes]

    weights, states = ((4, 2), (4, 1), (4,), (4,)), ((3, 1), (3, 1))
    torch.ops.rustdev.lstm_layer(*zeros((5, 3, 2)), zeros(*weights), zeros(*states), False)
    for size in ((5, 3, 1), (3, 2), (0, 3, 2)):
        with pytest.raises(RuntimeError, match="expected a layer"):
            torch.ops.rustdev.lstm_layer(*zeros(size), zeros(*weights), zeros(*states), False)
    for refused in (weights[:1], weights[:3], ((3, 2), *weights[1:]), ((4, 2), (4,)), (*weights[:3], (3,))):
        with pytest.raises(RuntimeError, match="expected a layer"):
            torch.ops.rustdev.lstm_layer(*zeros((5, 3, 2)), zeros(*refused), zeros(*states), False)
    for refused in ((), states[:1], ((3, 1), (2, 1)), ((3, 2), (3, 2))):
        with pytest.raises(RuntimeError, match="expected a layer"):
            torch.ops.rustdev.lstm_layer(*zeros((5, 3, 2)), zeros(*weights), zeros(*refused), False)


@every_kind
def test_an_empty_batch(kind: str) -> None:
    on_cpu, on_device = pair(kind)
    empty = torch.randn(STEPS, 0, INPUTS)
    found, expected = on_device(empty.to("rustdev"))[0], on_cpu(empty)[0]
    assert found.shape == expected.shape
