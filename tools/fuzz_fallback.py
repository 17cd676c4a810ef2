"""Calls the operators of the device with bad arguments in child processes, and reports calls that crash the process.

PyTorch's CPU kernels, which the fallback runs, do not validate all arguments. Calls of each operator, as they reach the device
forward and backward, are recorded from PyTorch's operator database and from fuzz_calls.txt. One to four arguments of a call are
changed, and the call is made in a child process that is forked for the operator. The child writes the number of the call to shared
memory first. So the parent knows which call ended the child, and continues after it in a new child. The correct outcome is an
exception. Hangs and refused allocations are counted, but are not crashes. PyTorch's kernels of private operators, whose names begin
with an underscore, may crash for what no public function passes; they are left out unless --only is given.

    python tools/fuzz_fallback.py --seconds 600 --output target/fuzz/report.json
    python tools/fuzz_fallback.py --only max_pool3d --device cpu
"""

import argparse
import contextlib
import gc
import itertools
import json
import math
import mmap
import os
import random
import re
import resource
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RUSTDEV_NUM_THREADS", "1")
os.environ.setdefault("RUSTDEV_MEMORY_LIMIT", "1G")

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

#: File of the recorded calls, and tiers of the operators that are called, as rustdev.coverage() names them.
RECORDED, TIERS = Path("target/fuzz/calls.pickle"), ("fallback", "aten", "rust")
#: Numbers of cases and, at most, of recorded calls of an operator, and of elements of the tensors of a call.
CASES, CALLS, ELEMENTS = 400, 6, 4096
#: Limit of additional address space in bytes while the cases run, and seconds without progress that count as a hang.
SPACE, PATIENCE = 2 << 30, 4.0
#: Number of crashes and hangs after which the rest of an operator is skipped.
ENOUGH = 40
OUTCOMES = {1: "accepted", 2: "refused", 3: "refused by the accelerator", 4: "out of memory", 5: "not to be made"}

#: Types of arguments that are recorded.
PLAIN = (torch.Tensor, torch.nn.Parameter, bool, int, float, complex, str, torch.dtype, torch.device, torch.layout)

#: Names in fuzz_calls.txt: T makes a tensor of random numbers, I of the given integers, C of random classes from 1 to 4.
NAMES: dict[str, Any] = {
    "torch": torch,
    "aten": torch.ops.aten,
    "T": lambda *sizes, dtype=torch.float32: torch.randn(sizes).to(dtype),
    "I": lambda *values: torch.tensor(values),
    "C": lambda *sizes: torch.randint(1, 5, sizes),
}

INTEGERS = [0, 0, -1, -1, 1, 1, 2, 2, 3, 3, 4, 5, 7, -2, -3, 64, 1000]
INTEGERS += [2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -1.0, 1.0, 0.5, 1e-30, 1e30, float("inf"), float("-inf"), float("nan")]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64]
WORDS = ["", "none", "mean", "sum", "prod", "amax", "max", "min", "reduced", "N", "T", "U"]


