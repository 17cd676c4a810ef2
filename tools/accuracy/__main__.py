"""Compare sums of many terms in float16 and bfloat16 with float64.

    python -m accuracy [--terms N ...] [--only TEXT] [--page FILE]

Prints each result and gradient whose error exceeds the rounding of its dtype, with the error of PyTorch's CPU device. `--page`
writes docs/accuracy.md. The exit status is 1 if the CPU device is more accurate for a reason that is not listed.
"""

import argparse
import dataclasses
import itertools
import sys
import time
from collections import Counter
from pathlib import Path

import pages
import rustdev
import torch

from . import enlarged, meeting
from .measure import Call, Error, errors

DTYPES = (torch.float16, torch.bfloat16)
#: Time limit in seconds per operator of the database, dtype and number of terms; the remaining calls are skipped.
MAX_SECONDS = 4.0
#: Reasons of known errors, by prefix of the call's name.
REASONS = {
    "logsumexp": "PyTorch's formula: the gradient is the exponential of a difference from the rounded result",
    "scaled_dot_product_attention": "gradients of scores are differences from the rounded result",
    "layer_norm of many rows": "terms cancel, and the reciprocal deviation is kept in the dtype",
    "corrcoef": "PyTorch's formula is a difference of rounded results",
    "cumulative_trapezoid": "PyTorch's formula rounds each term",
}
#: Known reasons why the CPU device is more accurate, by prefix of the call's name.
REASONS_OF_WORSE = {
    "nn.functional.linear_cross_entropy.chunked": "PyTorch adds chunks in float32 for CPU and CUDA alone; acc_dtype asks for it",
}
#: As `REASONS`, for calls of the database and for 100,000 terms. The tests, which have fewer terms, may not use these reasons.
REASONS_OF_MORE = {
    name: reason
    for reason, names in {
        REASONS["logsumexp"]: ("logcumsumexp",),
        REASONS["scaled_dot_product_attention"]: (
            "nn.functional.scaled_dot_product_attention", "torch.ops.aten._scaled_dot_product",
        ),
        REASONS["corrcoef"]: ("special.i1e",),
        "PyTorch's formula: the gradient has the exponential of the rounded result": ("log_softmax",),
        "a step of PyTorch's formula is more than float16 holds": ("_softmax_backward_data", "cov", "cumprod"),
        "PyTorch's formula: the gradient is a difference from the rounded mean": ("std", "var"),
        "PyTorch's composition rounds each of its steps": (
            "masked.", "nn.functional.cosine", "nn.functional.multilabel_soft_margin_loss", "nn.functional.normalize",
            "nn.functional.linear_cross_entropy",
        ),
        "the number of terms is kept in the dtype, which does not hold it": (
            "scatter_reduce", "index_reduce", "segment_reduce", "nn.functional.cross_entropy", "cross_entropy",
            "nn.functional.nll_loss", "nll_loss",
        ),
        "PyTorch's formula rounds a factor, which the dtype may not hold, before it multiplies": ("polygamma", "special.polygamma"),
    }.items()
    for name in names
}  # fmt: skip


@dataclasses.dataclass
class Sweep:
    """The calls that were compared, and the findings."""

    calls: Counter[str] = dataclasses.field(default_factory=Counter)
    compared: int = 0
    #: Calls that raised in float64 or on the device, with the first line of the error.
    refused: dict[str, str] = dataclasses.field(default_factory=dict)
    findings: list[Error] = dataclasses.field(default_factory=list)

    def look(self, call: Call, dtype: torch.dtype) -> None:
        """Compare one call."""
        try:
            found = errors(call, dtype, "rustdev")
        except Exception as error:
            self.refuse(call.name, dtype, error)
            return
        self.calls[call.name] += 1
        self.compared += len(found)
        for finding in filter(lambda finding: finding.is_finding, found):
            self.findings.append(finding)
            print(line(finding), flush=True)

    def refuse(self, name: str, dtype: torch.dtype, error: Exception) -> None:
        """Note the error of a call."""
        self.refused[f"{name} ({dtype})"] = f"{type(error).__name__}: {error}".partition("\n")[0]


