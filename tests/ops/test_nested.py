"""Nested tensors against the CPU: rows of several lengths, jagged (a Python class over dense tensors) and strided (C++'s own)."""

from collections.abc import Callable

import pytest
import torch
from comparison import assert_same
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

pytestmark = [
    pytest.mark.usefixtures("fallback"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning"),
]

DEVICES = ["rustdev", "cpu"]
LAYOUTS = [torch.jagged, torch.strided]
ROWS = [torch.randn(length, 8, generator=torch.Generator().manual_seed(length)) for length in (3, 5, 2)]
WEIGHT = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))


def heads(rows: torch.Tensor) -> torch.Tensor:
    """Two heads of four numbers each."""
    if rows.layout == torch.jagged:
        return rows.unflatten(-1, [2, 4]).transpose(1, 2)
    return rows.reshape(3, -1, 2, 4).transpose(1, 2).contiguous()


#: Of both layouts.
PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "pointwise": lambda x: F.gelu(F.relu(x) * 2 + x),
    "linear": lambda x: F.linear(x, WEIGHT.to(x.device)),
    "layer norm": lambda x: F.layer_norm(x, (8,), WEIGHT[0].to(x.device), WEIGHT[1].to(x.device)),
    "softmax": lambda x: F.softmax(x, -1),
    "clone": torch.clone,
    "bfloat16": lambda x: x.to(torch.bfloat16).float(),
    "padded": lambda x: torch.nested.to_padded_tensor(x, 0.0),
    "unbind": lambda x: x.unbind()[1],
    "attention": lambda x: F.scaled_dot_product_attention(heads(x), heads(x), heads(x)),
}
#: Of jagged rows alone.
JAGGED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "chunk": lambda x: x.chunk(2, -1)[1] * 2,
    "maximum of rows": lambda x: x.amax(1),
    "rms norm": lambda x: F.rms_norm(x, (8,)),
    "where": lambda x: torch.where(x > 0, x, x * 2),
    "cat": lambda x: torch.cat([x, x], -1),
    "compiled": torch.compile(lambda x: F.relu(F.linear(x, WEIGHT.to(x.device))) + x),
}


def outcome(program: Callable[[torch.Tensor], torch.Tensor], layout: torch.layout, device: str) -> list[torch.Tensor]:
    """Return the result and the gradient."""
    given = torch.nested.nested_tensor([row.clone() for row in ROWS], layout=layout, device=device, requires_grad=True)
    result = program(given)
    torch.stack([row.square().sum() for row in (result.unbind() if result.is_nested else [result])]).sum().backward()
    assert given.grad is not None
    return [result, given.grad]


def check(program: Callable[[torch.Tensor], torch.Tensor], layout: torch.layout) -> None:
    assert_same(*(outcome(program, layout, device) for device in DEVICES), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_of_both_layouts(name: str, layout: torch.layout) -> None:
    check(PROGRAMS[name], layout)


@pytest.mark.parametrize("name", JAGGED)
def test_jagged_rows(name: str) -> None:
    check(JAGGED[name], torch.jagged)


@pytest.mark.parametrize("dim", [-1, 1])
@pytest.mark.parametrize("function", [torch.sum, torch.mean, torch.amax])
def test_jagged_rows_are_reduced(function: Callable[..., torch.Tensor], dim: int) -> None:
    found, wanted = (function(torch.nested.nested_tensor(ROWS, layout=torch.jagged, device=device), dim) for device in DEVICES)
    assert_same(found, wanted, rtol=1e-6)


def test_products_of_strided_rows() -> None:
    given = torch.nested.nested_tensor([row.to("rustdev") for row in ROWS])
    assert_same(torch.matmul(given * 0.5, given.transpose(1, 2)).unbind(), [row @ row.T / 2 for row in ROWS], rtol=1e-6)


def test_results_have_the_keys_of_what_they_are_made_of() -> None:
    given = torch.nested.nested_tensor([row.to("rustdev") for row in ROWS])
    for result in (given * 2, given.transpose(1, 2), given.transpose(1, 2).contiguous()):
        assert torch._C._dispatch_keys(result).raw_repr() == torch._C._dispatch_keys(given).raw_repr()


def test_a_transformer_packs_rows_of_several_lengths() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=True).eval()
    x, is_padding = torch.randn(3, 5, 8), torch.arange(5) >= torch.tensor([[3], [5], [2]])
    with torch.no_grad():
        wanted = encoder(x, src_key_padding_mask=is_padding)
        found = encoder.to("rustdev")(x.to("rustdev"), src_key_padding_mask=is_padding.to("rustdev"))
    assert_same(found, wanted, rtol=1e-4, atol=1e-5)
