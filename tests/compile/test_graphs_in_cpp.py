"""Graphs that Inductor writes in C++: exported models by AOTInductor, and `cpp_wrapper`."""

import copy
import ctypes
import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from rustdev._inductor import kernels
from torch import nn

pytestmark = pytest.mark.slow


class Network(nn.Module):
    """Kernels, products, operators with several results, and a number in the CPU's memory."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 16), nn.Linear(16, 12)
        self.scale = torch.tensor(1.5)  # a constant that `to` leaves on the CPU

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = torch.relu(self.first(x)) * self.scale
        values, indices = hidden.topk(3)
        return self.second(hidden).softmax(1), values, indices, hidden[index].sum(1)


@contextmanager
def held_stream() -> Iterator[None]:
    """Keep what is submitted to the current stream from running until the end of the block, but no longer than half a minute."""
    gate, stream = threading.Event(), torch.rustdev.current_stream()
    torch.rustdev.synchronize()
    torch.rustdev.launch_host_func(lambda: gate.wait(30), stream)
    try:
        yield
        assert not stream.query(), "something waited for the stream"
    finally:
        gate.set()


def inputs(batch: int, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(batch)
    return torch.randn(batch, 6).to(device), torch.randint(0, batch, (4,)).to(device)


def compile_model(model: nn.Module, path: Path, *given: torch.Tensor, dynamic: Any = None) -> str:
    with torch.no_grad():
        exported = torch.export.export(model, given, dynamic_shapes=dynamic)
    return torch._inductor.aoti_compile_and_package(exported, package_path=str(path))


def same(actual: Any, expected: Any) -> None:
    for mine, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def reference() -> Network:
    torch.manual_seed(0)
    return Network().eval().requires_grad_(requires_grad=False)


@pytest.fixture(scope="module")
def package(reference: Network, tmp_path_factory: pytest.TempPathFactory, _fresh_cache: None) -> str:
    """Return the file of the compiled network, whose batch is dynamic."""
    batch = {0: torch.export.Dim("batch", min=2, max=100)}
    path = tmp_path_factory.mktemp("model") / "network.pt2"
    model = copy.deepcopy(reference).to("rustdev")
    return compile_model(model, path, *inputs(8, "rustdev"), dynamic=(batch, None))


@pytest.fixture(scope="module")
def model(package: str) -> Any:
    return torch._inductor.aoti_load_package(package)


@pytest.mark.parametrize("batch", [2, 8, 33])
def test_a_model_computes_what_the_module_does(model: Any, reference: Network, batch: int) -> None:
    same(model(*inputs(batch, "rustdev")), reference(*inputs(batch)))


def test_a_call_of_a_model_returns_before_its_kernels_run(model: Any, reference: Network) -> None:
    x, index = inputs(8, "rustdev")
    with held_stream():
        results = model(x + 1, index)  # whose kernels read what has not been computed yet
    same(results, reference(inputs(8)[0] + 1, inputs(8)[1]))


def test_a_model_runs_on_the_current_stream(model: Any, reference: Network) -> None:
    given, stream = inputs(8, "rustdev"), torch.rustdev.Stream()
    with held_stream(), torch.rustdev.stream(stream):
        results = model(*given)
        same(results, reference(*inputs(8)))
    handle = ctypes.pythonapi.PyCapsule_New
    handle.restype, handle.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    with pytest.raises(RuntimeError, match="a model runs on the current stream"):
        model.loader.run(list(given), handle(1, None, None))


def test_an_index_out_of_range_fails_at_the_next_wait(model: Any, reference: Network) -> None:
    x, index = inputs(8, "rustdev")
    with pytest.raises(torch.AcceleratorError, match="index"):
        model(x, index + 8)[3].cpu()
    same(model(x, index), reference(*inputs(8)))


def test_a_model_on_another_device(package: str, reference: Network) -> None:
    model = torch._inductor.aoti_load_package(package, device_index=1)
    results = model(*inputs(8, "rustdev:1"))
    assert {str(result.device) for result in results} == {"rustdev:1"}
    same(results, reference(*inputs(8)))


def test_a_model_takes_other_weights(package: str, reference: Network) -> None:
    model, other = torch._inductor.aoti_load_package(package), copy.deepcopy(reference)
    for parameter in other.parameters():
        parameter.mul_(-0.5)
    weights = {name: value.to("rustdev") for name, value in other.state_dict().items()}
    model.load_constants(weights, check_full_update=False)
    same(model(*inputs(8, "rustdev")), other(*inputs(8)))
    with pytest.raises(RuntimeError, match="update_constant_buffer"):
        model.load_constants(other.state_dict(), check_full_update=False, allow_h2d_copy=True)
    same(model(*inputs(8, "rustdev")), other(*inputs(8)))


def test_a_model_gives_its_memory_back(package: str) -> None:
    model = torch._inductor.aoti_load_package(package)
    held = torch.rustdev.memory_allocated()
    model(*inputs(8, "rustdev"))
    torch.rustdev.synchronize()
    assert torch.rustdev.memory_allocated() == held, "a call leaves nothing"
    del model
    gc.collect()
    assert torch.rustdev.memory_allocated() < held, "the weights are free"


def test_a_process_that_compiles_nothing_runs_a_model(package: str, reference: Network, tmp_path: Path) -> None:
    torch.save((inputs(8), reference(*inputs(8))), tmp_path / "expected.pt")
    program = f"""
