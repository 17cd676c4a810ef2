"""Writes docs/features.md: for each name of torch.cuda, whether torch.rustdev has it."""

import textwrap
from collections import defaultdict
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import ModuleType

import pages
import torch
from rustdev._absent import OTHER_NAMES, REASONS

PAGE = Path(__file__).parents[1] / "docs/features.md"
#: Module of CUDA to (the device's module, key of ``rustdev._absent`` with the reasons).
MODULES = {
    "torch.cuda": ("torch.rustdev", "torch.rustdev"),
    "torch.cuda.amp": ("torch.rustdev.amp", "torch.rustdev.amp"),
    "torch.cuda.memory": ("torch.rustdev.memory", "torch.rustdev"),
    "torch.cuda.random": ("torch.rustdev.random", "torch.rustdev"),
    "torch.cuda.streams": ("torch.rustdev.streams", "torch.rustdev"),
    "torch.backends.cuda": ("torch.backends.rustdev", "torch.backends.rustdev"),
}


def public_names(module: ModuleType) -> list[str]:
    """Return the public names that a module defines itself, in alphabetical order."""

    def is_defined_here(name: str) -> bool:
        value = getattr(module, name)
        origin = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", module.__name__)
        return name != "TYPE_CHECKING" and str(origin).startswith(module.__name__)

    return sorted({*getattr(module, "__all__", ()), *(name for name in dir(module) if name[0] != "_" and is_defined_here(name))})


def states(cuda: str) -> dict[str, str]:
    """Return the state of each public name of a module of CUDA: "present", "another name: ...", "left out: ..." or "unknown"."""
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
        rows = ((listing(names), state) for state, names in sorted(groups.items()))
        lines += ["", *pages.table("not under this name | state", rows)]
    return lines


def page() -> str:
    """Return the text of docs/features.md, of which the rest is written by hand."""
    found = [state.partition(":")[0] for cuda in MODULES for state in states(cuda).values()]
    counts = ", ".join(f"{found.count(state)} {state}" for state in ("present", "another name", "left out"))
    lines = [f"torch {torch.__version__.partition('+')[0]}: {len(found)} names, {counts}."]
    for cuda in MODULES:
        lines += section(cuda)
    return pages.fill(PAGE, lines)


if __name__ == "__main__":
    PAGE.write_text(page())
