"""torch.nn.LSTM over whole sequences beside PyTorch's CPU device: values, gradients of both orders, what is made of cells."""

import copy
import itertools

import pytest
import torch
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("strict")

STEPS, BATCH, INPUTS, SIZE = 5, 9, 7, 6
LAYERS = [
    {"num_layers": layers, "bidirectional": bidirectional, "bias": bias, "batch_first": batch_first}
    for layers, bidirectional, bias, batch_first in itertools.product((1, 2), (False, True), (False, True), (False, True))
]


def pair(dtype: torch.dtype = torch.float32, **options: object) -> tuple[nn.LSTM, nn.LSTM]:
    torch.manual_seed(0)
    on_cpu = nn.LSTM(INPUTS, SIZE, **options).to(dtype)
    return on_cpu, copy.deepcopy(on_cpu).to("rustdev")


def sequence(module: nn.LSTM, batch: int = BATCH, dtype: torch.dtype = torch.float32) -> Tensor:
    torch.manual_seed(1)
    sizes = (batch, STEPS, INPUTS) if module.batch_first else (STEPS, batch, INPUTS)
    return torch.randn(sizes, dtype=dtype)


def run(module: nn.LSTM, values: Tensor) -> list[Tensor]:
    """The output, the last states, and the gradients of the input and of the parameters."""
    given = values.to(module.weight_ih_l0.device, copy=True).requires_grad_()
    out, (hy, cy) = module(given)
    (out.square().sum() + hy.sin().sum() + cy.cos().sum()).backward()
    results = [out, hy, cy, given.grad, *(parameter.grad for parameter in module.parameters())]
    return [result.detach().cpu() for result in results]


