"""Train each model of the zoo one step on both devices, and compare results and gradients.

    python -m zoo [--compile] [NAME ...]

Both have the same random weights. The table has, for each model, the ratio of the CPU's time of a step to the device's (the minimum
of three, in alternation; the sizes are far too small to measure speed, but a model that is much slower than on the CPU is worth
investigating), the operators that fell back, and the differences. The exit status is 1 if a model differs or fails.
"""

import argparse
import copy
import itertools
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import rustdev
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from . import torchvision_models, transformers_models

#: Tolerance relative to the greatest number of a result, or of all gradients: sums in another order accumulate over many layers.
TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-7}


def floating(outputs: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield the names and floating-point tensors of a model's output."""
    if isinstance(outputs, torch.Tensor):
        if outputs.is_floating_point():
            yield name, outputs
    elif hasattr(outputs, "items"):
        for key, value in outputs.items():
            yield from floating(value, f"{name}.{key}")
    elif isinstance(outputs, (list, tuple)):
        for index, value in enumerate(outputs):
            yield from floating(value, f"{name}[{index}]")


@dataclass
class Program:
    """A model on a device, with its inputs."""

    model: nn.Module
    inputs: Any
    function: Callable[..., Any]

    def to(self, dtype: torch.dtype) -> None:
        """Convert the model and its inputs to a dtype."""
        self.model.to(dtype)
        self.inputs = pytree.tree_map(
            lambda leaf: leaf.to(dtype) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf, self.inputs
        )

    def step(self) -> dict[str, Tensor]:
        """Run forward and backward, and return the results."""
        torch.manual_seed(1)
        self.model.zero_grad()
        answer = self.function(**self.inputs) if isinstance(self.inputs, dict) else self.function(*self.inputs)
        results = dict(floating(answer))
        losses = [result.float().pow(2).mean() for result in results.values() if result.requires_grad]
        torch.stack(losses).sum().backward()
        return {name: result.detach() for name, result in results.items()}

    def gradients(self) -> dict[str, Tensor]:
        """Return the gradients of the last step, by parameter name."""
        return {name: weight.grad for name, weight in self.model.named_parameters() if weight.grad is not None}


def differences(mine: dict[str, Tensor], theirs: dict[str, Tensor], dtype: torch.dtype, scale: float | None) -> Iterator[str]:
    """Yield differences above the dtype's tolerance times the scale (None: the greatest number of the tensor)."""
    if mine.keys() != theirs.keys():
        yield f"other tensors: {sorted(mine.keys() ^ theirs.keys())}"
    for name in theirs.keys() & mine.keys():
        wanted, found = theirs[name], mine[name].cpu()
        if wanted.shape != found.shape:
            yield f"{name} is {list(found.shape)} for {list(wanted.shape)}"
        elif wanted.numel() and not torch.equal(wanted, found):
            own = float(wanted.abs().max()) if scale is None else scale
            by = float((wanted - found).abs().max())
            if not by <= TOLERANCE[dtype] * max(own, 1e-6):
                yield f"{name} by {by:.1e} of {own:.1e}"


def compare(make: Callable[[], tuple[nn.Module, Any]], dtype: torch.dtype, compiles: bool) -> tuple[float, list[str], list[str]]:
    """Run a model on both devices: in the given dtype to compare values, in float32 to measure times.

    Returns:
        The ratio of the CPU's time to the device's, the operators that fell back, and the differences.
    """
    torch.manual_seed(0)
    model, inputs = make()
    host = Program(model, inputs, model)
    host.to(dtype)
    moved = copy.deepcopy(model).to("rustdev")
    to_device = pytree.tree_map(lambda leaf: leaf.to("rustdev") if isinstance(leaf, torch.Tensor) else leaf, host.inputs)
    device = Program(moved, to_device, torch.compile(moved) if compiles else moved)
    before = {name: stat.calls for name, stat in rustdev.fallback_stats().items()}
    theirs, mine = host.step(), device.step()
    fallbacks = [name for name, stat in rustdev.fallback_stats().items() if stat.calls > before.get(name, 0)]
    gradients = host.gradients()
    greatest = max(float(gradient.abs().max()) for gradient in gradients.values())
    found = [*differences(mine, theirs, dtype, None), *differences(device.gradients(), gradients, dtype, greatest)]
    for program in (host, device):
        program.to(torch.float32)
    times: list[list[float]] = [[], []]
    for _ in range(3):
        for program, own in zip((host, device), times, strict=True):
            start = time.perf_counter()
            program.step()
            torch.accelerator.synchronize()
            own.append(time.perf_counter() - start)
    return min(times[0]) / min(times[1]), fallbacks, found


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="zoo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models (default: all)")
    parser.add_argument("--compile", action="store_true", help="compile the device's")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    failed, count = 0, 0
    print("| model | ratio | fell back | differences |\n|---|---:|---|---|")
    # torchvision in float64: in training, batch norm of two small images amplifies rounding errors. transformers in float32: some
    # models support only float32.
    zoo = [(torch.float32, transformers_models.models()), (torch.float64, torchvision_models.models())]
    for dtype, (name, make) in itertools.chain.from_iterable(((dtype, model) for model in models) for dtype, models in zoo):
        if options.names and name not in options.names:
            continue
        count += 1
        torch._dynamo.reset()
        try:
            ratio, fallbacks, found = compare(make, dtype, options.compile)
        except Exception as error:
            ratio, fallbacks, found = 0.0, [], [f"{type(error).__name__}: {str(error).partition(chr(10))[0][:150]}"]
        failed += bool(found)
        print(f"| {name} | {ratio:.2f} | {', '.join(fallbacks)} | {'; '.join(found[:3])} |", flush=True)
    print(f"\n{count} models, {failed} of them differ or fail")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