def line(error: Error) -> str:
    """Return an error as a line of output."""
    where = f"{error.name}, {error.terms} terms, {error.dtype}, {error.what}"
    return f"{where}: {number(error.device)} steps, the CPU {number(error.cpu)}, roundings of inputs {number(error.moved)}"


def number(value: float) -> str:
    """Return a number of steps as short text."""
    return f"{value:.1f}" if value < 100 else f"{value:.0f}" if value < 1e6 else f"{value:.0e}"


def sweep(all_terms: list[int], only: str) -> Sweep:
    """Compare all calls whose names contain ``only``."""
    state = Sweep()
    for terms, dtype in itertools.product(all_terms, DTYPES):
        for call in meeting.calls(terms, dtype):
            if only in call.name:
                state.look(call, dtype)
        for name in (name for name in enlarged.names() if only in name):
            end = time.monotonic() + MAX_SECONDS
            try:
                for call in itertools.takewhile(lambda _: time.monotonic() < end, enlarged.calls(name, terms, dtype)):  # noqa: B023
                    state.look(call, dtype)
            except Exception as error:
                state.refuse(name, dtype, error)
    return state


def page(state: Sweep, all_terms: list[int]) -> str:
    """Return what the tool writes into docs/accuracy.md."""
    terms = " and ".join(f"{terms:,}" for terms in all_terms)
    lines = [f"torch {torch.__version__}, {rustdev.get_device_name()}, {terms} terms.\n"]
    lines.append(f"{state.calls.total():,} calls of {len(state.calls)} kinds, {state.compared:,} results and gradients.\n")
    for title, is_worse in (("More than the CPU device's", True), ("As on the CPU device", False)):
        reasons = REASONS_OF_WORSE if is_worse else REASONS_OF_WORSE | REASONS | REASONS_OF_MORE
        worst: dict[tuple[str, str, str], Error] = {}
        for error in sorted((it for it in state.findings if it.is_worse is is_worse), key=lambda it: it.device):
            worst[error.name, error.dtype, error.what] = error
        rows = [
            (*key, *map(number, (error.device, error.cpu, error.moved)), reason_of(error, reasons))
            for key, error in sorted(worst.items())
        ]
        table = pages.table("call | dtype | what | steps: | the CPU's: | by inputs: | reason", rows)
        lines += [f"## {title}\n", *(table if rows else ["None."]), ""]
    return "\n".join(lines)


def reason_of(error: Error, reasons: dict[str, str]) -> str:
    """Return the reason of an error, or an empty string."""
    return next((reason for name, reason in reasons.items() if error.name.startswith(name)), "")


def main() -> int:
    """Compare the calls, print the findings and write the files."""
    parser = argparse.ArgumentParser(prog="accuracy", description=__doc__.partition("\n")[0])
    parser.add_argument("--terms", type=int, nargs="+", default=[1000, 100_000], help="how many terms a sum has")
    parser.add_argument("--only", default="", help="calls whose names have this text")
    parser.add_argument("--page", type=Path, help="the page to write")
    options = parser.parse_args()
    # With one thread the CPU sums in a fixed order.
    torch.set_num_threads(1)
    state = sweep(options.terms, options.only)
    worse = [error for error in state.findings if error.is_worse]
    print(f"{state.calls.total()} calls, {state.compared} comparisons, {len(state.findings)} findings, {len(worse)} not the CPU's")
    for name, text in sorted(state.refused.items()):
        print(f"left out: {name}: {text[:150]}")
    if options.page:
        options.page.write_text(pages.fill(options.page, page(state, options.terms).splitlines()))
    unknown = [error for error in worse if not reason_of(error, REASONS_OF_WORSE)]
    return int(bool(unknown) or not state.calls)


if __name__ == "__main__":
    sys.exit(main())
