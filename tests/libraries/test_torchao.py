"""torchao: quantize_ on the device, eager and compiled, by PyTorch's operators for quantised products."""

from __future__ import annotations

import copy
import logging
from typing import TYPE_CHECKING, Any

import pytest
import torch
from rustdev.integrations.torchao import Int4Tensor, Int4WeightOnlyConfig
from torch import nn
from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig, quantize_

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Programs

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
COMPILED = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
SHAPES = pytest.mark.parametrize("shape", [(64,), (1, 64), (5, 64), (2, 3, 64)], ids=str)
WEIGHTS = pytest.mark.parametrize(
    ("config", "operator"),
    [(Int8WeightOnlyConfig(), "aten::_weight_int8pack_mm"), (Int4WeightOnlyConfig(32), "aten::_weight_int4pack_mm_for_cpu")],
    ids=["int8", "int4"],
)
TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 2e-2, torch.float16: 2e-3}


@pytest.fixture(autouse=True)
def _without_fallback() -> Iterator[None]:
    """Forbid the fallback, so that the device computes everything."""
    torch.rustdev.set_fallback_mode("error")
    yield
    torch.rustdev.set_fallback_mode("allow")


def network(dtype: torch.dtype = torch.float32, device: str = "rustdev") -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 48, bias=False)).to(device, dtype)


def dequantised(model: nn.Sequential) -> nn.Sequential:
    """Return the model on the CPU, in float32, with the weights that it multiplies with."""
    plain = network(device="cpu")
    for mine, other in zip(plain, model, strict=True):
        if isinstance(mine, nn.Linear):
            assert type(other.weight) is not nn.Parameter
            mine.weight = nn.Parameter(other.weight.dequantize().cpu().float())
            if mine.bias is not None:
                mine.bias = nn.Parameter(other.bias.cpu().float())
    return plain