# ---- calls as they reach the device ---------------------------------------------------------------------------------------------
class Recorder(TorchDispatchMode):
    """Records some calls of each operator with different arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, dict[str, tuple[Any, Any]]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = pytree.tree_map_only(torch.memory_format, lambda _: None, (args, kwargs or {}))
        leaves = [leaf for leaf in pytree.tree_leaves(call) if leaf is not None]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        are_plain = all(it.is_cpu and it.layout is torch.strided and not it.is_quantized for it in tensors)
        if func.namespace == "aten" and are_plain and all(type(leaf) in PLAIN for leaf in leaves):
            known = self.calls.setdefault(func._schema.name + ("." + func._schema.overload_name).rstrip("."), {})
            key = str(pytree.tree_map_only(torch.Tensor, lambda tensor: (tensor.dim(), str(tensor.dtype)), call))
            if key not in known and len(known) < 4 * CALLS and sum(tensor.numel() for tensor in tensors) <= ELEMENTS:
                known[key] = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), call)
        return func(*args, **(kwargs or {}))


def record() -> None:
    """Run the operator database and fuzz_calls.txt on the CPU, and write the recorded calls to a file."""
    from rustdev_conformance.database import op_db

    recorder = Recorder()
    for op in op_db:
        dtypes = [torch.float32] if torch.float32 in op.dtypes else list(op.dtypes)[:1]
        for dtype in dtypes + [torch.int64] * (torch.int64 in op.dtypes):
            with contextlib.suppress(Exception):
                gradient = op.supports_autograd and dtype.is_floating_point
                for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=gradient), 40):
                    run(lambda op=op, it=sample: op(it.input, *it.args, **it.kwargs), recorder)
    for line in Path(__file__).with_name("fuzz_calls.txt").read_text().splitlines():
        run(lambda line=line: eval(line, NAMES), recorder)
    kept = {name: [known[key] for key in sorted(known)] for name, known in recorder.calls.items()}
    calls = {name: random.Random(name).sample(known, min(len(known), CALLS)) for name, known in kept.items()}
    add_overloads(calls)
    RECORDED.parent.mkdir(parents=True, exist_ok=True)
    torch.save(calls, RECORDED)


def run(call: Callable[[], Any], recorder: Recorder) -> None:
    """Make a call and its backward."""
    with contextlib.suppress(Exception), recorder:
        for leaf in pytree.tree_leaves(call()):
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
                leaf.sum().abs().backward(retain_graph=True)


def add_overloads(calls: dict[str, list[Any]]) -> None:
    """Add calls of out= and in-place overloads, derived from those of another overload."""
    bases: dict[str, str] = {}
    for name in calls:
        bases.setdefault(name.partition(".")[0].rstrip("_"), name)
    for name in torch._C._dispatch_get_all_op_names():
        model = bases.get(name.partition(".")[0].rstrip("_"))
        if model is None or calls.get(name) or not name.startswith("aten::"):
            continue
        arguments = operator(name)._schema.arguments
        needed = {it.name for it in arguments if not it.is_out and not it.has_default_value()}
        outputs = {it.name: torch.empty(0) for it in arguments if it.is_out}
        for args, kwargs in calls[model]:
            given = {it.name: value for it, value in zip(operator(model)._schema.arguments, args, strict=False)} | kwargs
            if needed <= set(given):
                known = {it.name: given[it.name] for it in arguments if it.name in given}
                calls.setdefault(name, []).append(((), known | outputs))


# ---- bad arguments --------------------------------------------------------------------------------------------------------------
def filled(tensor: torch.Tensor, shape: list[int]) -> torch.Tensor:
    """Return a tensor of another shape with the values repeated."""
    count = math.prod(shape)
    flat = tensor.reshape(-1) if tensor.numel() else tensor.new_zeros(1)
    return flat.repeat(count // flat.numel() + 1)[:count].reshape(shape)


def resized(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """Change the size of one dimension."""
    shape, dim = list(tensor.shape), rng.randrange(tensor.dim())
    shape[dim] = max(rng.choice([0, 1, shape[dim] + 1, shape[dim] * 5 + 3, shape[dim] - 1]), 0)
    return filled(tensor, shape)


def with_values(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """Set one element of a tensor, or all, to a special number."""
    value = rng.choice(FLOATS)
    if not tensor.is_floating_point() and not tensor.is_complex():
        limits = torch.iinfo(tensor.dtype)
        value = min(max(rng.choice([*INTEGERS, 100_000]), limits.min), limits.max)
    changed = tensor.clone().contiguous()
    chosen = changed.view(-1)[rng.randrange(changed.numel()) :]
    (chosen[:1] if rng.random() < 0.6 else changed).fill_(value)
    return changed


#: Changes of a tensor. One that does not apply raises.
TENSORS: dict[str, Callable[[torch.Tensor, random.Random], torch.Tensor]] = {
    "size": resized,
    "another size": resized,
    "values": with_values,
    "other values": with_values,
    "a dimension more": lambda tensor, rng: tensor.unsqueeze(rng.choice([0, -1])),
    "a dimension less": lambda tensor, rng: filled(tensor, list(tensor.shape[1:]) if tensor.dim() else [1]),
    "another shape": lambda tensor, rng: filled(tensor, rng.choice([[], [0], [0] * tensor.dim(), [1] * tensor.dim(), [-1]])),
    "dimensions reversed": lambda tensor, rng: tensor.permute(*range(tensor.dim() - 1, -1, -1)),
    "values reversed": lambda tensor, rng: tensor.reshape(-1).flip(0).reshape(tensor.shape),
    "expanded": lambda tensor, rng: tensor.reshape(-1)[:1].as_strided(tensor.shape, [0] * tensor.dim()),
    "dtype": lambda tensor, rng: tensor.to(rng.choice(DTYPES)),
}


def change(value: Any, kind: str, rng: random.Random) -> tuple[str, Any]:
    """Change an argument of a schema type, or make one that the call omits. Return a name of the change and the new value."""
    if isinstance(value, torch.Tensor):
        name = rng.choice(list(TENSORS))
        return name, TENSORS[name](value, rng)
    if isinstance(value, list | tuple) or (value is None and "List[int]" in kind):
        changed: Any = list(value or [])
        chosen = [rng.randrange(len(changed))] if changed and rng.random() < 0.5 else range(len(changed))
        if rng.random() < 0.4 or not changed:
            changed = rng.choice([[], changed[:-1], [*changed, changed[-1] if changed else 1]])
        else:
            for index in chosen:
                changed[index] = change(changed[index], "", rng)[1]
    elif value is None and "Tensor" in kind and "List" not in kind:
        shape = [rng.choice([0, 1, 2, 5]) for _ in range(rng.randrange(4))]
        changed = torch.ones(shape, dtype=rng.choice([torch.float32, torch.int64]))
    elif isinstance(value, bool):
        changed = not value
    elif isinstance(value, str):
        changed = rng.choice(WORDS)
    elif isinstance(value, int | float) or "int" in kind or "float" in kind:
        changed = rng.choice(FLOATS if isinstance(value, float) or "float" in kind else INTEGERS)
    else:
        raise TypeError(kind)
    return describe(changed), changed


def describe(value: Any) -> str:
    """Return a description of arguments: tensors by dtype, shape and, for few integers, values."""
    if isinstance(value, torch.Tensor):
        values = "" if value.is_floating_point() or value.is_complex() or value.numel() > 24 else f" = {value.tolist()}"
        strides = "" if value.is_contiguous() else f" strides {list(value.stride())}"
        return f"{value.dtype}{list(value.shape)}{strides}{values}".removeprefix("torch.")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(describe, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}={describe(element)}' for key, element in value.items())}}}"
    return repr(value)


def case(seed: int, name: str, number: int, calls: list[Any]) -> tuple[frozenset[str], list[Any], dict[str, Any]]:
    """Return the changes of a case of an operator, and its arguments; they depend on nothing else. Raises if none apply."""
    rng = random.Random(f"{seed} {name} {number}")
    args, kwargs = rng.choice(calls)
    arguments = operator(name)._schema.arguments
    given = {it.name: it.default_value for it in arguments if it.has_default_value()}
    given |= {it.name: value for it, value in zip(arguments, args, strict=False)} | kwargs
    # Invalid dtypes, layouts, memory formats and devices are not generated: PyTorch indexes tables with them unchecked, on every
    # device.
    known = [it for it in arguments if it.name in given]
    chosen = [it for it in known if not re.search("ScalarType|Layout|MemoryFormat|Device", str(it.real_type))]
    changes = set()
    for it in rng.sample(chosen, min(len(chosen), rng.choice([1, 1, 2, 2, 3, 4]))):
        what, given[it.name] = change(given[it.name], str(it.type), rng)
        if str(it.type).startswith("Optional") and rng.random() < 0.15:
            what, given[it.name] = "none", None
        changes.add(f"{it.name}: {what}")
    positional = [given[it.name] for it in known if not it.kwarg_only]
    return frozenset(changes), positional, {it.name: given[it.name] for it in known if it.kwarg_only}


# ---- children -------------------------------------------------------------------------------------------------------------------
def operator(name: str) -> Any:
    """Return an operator by its full name."""
    base, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


def attempt(op: Any, args: Any, kwargs: Any, device: str) -> int:
    """Make a call on the device, with copies of the tensors that keep strides of 0, and return its outcome."""

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_contiguous() or 0 not in tensor.stride():
            return tensor.to(device, copy=True)
        return tensor.reshape(-1)[:1].to(device, copy=True).as_strided(tensor.shape, tensor.stride())

    try:
        tree = pytree.tree_map_only(torch.Tensor, moved, (args, kwargs))
        args, kwargs = pytree.tree_map_only(torch.device, lambda _: torch.device(device), tree)
        op(*args, **kwargs)
        if device != "cpu":
            torch.rustdev.synchronize()
    except torch.AcceleratorError:
        return 3
    except (MemoryError, torch.OutOfMemoryError):
        return 4
    except Exception as error:
        return 4 if "alloc" in str(error) else 2
    return 1


def child(name: str, calls: list[Any], cases: range, skip: list[frozenset[str]], options: Any, shared: mmap.mmap) -> None:
    """Run cases in a child process. The number of each is written to shared memory before the call."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPACE, used + SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    for number in cases:
        shared[8 + number] = 5
        with contextlib.suppress(Exception):
            changes, args, kwargs = case(options.seed, name, number, calls)
            if not any(known <= changes for known in skip):
                shared[:8] = number.to_bytes(8, "little")
                shared[8 + number] = 0
                shared[8 + number] = attempt(operator(name), args, kwargs, options.device)