@pytest.mark.parametrize("options", LAYERS, ids=lambda options: "-".join(str(int(value)) for value in options.values()))
def test_layers_are_those_of_the_cpu(options: dict[str, object]) -> None:
    on_cpu, on_device = pair(**options)
    values = sequence(on_cpu)
    before = torch.rustdev.op_calls()
    torch.testing.assert_close(run(on_device, values), run(on_cpu, values), rtol=1e-4, atol=1e-5)
    calls = torch.rustdev.op_calls()
    for kernel in ("lstm_layer", "lstm_layer_backward"):
        assert calls[kernel] - before[kernel] == on_device.num_layers * (2 if on_device.bidirectional else 1)
    with torch.no_grad():
        found, expected = on_device(values.to("rustdev")), on_cpu(values)
        torch.testing.assert_close(found[0].cpu(), expected[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close([state.cpu() for state in found[1]], list(expected[1]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("batch", [1, 9, 80])
def test_dtypes(dtype: torch.dtype, batch: int) -> None:
    """Against float64 rounded at the end: 16 bit floats round the states at each step."""
    exact, on_device = pair(torch.float64, num_layers=2, bidirectional=True)
    exact.to(dtype).double()
    on_device.to(dtype)
    values = sequence(exact, batch, dtype)
    tolerance = {torch.float64: 1e-12, torch.bfloat16: 0.05, torch.float16: 0.01}[dtype]
    for found, expected in zip(run(on_device, values), run(exact, values.double()), strict=True):
        assert found.dtype == dtype
        assert (found.double() - expected).abs().max() <= tolerance * max(1.0, expected.abs().max().item())


def test_a_reversed_direction_is_the_sequence_reversed() -> None:
    _, both = pair(bidirectional=True)
    forward = nn.LSTM(INPUTS, SIZE).to("rustdev")
    for name, parameter in forward.named_parameters():
        parameter.data.copy_(both.get_parameter(f"{name}_reverse"))
    values = sequence(both).to("rustdev")
    torch.testing.assert_close(both(values)[0][..., SIZE:], forward(values.flip(0))[0].flip(0))


def test_complex_numbers() -> None:
    """In inference: PyTorch's formula of the cells' gradients takes real numbers only."""
    on_cpu, on_device = (nn.LSTM(INPUTS, SIZE, dtype=torch.complex128) for _ in range(2))
    on_device.load_state_dict(on_cpu.state_dict())
    on_device.to("rustdev")
    values = sequence(on_cpu, dtype=torch.complex128)
    with torch.no_grad():
        torch.testing.assert_close(on_device(values.to("rustdev"))[0].cpu(), on_cpu(values)[0])


def test_the_order_of_batches_changes_nothing() -> None:
    """Each row goes through the sequence by itself, whichever part of the batch it is in."""
    _, on_device = pair(torch.float64)
    values = sequence(on_device, 33, torch.float64).to("rustdev")
    torch.testing.assert_close(on_device(values.flip(1))[0].flip(1), on_device(values)[0], rtol=1e-13, atol=1e-13)


def test_second_derivatives() -> None:
    # gradcheck itself calls dot.
    torch.rustdev.set_fallback_mode("allow")
    torch.rustdev.set_fallback_allowlist(["aten::dot"])
    _, on_device = pair(torch.float64, bidirectional=True)
    values = sequence(on_device, 2, torch.float64)[:2].to("rustdev").requires_grad_()
    weights = tuple(on_device.parameters())
    states = torch.zeros(2, 2, SIZE, dtype=torch.float64, device="rustdev")

    def layer(values: Tensor, *weights: Tensor) -> Tensor:
        return torch.lstm(values, (states, states), weights, True, 1, 0.0, False, True, False)[0].sum(0)

    assert torch.autograd.gradcheck(layer, (values, *weights), fast_mode=True)
    assert torch.autograd.gradgradcheck(layer, (values, *weights), fast_mode=True)


def test_autocast_computes_in_the_lower_precision() -> None:
    on_cpu, on_device = pair(num_layers=2)
    values = sequence(on_cpu)
    with torch.autocast("rustdev", torch.bfloat16):
        out, (hy, cy) = on_device(values.to("rustdev"))
        out.float().sum().backward()
    assert {out.dtype, hy.dtype, cy.dtype} == {torch.bfloat16}
    assert on_device.weight_hh_l0.grad.dtype == torch.float32
    torch.testing.assert_close(out.float().cpu(), on_cpu(values)[0], rtol=0.05, atol=0.02)


def test_dropout_lies_between_layers() -> None:
    _, on_device = pair(num_layers=2, dropout=1.0)
    with_zeros, _ = on_device(sequence(on_device).to("rustdev"))
    second = nn.LSTM(SIZE, SIZE).to("rustdev")
    for name, parameter in second.named_parameters():
        parameter.data.copy_(on_device.get_parameter(name.replace("l0", "l1")))
    torch.testing.assert_close(with_zeros, second(torch.zeros(STEPS, BATCH, SIZE, device="rustdev"))[0])


def test_states_are_used_and_have_gradients() -> None:
    on_cpu, on_device = pair()
    torch.manual_seed(2)
    states = [torch.randn(1, BATCH, SIZE) for _ in range(2)]
    results = []
    for module, device in ((on_cpu, "cpu"), (on_device, "rustdev")):
        given = [state.to(device, copy=True).requires_grad_() for state in states]
        module(sequence(module).to(device), tuple(given))[0].sum().backward()
        results.append([state.grad.cpu() for state in given])
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_projections_and_packed_sequences_are_made_of_cells() -> None:
    on_cpu, on_device = pair(proj_size=3)
    values = sequence(on_cpu)
    torch.testing.assert_close(run(on_device, values), run(on_cpu, values), rtol=1e-4, atol=1e-5)
    on_cpu, on_device = pair(bidirectional=True)
    lengths = torch.tensor([5, 4, 4, 3, 2, 2, 1, 1, 1])
    packed = nn.utils.rnn.pack_padded_sequence(values, lengths)
    found, expected = on_device(packed.to("rustdev"))[0], on_cpu(packed)[0]
    torch.testing.assert_close(found.data.cpu(), expected.data, rtol=1e-4, atol=1e-5)


def test_transforms_see_the_operators() -> None:
    on_cpu, on_device = pair()
    values = torch.randn(3, STEPS, 2, INPUTS)

    def total(parameters: dict[str, Tensor], module: nn.LSTM, values: Tensor) -> Tensor:
        return torch.func.functional_call(module, parameters, (values,))[0].square().sum()

    found = torch.func.grad(total)(dict(on_device.named_parameters()), on_device, values[0].to("rustdev"))
    expected = torch.func.grad(total)(dict(on_cpu.named_parameters()), on_cpu, values[0])
    torch.testing.assert_close({name: value.cpu() for name, value in found.items()}, expected, rtol=1e-4, atol=1e-5)


def test_bad_arguments_are_refused_as_on_the_cpu() -> None:
    on_cpu, on_device = pair()
    for wrong in (torch.randn(STEPS, BATCH, INPUTS + 1), torch.randn(STEPS, BATCH, INPUTS, dtype=torch.float64)):
        errors = []
        for module, device in ((on_cpu, "cpu"), (on_device, "rustdev")):
            with pytest.raises((RuntimeError, ValueError)) as error:
                module(wrong.to(device))
            errors.append(type(error.value))
        assert errors[0] is errors[1]
    with pytest.raises(RuntimeError):
        torch.lstm(
            sequence(on_device),
            [torch.zeros(1, BATCH, SIZE, device="rustdev")] * 2,
            list(on_device.parameters()),
            True,
            1,
            0.0,
            False,
            False,
            False,
        )
    run(on_device, sequence(on_device))


def test_an_empty_batch() -> None:
    on_cpu, on_device = pair()
    empty = torch.randn(STEPS, 0, INPUTS)
    found, expected = on_device(empty.to("rustdev"))[0], on_cpu(empty)[0]
    assert found.shape == expected.shape