def operators(call: Callable[[], Any]) -> tuple[Any, set[str]]:
    """Return the result of a call, and the names of the operators that it calls."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        result = call()
    return result, {event.name for event in profiler.events()}


@torch.no_grad()
def check(model: nn.Sequential, x: torch.Tensor, compiled: bool, operator: str) -> None:
    """Hold results and operators of a quantised model against what it should compute."""
    function = torch.compile(model, fullgraph=True) if compiled else model
    function(x)
    result, called = operators(lambda: function(x))
    assert operator in called
    assert result.device == x.device
    assert result.dtype == x.dtype
    wanted = dequantised(model)(x.cpu().float())
    torch.testing.assert_close(result.cpu().float(), wanted, rtol=0, atol=TOLERANCES[x.dtype] * float(wanted.abs().max()))


@SHAPES
@DTYPES
@WEIGHTS
def test_weights(config: Any, operator: str, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    model = network(dtype)
    quantize_(model, config)
    check(model, torch.randn(shape, dtype=dtype, device="rustdev"), False, operator)


@WEIGHTS
def test_weights_compiled(config: Any, operator: str) -> None:
    model = network(torch.bfloat16)
    quantize_(model, config)
    check(model, torch.randn(2, 3, 64, dtype=torch.bfloat16, device="rustdev"), True, operator)


@torch.no_grad()
@COMPILED
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_int8_activations(dtype: torch.dtype, compiled: bool) -> None:
    model, x = network(dtype), torch.randn(16, 64, dtype=dtype, device="rustdev")
    wanted = network()(x.float())
    quantize_(model, Int8DynamicActivationInt8WeightConfig())
    function = torch.compile(model, fullgraph=True) if compiled else model
    function(x)
    result, called = operators(lambda: function(x))
    assert "aten::_int_mm" in called
    torch.testing.assert_close(result.float(), wanted, rtol=0, atol=0.05 * float(wanted.abs().max()))
    assert not torch.allclose(result.float(), wanted, rtol=0, atol=1e-6)


@torch.no_grad()
def test_int8_activations_of_any_size_stay_on_their_device() -> None:
    layer, x = nn.Linear(20, 7, device="rustdev:1"), torch.randn(3, 20, device="rustdev:1")
    wanted = layer(x)
    quantize_(layer, Int8DynamicActivationInt8WeightConfig())
    if torch.rustdev.fallback_mode() == "error":
        torch.rustdev.set_sync_debug_mode("error")
    try:
        result = layer(x)
    finally:
        torch.rustdev.set_sync_debug_mode("default")
    assert result.device == torch.device("rustdev:1")
    torch.testing.assert_close(result, wanted, rtol=0, atol=0.05)


@pytest.mark.parametrize("group", [32, 64, 128, 256])
def test_int4_weights_are_near_what_they_quantise(group: int) -> None:
    weight = torch.randn(32, 512, device="rustdev")
    groups = weight.unflatten(1, (-1, group))
    step = (groups.amax(-1) - groups.amin(-1)) / 15
    off = (Int4Tensor.from_hp(weight, group).dequantize() - weight).unflatten(1, (-1, group)).abs().amax(-1)
    assert bool((off <= step * 0.51).all())
    assert bool((off >= step * 0.3).all())


@pytest.mark.parametrize("config", [Int8WeightOnlyConfig(), Int4WeightOnlyConfig(32)], ids=["int8", "int4"])
def test_quantised_models_are_copied_moved_and_saved(config: Any, tmp_path: Path) -> None:
    model, x = network(), torch.randn(3, 64, device="rustdev")
    quantize_(model, config)
    wanted = model(x)
    assert torch.equal(copy.deepcopy(model)(x), wanted)
    for device in ("cpu", "rustdev:1", "rustdev:0"):
        moved = copy.deepcopy(model).to(device)
        assert moved[0].weight.device == torch.device(device)
        torch.testing.assert_close(moved(x.to(device)).cpu(), wanted.cpu(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(moved.to("rustdev")(x), wanted, rtol=1e-5, atol=1e-5)
    torch.save(model.state_dict(), tmp_path / "state.pt")
    loaded = network()
    loaded.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True), assign=True)
    assert torch.equal(loaded(x), wanted)
    other = copy.deepcopy(model)
    nn.init.ones_(other[0].bias)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(x), wanted)


@pytest.mark.parametrize("config", [Int8WeightOnlyConfig(), Int4WeightOnlyConfig(32)], ids=["int8", "int4"])
def test_gradients_of_inputs(config: Any) -> None:
    model, x = network(), torch.randn(3, 64, device="rustdev", requires_grad=True)
    quantize_(model, config)
    model(x).square().sum().backward()
    plain, given = dequantised(model), x.detach().cpu().requires_grad_()
    plain(given).square().sum().backward()
    torch.testing.assert_close(x.grad.cpu(), given.grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("columns", "rows"), [(80, 32), (64, 40)])
def test_layers_that_no_kernel_takes_are_left(columns: int, rows: int, caplog: pytest.LogCaptureFixture) -> None:
    layer = nn.Linear(columns, rows, device="rustdev")
    with caplog.at_level(logging.INFO, "rustdev.integrations.torchao"):
        quantize_(nn.Sequential(layer), Int4WeightOnlyConfig(64 if rows == 40 else 32))
    assert type(layer.weight) is nn.Parameter
    assert f"Linear(in_features={columns}, out_features={rows}) is not quantised" in caplog.text


def test_other_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="group_size is 48, and there are kernels for 32, 64, 128, 256"):
        Int4WeightOnlyConfig(48)


def test_layers_say_how_they_are_quantised() -> None:
    model = network()
    quantize_(model, Int4WeightOnlyConfig(32))
    assert "Int4Tensor(shape=(128, 64), group_size=32, device=rustdev:0)" in repr(model)


def test_the_keys_of_caches_name_the_patch() -> None:
    torch.compile(torch.abs)(torch.ones(2, device="rustdev"))
    from rustdev._inductor.interface import Interface

    assert "int8" in Interface.get_cache_system_info()["torchao"]


def test_the_cpu_is_as_without_the_patch() -> None:
    model, x = network(device="cpu"), torch.randn(3, 64)
    quantize_(model, Int8WeightOnlyConfig())
    result, called = operators(lambda: model(x))
    assert "aten::_weight_int8pack_mm" not in called
    torch.testing.assert_close(result, dequantised(model)(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("late", [False, True])
def test_before_or_after_the_import(late: bool, programs: Programs) -> None:
    imports, enable = "import torch, torchao.quantization", "import rustdev.integrations; rustdev.integrations.enable()"
    lines = [imports, enable] if late else [enable, imports]
    use = """
from torch.utils._python_dispatch import TorchDispatchMode
class Names(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        print(function.name())
        return function(*args, **(kwargs or {}))
layer = torch.nn.Linear(32, 16).to("rustdev")
torchao.quantization.quantize_(layer, torchao.quantization.Int8WeightOnlyConfig())
with torch.no_grad(), Names():
    layer(torch.ones(4, 32, device="rustdev"))
"""
    assert "aten::_weight_int8pack_mm" in programs.script("\n".join(lines) + use)


def test_without_enabling(programs: Programs) -> None:
    code = """
import torch
from torchao.quantization import Int8WeightOnlyConfig, quantize_
layer, x = torch.nn.Linear(32, 16).to("rustdev"), torch.randn(4, 32).to("rustdev")
wanted = layer(x)
quantize_(layer, Int8WeightOnlyConfig())
print(float((layer(x) - wanted).norm() / wanted.norm()) < 0.02)
"""
    assert programs.script(code).splitlines()[-1] == "True"
