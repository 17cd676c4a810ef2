"""Writes docs/coverage.md: the tier that serves each PyTorch operator on the device.

coverage.py OUTPUT
"""

import sys
import textwrap
from collections import defaultdict
from pathlib import Path

import pages
import rustdev
import torch

TIERS = {
    "rust": "Kernels of ours, asynchronous",
    "aten": "PyTorch's own code on device memory; what computes is a task on the stream",
    "composite": "Made of other operators",
    "fallback": "PyTorch's CPU kernel over the same memory: correct, and it waits for the stream",
    "none": "Not on this device: other devices' own, other layouts', or without a CPU kernel",
}


def base(name: str) -> str:
    """Return the name of an operator without namespace, overload and the trailing underscore of in-place operators."""
    short = name.removeprefix("aten::").partition(".")[0]
    return short if short.endswith("__") else short.removesuffix("_")


def page() -> list[str]:
    """Return the lines of the page that the tool writes."""
    tiers: defaultdict[str, set[str]] = defaultdict(set)
    overloads: defaultdict[str, int] = defaultdict(int)
    for name, served in rustdev.coverage().items():
        tier: str = served or "none"
        tiers[tier].add(base(name))
        overloads[tier] += 1
    seen: set[str] = set()
    rows, sections = [], []
    for kind, title in TIERS.items():
        names = sorted(tiers[kind] - seen)
        seen.update(names)
        rows.append((kind, len(names), overloads[kind]))
        listing = textwrap.wrap(", ".join(f"`{name}`" for name in names), 140, break_long_words=False, break_on_hyphens=False)
        sections += ["", f"## {title}", "", *listing]
    head = f"torch {torch.__version__}: {sum(overloads.values())} overloads."
    return [head, "", *pages.table("tier | operators: | overloads:", rows), *sections]


if __name__ == "__main__":
    output = Path(sys.argv[1])
    output.write_text(pages.fill(output, page()))