def end_of_child(*arguments: Any) -> int | None:
    """Fork a child process and return its exit code; None if it made no progress and was killed."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            child(*arguments)
            code = 0
        finally:
            os._exit(code)
    descriptor, last, since, hangs = os.pidfd_open(pid), b"", 0.0, False
    while not hangs and not select.select([descriptor], [], [], 0.25)[0]:
        if (seen := arguments[-1][:8]) != last:
            last, since = seen, time.monotonic()
        hangs = time.monotonic() - since > PATIENCE
    os.close(descriptor)
    if hangs:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return None if hangs else code


def fuzz(name: str, calls: list[Any], options: argparse.Namespace) -> dict[str, Any]:
    """Run all cases of an operator and return the counts of outcomes, crashes and hangs."""
    shared = mmap.mmap(-1, 8 + CASES)
    found: dict[str, list[Any]] = {"crashes": [], "hangs": []}
    skip: list[frozenset[str]] = []
    start = 0
    while start < CASES and len(skip) < ENOUGH:
        shared[:8] = start.to_bytes(8, "little")
        code = end_of_child(name, calls, range(start, CASES), skip, options, shared)
        if code == 0:
            break
        number = int.from_bytes(shared[:8], "little")
        changes, args, kwargs = case(options.seed, name, number, calls)
        end = "hang" if code is None else signal.Signals(-code).name if code < 0 else f"exit {code}"
        if code is not None and end_of_child(name, calls, range(number, number + 1), [], options, shared) == 0:
            end += " after other calls"
        call = f"{describe(args)} {describe(kwargs)}"
        found["hangs" if code is None else "crashes"].append({"case": number, "end": end, "changes": sorted(changes), "call": call})
        skip.append(changes)
        start = number + 1
    return {"counts": Counter(OUTCOMES[outcome] for outcome in shared[8:] if outcome), **found}


def main() -> int:
    """Run all cases of the chosen operators and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="rustdev", choices=["rustdev", "cpu"])
    parser.add_argument("--only", default="", help="a part of the operators' names")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--output", type=Path, help="a JSON file for everything that was found")
    parser.add_argument("--record", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.record:
        record()
        return 0
    if not RECORDED.exists():
        # In a separate process: backward starts threads, which do not survive a fork.
        subprocess.run([sys.executable, "-W", "ignore", __file__, "--record"], check=True)
    calls = torch.load(RECORDED, weights_only=False)
    gc.freeze()
    report: dict[str, Any] = {}
    end = time.monotonic() + options.seconds
    for name, tier in torch.rustdev.coverage().items():
        is_left_out = name.startswith("aten::_") and tier != "rust" and not options.only
        if tier not in TIERS or not calls.get(name) or is_left_out or options.only not in name:
            continue
        if time.monotonic() > end:
            print("fuzz: out of time")
            break
        report[name] = found = fuzz(name, calls[name], options)
        for line in found["crashes"]:
            print(f"{name} {line['end']}: {'; '.join(line['changes'])}\n    {line['call']}", flush=True)
        if options.output:
            options.output.write_text(json.dumps(report, indent=1))
    counts: Counter[str] = sum((found["counts"] for found in report.values()), Counter())
    crashes = {name: len(found["crashes"]) for name, found in report.items() if found["crashes"]}
    hangs = sum(len(found["hangs"]) for found in report.values())
    print(f"{len(report)} operators; {dict(counts)}; {hangs} hangs; crashes: {crashes}")
    return int(bool(crashes))


if __name__ == "__main__":
    sys.exit(main())
