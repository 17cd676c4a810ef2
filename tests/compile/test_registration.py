"""Registration with the compiler: not before the compiler is loaded, and in any order of imports."""

import pytest
import rustdev
import torch
from children import run_fresh
from rustdev import _inductor

COMPILED = """
import torch
f = torch.compile(lambda x: x.sin() + 1, fullgraph=True)
print(f(torch.zeros(3, device="rustdev")).tolist())
"""


def python(program: str, **environment: str) -> list[str]:
    """Runs a program in a fresh Python and returns the lines that it printed."""
    done = run_fresh(program, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("first", ["torch", "rustdev"])
def test_importing_loads_nothing_of_the_compiler(first: str) -> None:
    names = "('torch._dynamo', 'torch._inductor', 'rustdev._inductor')"
    loaded = python(f"import {first}, sys; print(*sorted(name for name in sys.modules if name.startswith({names})))")
    assert loaded == ["rustdev._inductor rustdev._inductor.layouts"]


@pytest.mark.slow
def test_the_compiler_may_be_loaded_first() -> None:
    program = f"import torch, torch._dynamo, torch._inductor.compile_fx, rustdev\n{COMPILED}"
    assert python(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == ["[1.0, 1.0, 1.0]"]


@pytest.mark.slow
def test_loaders_are_left_as_they_were() -> None:
    modules = "torch, sys, torch._dynamo, torch._inductor.decomposition, torch._inductor.codecache"
    ours = "it.name for it in sys.meta_path if 'rustdev' in type(it).__module__ and it.name in sys.modules"
    program = f"import {modules}; print([{ours}])"
    assert python(program) == ["[]"]


def test_interface() -> None:
    from torch._dynamo.device_interface import get_interface_for_device

    interface = get_interface_for_device("rustdev")
    assert interface.is_available()
    assert interface.device_count() == torch.rustdev.device_count()
    assert interface.Worker.current_device() == 0
    with interface.device(1):
        assert interface.current_device() == 1
    assert interface.get_multi_processor_count() == torch.rustdev.get_num_threads()
    assert not interface.is_gpu()
    assert interface.is_dtype_supported(torch.bfloat16)


def test_an_older_release_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.14.1+cpu")
    with pytest.raises(NotImplementedError, match=r"torch 2\.15 or newer, and this is torch 2\.14\.1"):
        rustdev._inductor_backend_init()


def test_an_older_release_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.14.1+cpu")
    monkeypatch.setattr(_inductor, "_after_import", lambda name, then: pytest.fail(f"{name} is changed"))
    _inductor._install()


@pytest.mark.parametrize(("version", "supported"), [("2.13.0", False), ("2.14.1", False), ("2.15.0+cu130", True), ("3.0", True)])
def test_supported_releases(version: str, supported: bool) -> None:
    assert _inductor._is_supported(version) is supported
