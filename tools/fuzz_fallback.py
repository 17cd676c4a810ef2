"""Calls the operators of the device with bad arguments in child processes, and reports calls that crash the process.

PyTorch's CPU kernels, which the fallback runs, do not validate all arguments. Calls of each operator, as they reach the device
forward and backward, are recorded from PyTorch's operator database and from fuzz_calls.txt. One to four arguments of a call are
changed, and the call is made in a child process that is forked for the operator. The child writes the number of the call to shared
memory first. So the parent knows which call ended the child, and continues after it in a new child. The correct outcome is an
exception. Hangs and refused allocations are counted, but are not crashes.

    python tools/fuzz_fallback.py --seconds 600 --output target/fuzz/report.json
    python tools/fuzz_fallback.py --only max_pool3d --device cpu
"""

import argparse
import contextlib
import gc
import json
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
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RUSTDEV_NUM_THREADS", "1")
os.environ.setdefault("RUSTDEV_MEMORY_LIMIT", "1G")

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

#: Maximum number of recorded calls per operator, and maximum number of elements of the tensors of a call.
CALLS, ELEMENTS = 6, 4096
#: Limit of additional address space in bytes while the cases run, and seconds without progress that count as a hang.
SPACE, PATIENCE = 2 << 30, 4.0
#: Number of crashes and hangs after which the rest of an operator is skipped.
ENOUGH = 40
OUTCOMES = {1: "accepted", 2: "refused", 3: "refused by the accelerator", 4: "out of memory", 5: "not to be made"}

#: Types of arguments that are recorded.
PLAIN = (
    torch.Tensor,
    torch.nn.Parameter,
    bool,
    int,
    float,
    complex,
    str,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
)

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
        kwargs = kwargs or {}
        with contextlib.suppress(Exception):
            self.keep(func, args, kwargs)
        return func(*args, **kwargs)

    def keep(self, func: Any, args: Any, kwargs: Any) -> None:
        """Record a call unless there are enough, it is too large, or it has arguments of other types."""
        known = self.calls.setdefault(func._schema.name + ("." + func._schema.overload_name).rstrip("."), {})
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if func.namespace != "aten" or not all(leaf is None or type(leaf) in PLAIN for leaf in leaves):
            return
        if sum(tensor.numel() for tensor in tensors) > ELEMENTS or any(tensor.device.type != "cpu" for tensor in tensors):
            return
        if any(tensor.layout is not torch.strided or tensor.is_quantized for tensor in tensors):
            return
        key = str(pytree.tree_map_only(torch.Tensor, lambda tensor: (tensor.dim(), str(tensor.dtype)), (args, kwargs)))
        if key not in known and len(known) < 4 * CALLS:
            kept = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), (args, kwargs))
            known[key] = pytree.tree_map_only(torch.memory_format, lambda _: None, kept)


def record(path: Path) -> None:
    """Run the operator database on the CPU and write the recorded calls to a file."""
    from torch.testing._internal.common_methods_invocations import op_db

    recorder = Recorder()
    for op in op_db:
        dtypes = [torch.float32] if torch.float32 in op.dtypes else list(op.dtypes)[:1]
        for dtype in dtypes + [torch.int64] * (torch.int64 in op.dtypes):
            with contextlib.suppress(Exception):
                run_samples(op, dtype, recorder)
    for line in Path(__file__).with_name("fuzz_calls.txt").read_text().splitlines():
        with contextlib.suppress(Exception), recorder:
            eval(line, NAMES)
    calls = {}
    for name, known in recorder.calls.items():
        kept = [known[key] for key in sorted(known)]
        calls[name] = random.Random(name).sample(kept, min(len(kept), CALLS))
    add_overloads(calls)
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(calls, path)


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
        needed = {argument.name for argument in arguments if not argument.is_out and not argument.has_default_value()}
        outputs = [argument.name for argument in arguments if argument.is_out]
        for args, kwargs in calls[model]:
            given = {
                argument.name: value for argument, value in zip(operator(model)._schema.arguments, args, strict=False)
            } | kwargs
            if needed <= set(given):
                known = {argument.name: given[argument.name] for argument in arguments if argument.name in given}
                calls.setdefault(name, []).append(((), known | {output: torch.empty(0) for output in outputs}))


