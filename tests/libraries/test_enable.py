"""rustdev.integrations.enable: what it imports and when, and what it does not change."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
import rustdev.integrations
from rustdev import _imports
from rustdev.integrations import _PATCHES, _Patch

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Programs

LIBRARIES = ("accelerate", "deepspeed", "lightning", "safetensors", "torchao", "transformers")


def test_no_library_is_imported(programs: Programs) -> None:
    code = f"""
import sys, os, torch
import rustdev.integrations
assert "ACCELERATE_TORCH_DEVICE" not in os.environ
rustdev.integrations.enable()
print(os.environ["ACCELERATE_TORCH_DEVICE"], [name for name in {LIBRARIES} if name in sys.modules])
"""
    assert programs.script(code).strip() == "rustdev []"


def test_the_users_choice_of_a_device_stays(programs: Programs) -> None:
    programs.environment["ACCELERATE_TORCH_DEVICE"] = "rustdev:1"
    code = "import rustdev.integrations\nrustdev.integrations.enable()\nimport accelerate\nprint(accelerate.Accelerator().device)\n"
    assert programs.script(code).strip() == "rustdev:1"


@pytest.mark.parametrize("late", [False, True])
def test_before_or_after_the_imports(late: bool, programs: Programs) -> None:
    imports = """
import torch
import accelerate.utils, transformers.integrations.accelerate
from safetensors.torch import load_file, save_file
from transformers import TrainingArguments
"""
    enable = "import rustdev.integrations\nrustdev.integrations.enable()\n"
    use = """
save_file({"a": torch.ones(2)}, "a.safetensors")
print(load_file("a.safetensors", "rustdev:1")["a"].device, TrainingArguments("out", bf16=True).device)
print(0 in accelerate.utils.get_max_memory(), 1 in transformers.integrations.accelerate.get_max_memory())
"""
    code = imports + enable + use if late else enable + imports + use
    # Warnings of torchao, which transformers imports, may be in front.
    assert programs.script(code).splitlines()[-2:] == ["rustdev:1 rustdev", "True True"]


def test_other_releases_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[ModuleType] = []
    file = ModuleType("rustdev.integrations.example")
    file.change = changed.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rustdev.integrations.example", file)
    patch = _Patch("example", (1, 15), (2, 0), "example", ("example", "change"), "It has a list.")
    library = ModuleType("example")
    for version in ("1.14.9", "2.0.0"):
        monkeypatch.setattr(rustdev.integrations.metadata, "version", lambda name, version=version: version)
        with pytest.warns(
            UserWarning, match=rf"rustdev knows example 1.15 or newer, below 2.0, and leaves {version} .* It has a list."
        ):
            patch.apply(library)
    assert changed == []
    for version in ("1.15.0", "1.16.0rc1"):
        monkeypatch.setattr(rustdev.integrations.metadata, "version", lambda name, version=version: version)
        patch.apply(library)
    assert changed == [library, library]


def test_a_release_without_what_is_changed_is_left_alone() -> None:
    for patch in _PATCHES:
        if patch.library == "lightning":
            continue
        with pytest.warns(UserWarning, match=f"rustdev knows {patch.library} .* as it is"):
            patch.apply(ModuleType(patch.module))


def test_looking_for_a_module_does_not_lose_the_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "looked_for.py").write_text("number = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[int] = []
    _imports._after_import("looked_for", lambda module: seen.append(module.number))
    assert importlib.util.find_spec("looked_for") is not None
    assert seen == []
    importlib.import_module("looked_for")
    assert seen == [1]
    assert not [finder for finder in sys.meta_path if getattr(finder, "name", "") == "looked_for"]
    del sys.modules["looked_for"]
