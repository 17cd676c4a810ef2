"""The table of docs/registration.md: its files and tests exist, it has PyTorch's hooks, and what it says of their absence holds."""

import json
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import children
import pytest
import torch

ROOT = Path(__file__).parents[2]
HEADERS = Path(torch.__file__).parent / "include"
#: The interfaces that a backend implements, with the headers of their virtual functions.
INTERFACES = {
    "PrivateUse1HooksInterface": ("ATen/detail/AcceleratorHooksInterface.h", "ATen/detail/PrivateUse1HooksInterface.h"),
    "DeviceGuardImplInterface": ("c10/core/impl/DeviceGuardImplInterface.h",),
}
#: Programs that need a hook, by its name in the table. They run on a device in Python, whose hooks are PyTorch's defaults.
NEEDS = {
    "getCurrentDevice": "torch._C._accelerator_hooks_get_current_device()",
    "setCurrentDevice": "torch._C._accelerator_hooks_set_current_device(0)",
    "exchangeDevice": "torch._C._accelerator_hooks_exchange_device(0)",
    "maybeExchangeDevice": "torch._C._accelerator_hooks_maybe_exchange_device(0)",
    "getDefaultGenerator": "torch._C._accelerator_getDefaultGenerator(0)",
    "getNewGenerator": "torch.Generator('mychip')",
    "getPinnedMemoryAllocator": "torch.ones(1).pin_memory()",
    "resizePrivateUse1Bytes": "made().untyped_storage().resize_(64)",
    "getStreamFromGlobalPool": "future()",
    "getStreamNativeHandle": "torch.Stream('mychip').native_handle",
    "synchronizeEvent": "event().synchronize()",
    "elapsedTime": "event().elapsed_time(event())",
    "synchronizeDevice": "torch.accelerator.synchronize()",
    "getDeviceCapability": "torch.accelerator.get_device_capability()",
    "REGISTER_ALLOCATOR": "torch.accelerator.memory_allocated()",
    "REGISTER_GRAPH_IMPL": "torch.accelerator.Graph()",
    "get_amp_supported_dtype": "torch.autocast('mychip')",
    "__dlpack_device__": "made().__dlpack_device__()",
}
ON_DEFAULTS = """
    import json, sys
    import torch
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend("mychip")

    def made():
        return torch._C._acc.create_empty_tensor([4], torch.float32)

    def event():
        recorded = torch.Event("mychip", enable_timing=True)
        recorded.record()
        return recorded

    def future():
        result = torch.futures.Future(devices=["mychip:0"])
        then = result.then(lambda it: it.value())
        result.set_result(made())
        return then.wait()

    def answer(program):
        try:
            return str(eval(program))
        except Exception as error:
            return str(error)

    told = {name: answer(program) for name, program in json.loads(sys.argv[1]).items()}
    told |= {"deviceCount": torch._C._accelerator_hooks_device_count(), "isStreamCapturing": torch.Stream("mychip").is_capturing()}
    print(json.dumps(told))
"""
#: Programs without most registrations, by the hook.
ON_NOTHING = """
    import json, sys
    import torch

    def answer(call):
        try:
            return str(call())
        except Exception as error:
            return str(error)

    told = {"rename_privateuse1_backend": answer(lambda: torch.device("mychip"))}
    torch.utils.rename_privateuse1_backend("mychip")
    told["_register_device_module"] = answer(lambda: torch.empty(1, device="mychip"))
    told["RegisterPrivateUse1HooksInterface"] = answer(lambda: torch.Generator("mychip"))
    told["C10_REGISTER_GUARD_IMPL"] = answer(lambda: torch.Stream("mychip"))
    told["generate_methods_for_privateuse1_backend"] = answer(lambda: torch.ones(1).mychip())
    print(json.dumps(told))
"""


class Row(NamedTuple):
    """A line of the table."""

    hook: str
    purpose: str
    file: str
    test: str
    without: str


def rows() -> list[Row]:
    """Return the lines of the table, without those that name a group."""
    text = (ROOT / "docs/registration.md").read_text()
    table = text[text.index("| hook | what it is for | file | test | without it |") :].partition("\n\n")[0]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines()[2:] if not line.startswith("| **")]
    return [Row(*line) for line in lines]