def run_samples(op: Any, dtype: torch.dtype, recorder: Recorder) -> None:
    """Run an operator of the database and its backward on its first samples."""
    gradient = op.supports_autograd and dtype.is_floating_point
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=gradient)):
        if number >= 40:
            return
        with contextlib.suppress(Exception), recorder:
            result = op(sample.input, *sample.args, **sample.kwargs)
            for leaf in pytree.tree_leaves(result):
                if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
                    leaf.sum().abs().backward(retain_graph=True)


# ---- bad arguments --------------------------------------------------------------------------------------------------------------
class CannotChangeError(Exception):
    """A change does not apply to a value."""


def filled(tensor: torch.Tensor, shape: list[int]) -> torch.Tensor:
    """Return a tensor of another shape with the values repeated."""
    count = 1
    for size in shape:
        count *= size
    if tensor.numel() == 0:
        return torch.zeros(shape, dtype=tensor.dtype)
    flat = tensor.reshape(-1)
    return flat.repeat(count // flat.numel() + 1)[:count].reshape(shape)


def resized(change: Callable[[int], int]) -> Callable[[torch.Tensor, random.Random], torch.Tensor]:
    """Return a function that changes the size of one dimension."""

    def apply(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
        if tensor.dim() == 0:
            raise CannotChangeError
        shape = list(tensor.shape)
        dim = rng.randrange(len(shape))
        shape[dim] = max(change(shape[dim]), 0)
        return filled(tensor, shape)

    return apply


def with_values(*values: int, whole: bool = False) -> Callable[[torch.Tensor, random.Random], torch.Tensor]:
    """Return a function that sets one element, or all, to one of some integers."""

    def apply(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
        if tensor.numel() == 0 or tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool:
            raise CannotChangeError
        limits = torch.iinfo(tensor.dtype)
        value = min(max(rng.choice(values), limits.min), limits.max)
        changed = tensor.clone().contiguous()
        if whole:
            return changed.fill_(value)
        changed.view(-1)[rng.randrange(changed.numel())] = value
        return changed

    return apply


def with_numbers(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """Set one element of a floating-point tensor, or all, to a special value."""
    if not tensor.is_floating_point() or tensor.numel() == 0:
        raise CannotChangeError
    changed = tensor.clone().contiguous()
    value = rng.choice(FLOATS)
    if rng.random() < 0.5:
        return changed.fill_(value)
    changed.view(-1)[rng.randrange(changed.numel())] = value
    return changed


def reordered(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """Reverse the values of an integer tensor."""
    if tensor.is_floating_point() or tensor.numel() < 2:
        raise CannotChangeError
    return tensor.reshape(-1).flip(0).reshape(tensor.shape)


def expanded(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """Expand one element to the whole tensor, with strides 0."""
    if tensor.dim() == 0 or tensor.numel() == 0:
        raise CannotChangeError
    return tensor.reshape(-1)[:1].as_strided(tensor.shape, [0] * tensor.dim())


TENSORS: dict[str, Callable[[torch.Tensor, random.Random], torch.Tensor]] = {
    "one dimension empty": resized(lambda size: 0),
    "one dimension longer": resized(lambda size: size + 1),
    "one dimension much longer": resized(lambda size: size * 5 + 3),
    "one dimension shorter": resized(lambda size: size - 1),
    "one dimension 1": resized(lambda size: 1),
    "a dimension more": lambda tensor, rng: tensor.unsqueeze(rng.choice([0, -1])),
    "a dimension less": lambda tensor, rng: filled(tensor, list(tensor.shape[1:])) if tensor.dim() else filled(tensor, [1]),
    "no dimension": lambda tensor, rng: filled(tensor, []),
    "flat": lambda tensor, rng: tensor.reshape(-1),
    "one element": lambda tensor, rng: filled(tensor, [1] * tensor.dim()),
    "empty": lambda tensor, rng: filled(tensor, [0]),
    "empty, all dimensions": lambda tensor, rng: filled(tensor, [0] * tensor.dim()),
    "dimensions reversed": lambda tensor, rng: tensor.permute(*range(tensor.dim() - 1, -1, -1)),
    "expanded": expanded,
    "dtype": lambda tensor, rng: tensor.to(rng.choice(DTYPES)),
    "special numbers": with_numbers,
    "an integer -1": with_values(-1),
    "an integer too large": with_values(1000, 100_000),
    "an integer huge": with_values(2**31 - 1, 2**40, 2**62),
    "an integer very low": with_values(-1000, -(2**31), -(2**40), -(2**62), -(2**63)),
    "integers huge": with_values(2**31 - 1, 2**40, whole=True),
    "integers very low": with_values(-(2**31), -(2**40), whole=True),
    "integers small": with_values(0, 1, 2, whole=True),
    "integers reversed": reordered,
}


def change_list(values: Any, rng: random.Random, element: Callable[[Any], Any]) -> list[Any]:
    """Change one element of a list, all of them, or the length."""
    values = list(values)
    kind = rng.choice(["one", "one", "all", "longer", "shorter", "none"])
    if kind == "none" or not values:
        return [] if values else [element(1)]
    if kind == "longer":
        return [*values, rng.choice(values)]
    if kind == "shorter":
        return values[:-1]
    if kind == "all":
        return [element(values[0])] * len(values)
    values[rng.randrange(len(values))] = element(rng.choice(values))
    return values


def change(value: Any, kind: str, rng: random.Random) -> tuple[str, Any]:
    """Change an argument of a schema type. Return the name of the change and the new value."""
    optional = kind.startswith("Optional[") or kind.endswith("?")
    if optional and value is not None and rng.random() < 0.15:
        return "none", None
    if isinstance(value, torch.Tensor):
        name = rng.choice(list(TENSORS))
        return name, TENSORS[name](value, rng)
    if isinstance(value, bool):
        return "other", not value
    if isinstance(value, int):
        chosen = rng.choice(INTEGERS)
        return str(chosen), chosen
    if isinstance(value, float):
        chosen = rng.choice(FLOATS)
        return str(chosen), chosen
    if isinstance(value, str):
        chosen = rng.choice(WORDS)
        return repr(chosen), chosen
    if isinstance(value, list | tuple):
        changed = change_list(value, rng, lambda element: change(element, "", rng)[1])
        return f"{describe(changed)}", changed
    if value is None:
        return make(kind, rng)
    raise CannotChangeError


def make(kind: str, rng: random.Random) -> tuple[str, Any]:
    """Make a value for an optional argument that the call omits. Return its description and the value."""
    if "Tensor" in kind and "List" not in kind:
        shape = [rng.choice([0, 1, 2, 5]) for _ in range(rng.randrange(4))]
        dtype = rng.choice([torch.float32, torch.int64])
        return f"given, {shape} {dtype}", torch.ones(shape, dtype=dtype)
    if "List[int]" in kind or "int[]" in kind:
        chosen = [rng.choice(INTEGERS) for _ in range(rng.randrange(4))]
        return str(chosen), chosen
    if "int" in kind and "List" not in kind:
        chosen = rng.choice(INTEGERS)
        return str(chosen), chosen
    if "float" in kind and "List" not in kind:
        number = rng.choice(FLOATS)
        return str(number), number
    raise CannotChangeError


def describe(value: Any) -> str:
    """Return a description of arguments: tensors by dtype, shape and, for few integers, values."""
    if isinstance(value, torch.Tensor):
        short = str(value.dtype).removeprefix("torch.")
        values = "" if value.is_floating_point() or value.is_complex() or value.numel() > 24 else f" = {value.tolist()}"
        strides = "" if value.is_contiguous() else f" strides {list(value.stride())}"
        return f"{short}{list(value.shape)}{strides}{values}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(describe(element) for element in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}={describe(element)}' for key, element in value.items())}}}"
    return repr(value)


def case(seed: int, name: str, number: int, calls: list[Any], schema: Any) -> tuple[frozenset[str], list[Any], dict[str, Any]]:
    """Return the changes of a case, and its arguments. They are a function of the parameters alone.

    Args:
        seed: Seed of the run.
        name: Name of the operator.
        number: Number of the case.
        calls: Recorded calls of the operator.
        schema: Schema of the operator.

    Raises:
        CannotChangeError: If the drawn changes do not apply.
    """
    rng = random.Random(f"{seed} {name} {number}")
    args, kwargs = rng.choice(calls)
    given = {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)} | kwargs
    kinds = {argument.name: argument for argument in schema.arguments}
    for key, argument in kinds.items():
        if key not in given and argument.has_default_value():
            given[key] = argument.default_value
    changes = set()
    # Invalid dtypes, layouts, memory formats and devices are not generated: PyTorch indexes tables with them unchecked, on every
    # device.
    positions = [key for key in given if not re.search("ScalarType|Layout|MemoryFormat|Device", str(kinds[key].real_type))]
    count = 1 if number % 3 == 0 else rng.choice([2, 2, 3, 4])
    for key in rng.sample(positions, min(len(positions), count)):
        what, given[key] = change(given[key], str(kinds[key].type), rng)
        changes.add(f"{key}: {what}")
    positional = [given[argument.name] for argument in schema.arguments if not argument.kwarg_only and argument.name in given]
    named = {argument.name: given[argument.name] for argument in schema.arguments if argument.kwarg_only and argument.name in given}
    return frozenset(changes), positional, named


# ---- children -------------------------------------------------------------------------------------------------------------------
def operator(name: str) -> Any:
    """Return an operator by its full name."""
    base, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


def on_device(tree: Any, device: str) -> Any:
    """Move the tensors of a tree to a device, and replace device arguments."""
    if device == "cpu":
        return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.clone() if 0 not in tensor.stride() else tensor, tree)
    moved = pytree.tree_map_only(torch.Tensor, lambda tensor: to_device(tensor, device), tree)
    return pytree.tree_map_only(torch.device, lambda _: torch.device(device), moved)


def to_device(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """Move a tensor to a device, keeping strides of 0."""
    if tensor.is_contiguous() or 0 not in tensor.stride():
        return tensor.to(device)
    return tensor.reshape(-1)[:1].to(device).as_strided(tensor.shape, tensor.stride())


def attempt(op: Any, args: Any, kwargs: Any, device: str) -> int:
    """Make a call and return its outcome."""
    try:
        args, kwargs = on_device((args, kwargs), device)
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


def child(
    name: str, calls: list[Any], cases: range, skip: list[frozenset[str]], options: argparse.Namespace, shared: mmap.mmap
) -> None:
    """Run cases in a child process. The number of each is written to shared memory before the call."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPACE, used + SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    warnings.simplefilter("ignore")
    op = operator(name)
    for number in cases:
        try:
            changes, args, kwargs = case(options.seed, name, number, calls, op._schema)
        except Exception:
            shared[8 + number] = 5
            continue
        if any(known <= changes for known in skip):
            shared[8 + number] = 5
            continue
        shared[:8] = number.to_bytes(8, "little")
        shared[8 + number] = attempt(op, args, kwargs, options.device)


def fork(*arguments: Any) -> int:
    """Fork a child process and return its pid."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            child(*arguments)
            code = 0
        finally:
            os._exit(code)
    return pid


def watch(pid: int, shared: mmap.mmap) -> int | None:
    """Wait for a child and return its wait status; None if it made no progress and was killed."""
    descriptor = os.pidfd_open(pid)
    try:
        last, since = b"", time.monotonic()
        while not select.select([descriptor], [], [], 0.25)[0]:
            seen = shared[:8]
            if seen != last:
                last, since = seen, time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return None
    finally:
        os.close(descriptor)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fuzz(name: str, calls: list[Any], options: argparse.Namespace) -> dict[str, Any]:
    """Run all cases of an operator and return the counts of outcomes, crashes and hangs."""
    shared = mmap.mmap(-1, 8 + options.cases)
    found: dict[str, list[Any]] = {"crashes": [], "hangs": []}
    skip: list[frozenset[str]] = []
    start, schema = 0, operator(name)._schema
    while start < options.cases and len(skip) < ENOUGH:
        shared[:8] = start.to_bytes(8, "little")
        code = watch(fork(name, calls, range(start, options.cases), skip, options, shared), shared)
        if code == 0:
            break
        number = int.from_bytes(shared[:8], "little")
        changes, args, kwargs = case(options.seed, name, number, calls, schema)
        end = "hang" if code is None else signal.Signals(-code).name if code < 0 else f"exit {code}"
        alone = code is None or watch(fork(name, calls, range(number, number + 1), [], options, shared), shared) != 0
        line = {
            "case": number,
            "end": end if alone else f"{end} after other calls",
            "changes": sorted(changes),
            "call": f"{describe(args)} {describe(kwargs)}",
        }
        found["hangs" if code is None else "crashes"].append(line)
        skip.append(changes)
        start = number + 1
    counts = Counter(OUTCOMES[outcome] for outcome in shared[8:] if outcome)
    return {"counts": counts, **found, "outcomes": bytes(shared[8:]).hex()}


# ---- all operators --------------------------------------------------------------------------------------------------------------
def chosen(options: argparse.Namespace, known: dict[str, list[Any]]) -> Iterator[str]:
    """Yield the operators of the chosen tiers that have recorded calls."""
    tiers = json.loads(Path(options.tiers).read_text()) if options.tiers else torch.rustdev.coverage()
    for name, tier in tiers.items():
        if tier in options.tier.split(",") and known.get(name) and (not options.only or options.only in name):
            yield name


def main() -> int:
    """Run all cases and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="rustdev", choices=["rustdev", "cpu"])
    parser.add_argument("--tier", default="fallback,aten,rust", help="tiers of the operators, as rustdev.coverage() names them")
    parser.add_argument("--only", help="a part of the operators' names")
    parser.add_argument("--cases", type=int, default=400, help="cases of an operator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--calls", type=Path, default=Path("target/fuzz/calls.pickle"), help="recorded calls; made where missing")
    parser.add_argument("--tiers", help="a JSON file of tiers in place of those of the module")
    parser.add_argument("--output", type=Path, help="a JSON file for everything that was found")
    parser.add_argument("--record", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.record:
        record(options.calls)
        return 0
    if not options.calls.exists():
        # In a separate process: backward starts threads, which do not survive a fork.
        subprocess.run([sys.executable, __file__, "--record", "--calls", str(options.calls)], check=True)
    calls = torch.load(options.calls, weights_only=False)
    gc.freeze()
    report, start = {}, time.monotonic()
    for name in chosen(options, calls):
        if time.monotonic() - start > options.seconds:
            print("fuzz: out of time")
            break
        report[name] = found = fuzz(name, calls[name], options)
        for line in found["crashes"]:
            print(f"{name} {line['end']}: {'; '.join(line['changes'])}\n    {line['call']}", flush=True)
        if options.output:
            options.output.write_text(json.dumps(report, indent=1))
    counts = sum((found["counts"] for found in report.values()), Counter())
    crashes = {name: len(found["crashes"]) for name, found in report.items() if found["crashes"]}
    hangs = sum(len(found["hangs"]) for found in report.values())
    print(f"{len(report)} operators; {dict(counts)}; {hangs} hangs; crashes: {crashes}")
    return int(bool(crashes))


if __name__ == "__main__":
    sys.exit(main())
