"""The names of torch.cuda that exist here, and PyTorch's switches and counters."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import features
import numpy as np
import pytest
import torch
from rustdev import legacy
from rustdev._absent import OTHER_NAMES, REASONS
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

ROOT = Path(__file__).parents[2]


def test_every_name_of_cuda_is_accounted_for() -> None:
    unknown = {cuda: [name for name, state in features.states(cuda).items() if state == "unknown"] for cuda in features.MODULES}
    assert not any(unknown.values()), unknown


@pytest.mark.skipif(not torch.__version__.startswith("2.15."), reason="the page is written with torch 2.15")
def test_the_page_is_current() -> None:
    assert (ROOT / "docs/features.md").read_text() == features.page(), "make coverage writes docs/features.md"


def test_tests_that_the_page_names_exist() -> None:
    named = re.findall(r"`(\w+/test_\w+\.py)`", features.PAGE.read_text())
    assert len(named) > 10
    assert [test for test in named if not (ROOT / "tests" / test).is_file()] == []


@pytest.mark.parametrize(("name", "module"), [("torch.rustdev", torch.rustdev), ("torch.backends.rustdev", torch.backends.rustdev)])
def test_a_name_that_is_left_out_says_why(name: str, module: ModuleType) -> None:
    for absent, reason in REASONS[name].items():
        if reason == "not yet" and hasattr(module, absent):
            continue
        with pytest.raises(AttributeError) as caught:
            getattr(module, absent)
        assert str(caught.value) == f"module '{name}' has no attribute '{absent}': {reason}"
    for absent, other in OTHER_NAMES[name].items():
        with pytest.raises(AttributeError, match=f"it is {other} here"):
            getattr(module, absent)
        found: Any = torch
        for part in other.split(".")[1:]:
            found = getattr(found, part)
    with pytest.raises(AttributeError, match=rf"^module '{name}' has no attribute 'no_such_thing'$"):
        _ = module.no_such_thing


def test_streams_and_events_are_pytorchs() -> None:
    assert isinstance(torch.rustdev.Stream(), torch.Stream)
    assert isinstance(torch.rustdev.current_stream(), torch.Stream)
    assert isinstance(torch.rustdev.Event(), torch.Event)
    assert torch.rustdev.streams.Stream is torch.rustdev.Stream


def test_the_backends_module() -> None:
    import torch.backends.rustdev as module

    assert module is torch.backends.rustdev
    assert module.is_available()
    assert module.is_built()
    assert module.version() == torch.rustdev.__version__


def test_switches_of_attention() -> None:
    query, backend = torch.randn(1, 2, 8, 16, device="rustdev"), torch.backends.rustdev

    def has_flash() -> bool:
        before = torch.rustdev.op_calls()["_scaled_dot_product_flash_attention_for_cpu"]
        nn.functional.scaled_dot_product_attention(query, query, query)
        return torch.rustdev.op_calls()["_scaled_dot_product_flash_attention_for_cpu"] > before

    assert backend.flash_sdp_enabled()
    assert has_flash()
    try:
        backend.enable_flash_sdp(False)
        assert not backend.flash_sdp_enabled()
        assert not has_flash()
    finally:
        backend.enable_flash_sdp(True)
    with sdpa_kernel(SDPBackend.MATH):
        assert not has_flash()
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        assert not backend.math_sdp_enabled()
        assert has_flash()


def test_the_precision_of_products_does_not_change() -> None:
    matrix = torch.randn(96, 96, device="rustdev")
    wanted = matrix @ matrix
    try:
        torch.set_float32_matmul_precision("medium")
        assert torch.equal(matrix @ matrix, wanted)
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.fixture
def _deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("_deterministic")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.int32, torch.uint8, torch.bool], ids=str)
def test_uninitialised_memory_is_filled(dtype: torch.dtype) -> None:
    def made(device: str) -> list[torch.Tensor]:
        model = torch.ones(2, 3, dtype=dtype, device=device)
        return [
            torch.empty(5, dtype=dtype, device=device), torch.empty_strided((2, 2), (1, 2), dtype=dtype, device=device),
            torch.empty_like(model), model.new_empty(4), torch.empty_permuted((2, 2), (1, 0), dtype=dtype, device=device),
            model.clone().resize_(9),
        ]  # fmt: skip

    for here, there in zip(made("rustdev"), made("cpu"), strict=True):
        torch.testing.assert_close(here.cpu(), there, equal_nan=True, rtol=0, atol=0)


@pytest.mark.usefixtures("_deterministic")
def test_filling_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)
    before = torch.rustdev.op_calls()["fill_"]
    torch.empty(5, device="rustdev")
    assert torch.rustdev.op_calls()["fill_"] == before
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.empty(5, device="rustdev")
    assert torch.rustdev.op_calls()["fill_"] == before + 1


def test_flops_are_counted_as_on_the_cpu() -> None:
    def count(device: str) -> dict[str, int]:
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 36, 4)).to(device)
        query = torch.randn(1, 2, 8, 16, device=device, requires_grad=True)
        with FlopCounterMode(display=False) as counter:
            model(torch.randn(2, 3, 8, 8, device=device)).sum().backward()
            nn.functional.scaled_dot_product_attention(query, query, query).sum().backward()
            torch.bmm(query[0], query[0].mT)
        return {str(operator): number for operator, number in counter.get_flop_counts()["Global"].items()}

    found = count("rustdev")
    assert found == count("cpu")
    assert found["aten.convolution"] == 2 * 2 * 8 * 36 * 27


TENSOR_TYPES = [name for name in legacy.__all__ if name.endswith("Tensor")]
STORAGE_TYPES = [name for name in legacy.__all__ if name.endswith("Storage")]


def test_the_legacy_types_are_cudas() -> None:
    assert set(legacy.__all__) == {name for name in torch.cuda.__all__ if name.endswith(("Tensor", "Storage"))}


@pytest.mark.parametrize("name", TENSOR_TYPES)
def test_legacy_tensor_types(name: str) -> None:
    cls = getattr(torch.rustdev, name)
    made = cls([1, 0, 1])
    assert made.tolist() == getattr(torch, name)([1, 0, 1]).tolist()
    assert made.dtype == cls.dtype == getattr(torch, name).dtype
    assert made.device == torch.device("rustdev:0")
    assert made.type() == f"torch.rustdev.{name}"
    assert isinstance(made, cls)
    assert not isinstance(made.cpu(), cls)
    assert not isinstance(made, getattr(torch, name))
    assert not isinstance(torch.ones(1, device="rustdev", dtype=torch.complex64), cls)
    assert torch.tensor([1, 0], device="cpu").type(cls).type() == f"torch.rustdev.{name}"
    assert repr(cls) == f"<class 'torch.rustdev.{name}'>"


def test_how_legacy_tensors_are_made() -> None:
    cls = torch.rustdev.FloatTensor
    assert cls().shape == (0,)
    assert cls(2, 3).shape == cls(torch.Size([2, 3])).shape == (2, 3)
    assert cls(4, device="rustdev:1").device == torch.device("rustdev:1")
    with torch.rustdev.device(1):
        assert cls([1.0]).device == torch.device("rustdev:1")
    assert cls(np.array([1.5, 2.5])).tolist() == [1.5, 2.5]
    source = cls([1.0, 2.0])
    alias = cls(source)
    alias[0] = 5.0
    assert source.tolist() == [5.0, 2.0]
    with pytest.raises(TypeError, match=r"expected torch.rustdev.FloatTensor \(got torch.FloatTensor\)"):
        cls(torch.ones(1))
    with pytest.raises(ValueError, match="Expected a rustdev device"):
        cls([1.0], device="cpu")
    assert nn.Linear(2, 2).type(torch.rustdev.HalfTensor).weight.type() == "torch.rustdev.HalfTensor"


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_defaults() -> None:
    with pytest.raises(TypeError, match="invalid type object"):
        torch.set_default_tensor_type(torch.rustdev.FloatTensor)
    try:
        torch.set_default_device("rustdev:1")
        torch.set_default_dtype(torch.float64)
        made = torch.randn(2)
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    assert (made.device, made.dtype) == (torch.device("rustdev:1"), torch.float64)


@pytest.mark.parametrize("name", STORAGE_TYPES)
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_legacy_storage_types(name: str) -> None:
    cls = getattr(torch.rustdev, name)
    made = cls([1, 0, 1])
    assert made.device == torch.device("rustdev:0")
    assert made.dtype == cls.dtype == getattr(torch, name).dtype
    assert isinstance(made, cls)
    assert not isinstance(made, getattr(torch, name))
    assert not isinstance(made.cpu(), cls)
    assert made.type() == f"torch.rustdev.{name}"
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert isinstance(loaded, cls)
    assert loaded.tolist() == made.tolist()