def names(row: Row) -> set[str]:
    """Return the names of a row's hooks."""
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", row.hook))))


def virtual_functions(*headers: str) -> set[str]:
    """Return the virtual functions that headers declare, without destructors."""
    text = "".join((HEADERS / header).read_text() for header in headers)
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    text = text.partition("NoOpDeviceGuardImpl")[0]
    declared = re.findall(r"\bvirtual [^~;{}()]*?(\w+)\(", text)
    return {*declared, *re.findall(r"(?<!~)\b(\w+)\([^;{}]*?\) (?:const )?override", text)}


def test_every_row_names_a_file_and_a_test_that_exist() -> None:
    wrong = []
    for row in rows():
        files, tests = (re.findall(r"`([^`]+)`", cell) for cell in (row.file, row.test))
        wrong += [path for path in files + tests if not (ROOT / path).exists()]
        wrong += [f"{row.hook}: no file"] * (not files) + [f"{row.hook}: no test"] * (not tests and row.test != "none")
        wrong += [path for path in tests if not Path(path).name.startswith("test_")]
    assert wrong == []
    assert len(rows()) > 70


@pytest.mark.parametrize("interface", INTERFACES)
def test_every_virtual_function_is_in_the_table(interface: str) -> None:
    functions = virtual_functions(*INTERFACES[interface])
    assert len(functions) > 12
    assert sorted(functions - set().union(*map(names, rows()))) == []


def quoted(name: str) -> list[str]:
    """Return what the table quotes of PyTorch where a hook is missing."""
    row = next(row for row in rows() if name in names(row))
    assert "*source:*" not in row.without, f"{row.hook} is tried here"
    return re.findall(r'"([^"]+)"', row.without)


@pytest.mark.slow
def test_what_pytorch_says_without_a_hook_is_in_the_table() -> None:
    off = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    told = json.loads(children.run(ON_DEFAULTS, json.dumps(NEEDS), check=True, **off).stdout)
    assert (told.pop("deviceCount"), told.pop("isStreamCapturing")) == (0, False)
    told |= json.loads(children.run(ON_NOTHING, check=True, **off).stdout)
    assert {*NEEDS, "C10_REGISTER_GUARD_IMPL"} < set(told)
    for name, text in told.items():
        assert quoted(name), name
        for quotation in quoted(name):
            assert quotation in text, (name, text)


def test_what_pytorch_needs_of_the_device_module(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(name: str) -> None:
        monkeypatch.undo()
        monkeypatch.delattr(torch.rustdev, name)
        assert not hasattr(torch.rustdev, name)

    for name in ("get_rng_state", "set_rng_state"):
        without(name)
        with pytest.raises(AttributeError), torch.random.fork_rng(devices=[0], device_type="rustdev"):
            pass
    without("is_available")
    with pytest.raises(AttributeError):
        torch.accelerator.is_available()
    without("device_count")
    with pytest.raises(AttributeError):
        torch.accelerator.device_count()
    without("current_device")
    with torch.accelerator.device_index(1):
        assert torch.ones(1).rustdev().device.index == 0, "the device is not the current one"
    without("get_amp_supported_dtype")
    (text,) = quoted("get_amp_supported_dtype")
    with pytest.raises(AssertionError, match=text.replace("mychip", "rustdev")):
        torch.autocast("rustdev")
    (text,) = quoted("manual_seed_all")
    for name in ("_is_in_bad_fork", "manual_seed_all"):
        without(name)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.manual_seed(0)
        assert [text.replace("mychip", "rustdev") in str(it.message) for it in caught] == [True]


def test_the_hooks_of_devices() -> None:
    assert torch._C._accelerator_hooks_device_count() == 2
    assert torch._C._accelerator_hooks_exchange_device(1) == 0
    assert torch._C._accelerator_hooks_get_current_device() == torch.accelerator.current_device_index() == 1
    assert torch._C._accelerator_hooks_maybe_exchange_device(-1) == -1
    assert torch._C._accelerator_hooks_maybe_exchange_device(0) == 1
    torch._C._accelerator_hooks_set_current_device(1)
    assert torch.accelerator.current_device_index() == 1
    with pytest.raises(RuntimeError, match="invalid device ordinal 2"):
        torch._C._accelerator_hooks_set_current_device(2)
