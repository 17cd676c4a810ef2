"""Writes docs/features.md: for each name of torch.cuda, whether torch.rustdev has it.

features.py OUTPUT
"""

import sys
import textwrap
from collections import defaultdict
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import ModuleType

import torch
from rustdev._absent import OTHER_NAMES, REASONS

#: Module of CUDA to (the device's module, key of ``rustdev._absent`` with the reasons).
MODULES = {
    "torch.cuda": ("torch.rustdev", "torch.rustdev"),
    "torch.cuda.amp": ("torch.rustdev.amp", "torch.rustdev.amp"),
    "torch.cuda.memory": ("torch.rustdev.memory", "torch.rustdev"),
    "torch.cuda.random": ("torch.rustdev.random", "torch.rustdev"),
    "torch.cuda.streams": ("torch.rustdev.streams", "torch.rustdev"),
    "torch.backends.cuda": ("torch.backends.rustdev", "torch.backends.rustdev"),
}
HEAD = """# What of `torch.cuda` is here

`make coverage` writes this page: every public name of `torch.cuda` and its modules, those of `__all__` and those that `dir()` shows
and that are defined there, is here under the same name, under another, or left out with a reason. A name that could only pretend is
left out, so that a program stops where it relies on it; `torch.rustdev.nccl` raises AttributeError with the reason.
`tests/registration/test_features.py` holds the page and the reasons against PyTorch.
"""
TESTS = "registration/test_features.py"
#: Features beyond names: (feature, state on this device, test).
BEYOND = (
    ("`Tensor.rustdev()`, `is_rustdev`; of modules, storages, packed sequences", "as `cuda()`", "registration/test_names.py"),
    ("`torch.rustdev.Stream` and `Event`", "subclasses of `torch.Stream` and `torch.Event`", TESTS),
    ("`Tensor.record_stream`", "keeps the memory until the stream is done with it", "runtime/test_memory.py"),
    ("`torch.rustdev.FloatTensor`, `FloatStorage` and siblings", "make, test and convert; deprecated", TESTS),
    ("`torch.set_default_tensor_type`", "refuses; `set_default_dtype`, `set_default_device` work", TESTS),
    ("`torch.use_deterministic_algorithms`", "new memory is filled with NaN or the greatest integer", TESTS),
    ("`torch.nn.attention.sdpa_kernel`, `torch.backends.rustdev`", "choose between flash and math", TESTS),
    (
        "`torch.nn.attention.varlen`",
        "every sequence by the attention kernel; the lengths are read, which waits once in a call",
        "ops/test_varlen_attention.py",
    ),
    (
        "`torch.nn.attention.flex_attention`",
        "by tiles, eager and compiled, forward and backward: memory is linear in the lengths, and masked blocks cost nothing "
        "([compile.md](compile.md#flexattention))",
        "compile/test_flex_attention.py",
    ),
    ("Triton with `TRITON_INTERPRET=1`", "[questions.md](questions.md#does-triton-work)", "compile/test_triton.py"),
    ("`torch.set_float32_matmul_precision`", "changes nothing: products keep float32", TESTS),
    ("`torch.utils.flop_counter.FlopCounterMode`", "counts as on the CPU", TESTS),
    ("`torch.testing._internal.common_device_type`", "tests for the device", "registration/test_upstream.py"),
    ("`python -m torch.utils.collect_env`", "runs; `python -m rustdev.info` tells of the device", "runtime/test_device.py"),
    (
        "`sanitizer`, `RUSTDEV_SANITIZE`",
        "reports races between streams, and memory freed in use",
        "sanitizer/test_race_detector.py",
    ),
    ("`set_sync_debug_mode`", "warns or raises where an operator waits", "runtime/test_sync_debug.py"),
    ("memory history and snapshots for the trace viewer", "as `torch.cuda.memory`'s", "runtime/test_memory.py"),
)


def public_names(module: ModuleType) -> list[str]:
    """Return the public names that a module defines itself, in alphabetical order."""

    def is_defined_here(name: str) -> bool:
        value = getattr(module, name)
        origin = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", module.__name__)
        return name != "TYPE_CHECKING" and str(origin).startswith(module.__name__)

    return sorted({*getattr(module, "__all__", ()), *(name for name in dir(module) if name[0] != "_" and is_defined_here(name))})


def states(cuda: str) -> dict[str, str]:
    """Return the state of each public name of a module of CUDA: "present", "another name: ...", "left out: ..." or "unknown".

    Args:
        cuda: Name of the module, a key of MODULES.
    """
    here, entry = MODULES[cuda]
    ours = attrgetter(here.removeprefix("torch."))(torch)
    told = {name: f"left out: {reason}" for name, reason in REASONS[entry].items()}
    told |= {name: f"another name: {other}" for name, other in OTHER_NAMES[entry].items()}
    names = public_names(import_module(cuda))
    return {name: "present" if hasattr(ours, name) else told.get(name, "unknown") for name in names}


def listing(names: list[str]) -> str:
    """Return names as a Markdown list in one line."""
    return ", ".join(f"`{name}`" for name in names)


def section(cuda: str) -> list[str]:
    """Return the lines of the page about a module."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name, state in states(cuda).items():
        groups[state].append(name)
    present = groups.pop("present", [])
    lines = ["", f"## `{cuda}`: `{MODULES[cuda][0]}`", "", f"Present, {len(present)}:", ""]
    lines += textwrap.wrap(listing(present), 140, break_long_words=False, break_on_hyphens=False)
    if groups:
        lines += ["", "| not under this name | state |", "|---|---|"]
        lines += [f"| {listing(names)} | {state} |" for state, names in sorted(groups.items())]
    return lines


def page() -> str:
    """Return the page."""
    found = [state.partition(":")[0] for cuda in MODULES for state in states(cuda).values()]
    counts = ", ".join(f"{found.count(state)} {state}" for state in ("present", "another name", "left out"))
    lines = [HEAD, f"torch {torch.__version__.partition('+')[0]}: {len(found)} names, {counts}."]
    for cuda in MODULES:
        lines += section(cuda)
    lines += ["", "## Beyond names", "", "| feature | here | test in `tests/` |", "|---|---|---|"]
    lines += [f"| {feature} | {here} | `{test}` |" for feature, here, test in BEYOND]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
