"""Writes docs/conformance.md from the results of a conformance run. The exit status is 1 if a test failed.

    conformance.py RESULTS OUTPUT [--entries]

RESULTS is the ``results.json`` that ``tools/upstream`` writes for the tests in ``tests/ops/conformance``. With ``--entries``, which
requires the results of all tests, the page lists the entries of the database that no test ran.
"""

import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

import pages
import rustdev
import torch
from recorded import BAD

KINDS = {
    "forward": "results: values, dtypes, shapes, strides, and what is a view of what",
    "noncontiguous": "the same for inputs that are not contiguous",
    "out": "`out=`, of the right size and empty",
    "inplace": "in-place forms",
    "layout": "inputs that are expanded, overlapping, permuted, misaligned, far into their memory",
    "layout_out": "`out=` of these layouts and in the inputs' memory, and what is beside it",
    "overload": "the same for every overload of ATen's that writes to an argument, in-place forms among them",
    "empty": "size 0 in each dimension: results and gradients",
    "errors": "what the CPU refuses is refused with the same exception",
    "backward": "gradients",
    "forward_ad": "tangents",
    "sparse": "sparse tensors of each layout, dtype and dtype of indices: every operator with a kernel for them, and gradients",
    "sparse_samples": "the database's samples of sparse layouts: results, gradients",
    "module": "modules: results and gradients, in training and evaluation",
    "optimizer": "optimizers: parameters after some steps, in each implementation",
    "foreach": "operators over lists",
    "extremes": "extreme values, and no values: results, for each operator and dtype 12 to 400 calls",
    "extremes_backward": "the same: gradients",
    "extremes_unlisted": "the same: results in dtypes that the database does not list, float8 among them, where the CPU takes them",
}
OUTCOMES = ("passed", "failed", "crashed", "xfailed", "skipped")


def kind_of(test: str) -> str:
    """Return the kind of a test: the longest kind that is a prefix of its name."""
    name = test.rpartition("::")[2].removeprefix("test_")
    return max((kind for kind in KINDS if name.startswith(kind + "_")), key=len, default="other")


def never_run(results: dict[str, dict[str, str]], entries: list[str]) -> dict[str, str]:
    """Return the entries that no test ran, each with the reason for which its tests were skipped."""
    ran, skipped = set(), {}
    for test, line in results.items():
        entry = test.rpartition("::")[2].removeprefix(f"test_{kind_of(test)}_").partition("_rustdev")[0]
        if line["outcome"] == "skipped":
            skipped[entry] = line.get("text", "")
        else:
            ran.add(entry)
    return {entry: skipped.get(entry, "no test") for entry in entries if entry not in ran}


def page(results: dict[str, dict[str, str]], entries: list[str] | None = None) -> str:
    """Return what the tool writes into the page. It lists those of ``entries``, the database's, that no test ran."""
    counts: dict[str, Counter[str]] = {}
    for test, line in results.items():
        counts.setdefault(kind_of(test), Counter())[line["outcome"]] += 1
    rows = [(KINDS.get(kind, kind), counts[kind]) for kind in (*KINDS, "other") if kind in counts]
    rows.append(("**all**", sum(counts.values(), Counter())))
    samples = os.environ.get("CONFORMANCE_SAMPLES")
    looked = f" The first {samples} samples of each operator and dtype alone (`CONFORMANCE_SAMPLES`)." if samples else ""
    lines = [f"torch {torch.__version__}, {rustdev.get_device_name()}.{looked}", ""]
    head = f"what | {' | '.join(f'{outcome}:' for outcome in OUTCOMES)}"
    lines += pages.table(head, ([what, *(count[outcome] for outcome in OUTCOMES)] for what, count in rows))
    for title, chosen in (
        ("Expected differences", ("xfailed",)),
        ("Failures", BAD),
        ("Skipped by PyTorch's framework", ("skipped",)),
    ):
        reasons = Counter(line.get("text", "") for line in results.values() if line["outcome"] in chosen)
        lines += pages.section(title, "tests: | reason", ((count, short(reason)) for reason, count in reasons.most_common()))
    missing = never_run(results, entries or []).items()
    lines += pages.section(
        "Entries of `op_db` that no test ran", "entry | reason", ((f"`{it}`", short(why)) for it, why in missing)
    )
    return "\n".join([*lines, ""])


def short(reason: str) -> str:
    """Return a reason for a cell of a table."""
    return re.sub(r"^(Skipped|reason): ", "", reason)[:200]


def main(arguments: list[str]) -> int:
    """Write the page and print its counts."""
    results = json.loads(Path(arguments[0]).read_text())
    entries = None
    if "--entries" in arguments:
        from torch.testing._internal.common_methods_invocations import op_db

        entries = [op.formatted_name for op in op_db]
    output = Path(arguments[1])
    output.write_text(pages.fill(output, page(results, entries).splitlines()))
    counts = Counter(line["outcome"] for line in results.values())
    print(", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES))
    if not results:
        print("conformance: nothing was collected", file=sys.stderr)
    return int(not results or any(counts[outcome] for outcome in BAD))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