import sys, torch, rustdev
given, expected = torch.load({str(tmp_path / "expected.pt")!r})
results = torch._inductor.aoti_load_package({package!r})(*(it.to("rustdev") for it in given))
for mine, theirs in zip(results, expected, strict=True):
    torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-5)
print("equal")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout.split()) == (0, ["equal"]), done.stderr


def test_a_model_for_another_runtime_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rustdev._inductor import wrapper

    other = kernels.prefix().replace("rustdev_runtime_version = 1", "rustdev_runtime_version = 0")
    monkeypatch.setattr(wrapper, "prefix", lambda: other)
    path = compile_model(nn.Identity(), tmp_path / "other.pt2", torch.ones(3, device="rustdev"))
    with pytest.raises(RuntimeError, match="compiled for another version of rustdev"):
        torch._inductor.aoti_load_package(path)


def test_cpp_wrapper_trains_a_module() -> None:
    torch.manual_seed(0)
    host = nn.Sequential(nn.Conv1d(3, 4, 3), nn.GELU(), nn.Flatten(), nn.Linear(24, 5))
    mine, x = copy.deepcopy(host).to("rustdev"), torch.randn(2, 3, 8)
    compiled, given = torch.compile(mine, fullgraph=True, options={"cpp_wrapper": True}), x.to("rustdev")
    actual, expected = compiled(given), host(x)
    for loss in (actual.square().sum(), expected.square().sum()):
        loss.backward()
    same([actual, *(it.grad for it in mine.parameters())], [expected, *(it.grad for it in host.parameters())])
    with held_stream():
        compiled(given).square().sum().backward()


def test_cpp_wrapper_calls_operators_by_name() -> None:
    """Those of include/torch/csrc/inductor/rustdev.h, which Inductor does not send through the dispatcher."""

    def function(a: torch.Tensor, b: torch.Tensor, index: torch.Tensor, ends: torch.Tensor) -> tuple[torch.Tensor, ...]:
        small, narrow, one = (a > 0).to(torch.int8), a.to(torch.float8_e4m3fn), a.new_ones(())
        return (
            torch.baddbmm(b, b, b, beta=0.5, alpha=2) + torch.bmm(b, b),
            torch._int_mm(small, small),
            torch._scaled_mm(narrow, narrow.t(), one, one, out_dtype=torch.bfloat16),
            torch._grouped_mm(a.bfloat16(), b[:2].bfloat16(), offs=ends),
            nn.functional.conv_transpose1d(b, b[:, :, :3]),
            a.scatter(0, index, 2.0).sin().view(torch.int32),
            a.scatter(0, index, a),
            a.scatter_reduce(0, index, a, "amax", include_self=False),
            torch.rand_like(a) * 0,
        )

    torch.rustdev.set_fallback_mode("allow")  # products of int8 and float8 have no kernel of rustdev
    torch.manual_seed(0)
    given = torch.randn(32, 32), torch.randn(32, 32, 32), torch.randint(0, 32, (4, 32)), torch.tensor([8, 32], dtype=torch.int32)
    compiled = torch.compile(function, fullgraph=True, options={"cpp_wrapper": True})
    for mine, theirs in zip(compiled(*(it.to("rustdev") for it in given)), function(*given), strict=True):
        assert mine.dtype == theirs.dtype
        torch.testing.assert_close(mine.cpu().float(), theirs.float(), rtol=2e-2, atol=1e-3)


def test_cpp_wrapper_refuses_streams_of_the_program() -> None:
    stream = torch.Stream(device="rustdev")

    def function(x: torch.Tensor) -> torch.Tensor:
        with stream:
            return x.sin() + 1

    with pytest.raises(Exception, match="streams are not supported in it"):
        torch.compile(function, fullgraph=True, options={"cpp_wrapper": True})(torch.ones(3, device="rustdev"))
