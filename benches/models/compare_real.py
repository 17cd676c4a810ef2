"""Compare real models with PyTorch's CPU device and with what compiles models for CPUs; write tables and a page.

    python benches/models/compare_real.py [--only TEXT] [--kinds KIND ...] [--dtypes DTYPE ...] [--threads N ...] [--quick]
                                          [--no-compiled] [--output FOLDER] [--page FILE.md]

The models are those of real_models.py. Both devices run in one process, in alternating blocks, with the same number of threads; a
figure is the minimum of the blocks. Their results are compared. The fallback is forbidden, but for models in ``FALLBACKS``. The
kind `infer` is a pass without gradients, `train` a step of AdamW, `decode` the generation of tokens one by one. bfloat16 means
weights of this dtype; in training it means autocast. Inference in float32 is also measured with torch.compile and OpenVINO, each in
a process of its own (alone.py).
"""

import argparse
import copy
import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import rustdev
import torch
from alone import ENVIRONMENTS
from measuring import LONGEST, STEPS, Contender, alternate, host_peak, peak
from models_report import memory
from real_models import ADDED, FALLBACKS, PROMPT, TASKS, WRITERS, make_task, make_writer
from real_report import COMPILERS, KINDS, TOLERANCES, Row, page, record, summary
from torch import Tensor, nn

PROGRAM = Path(__file__).with_name("alone.py")


class Writer:
    """A copy of a model on a device that continues a prompt.

    Args:
        model: Model of transformers to copy.
        prompt: Tokens to continue, [1, length].
        device: Device of the copy.
    """

    def __init__(self, model: nn.Module, prompt: Tensor, device: str) -> None:
        self.model, self.prompt = copy.deepcopy(model).to(device), prompt.to(device)

    def write(self) -> Tensor:
        """Return the prompt and the tokens that follow it, each of which is the likeliest."""
        tokens: Tensor = self.model.generate(  # type: ignore[operator]
            self.prompt, attention_mask=torch.ones_like(self.prompt), max_new_tokens=ADDED, do_sample=False, pad_token_id=0
        )
        return tokens

    def scores(self, tokens: Tensor) -> Tensor:
        """Return the logits from which each of the added tokens is chosen, when the tokens before it are given ones."""
        tokens = tokens.to(self.prompt.device)
        parts = [tokens[:, :PROMPT], *tokens[:, PROMPT:-1].split(1, dim=1)]
        cache, scores = None, []
        with torch.no_grad():
            for part in parts:
                output = self.model(part, cache=cache, use_cache=True)
                cache = output.cache
                scores.append(output.logits[:, -1])
        return torch.stack(scores)


def compare(result: Tensor, wanted: Tensor, tolerance: float) -> None:
    """Hold a result against that of the CPU device.

    Raises:
        AssertionError: If a difference is above the tolerance, as a part of the greatest value.
    """
    wanted = wanted.float()
    torch.testing.assert_close(result.cpu().float(), wanted, rtol=0, atol=tolerance * float(wanted.abs().max()))


def check_steps(host: Contender, mine: Contender, dtype: str) -> None:
    """Train both for some steps and compare losses, and the gradients of the first step.

    The first step of AdamW changes each weight by about the learning rate, with the sign of its gradient. The losses after it
    therefore also differ between two runs of the CPU device with other numbers of threads: their tolerance is wider.

    Raises:
        AssertionError: If losses or gradients differ.
    """
    first = host.train()
    compare(mine.train(), first, TOLERANCES["train"][dtype])
    wanted = nn.utils.parameters_to_vector([parameter.grad for parameter in host.model.parameters() if parameter.grad is not None])
    found = nn.utils.parameters_to_vector([parameter.grad for parameter in mine.model.parameters() if parameter.grad is not None])
    difference = float((found.cpu() - wanted).norm() / wanted.norm())
    if not difference < TOLERANCES["gradients"][dtype]:
        raise AssertionError(f"gradients differ by {difference:.1e} of their norm")
    for _ in range(STEPS - 1):
        torch.testing.assert_close(mine.train().cpu(), host.train(), rtol=0, atol=TOLERANCES["later losses"][dtype] * float(first))


def alone(name: str, contender: str, wanted: Tensor, *, quick: bool) -> float:
    """Return the milliseconds of a pass by a contender in a process of its own.

    Raises:
        RuntimeError: If the process fails.
        AssertionError: If its result differs from the CPU device's.
    """
    threads = torch.get_num_threads()
    given = {"OMP_NUM_THREADS": str(threads), "RUSTDEV_NUM_THREADS": str(threads)}
    given["RUSTDEV_FALLBACK"] = "allow" if name in FALLBACKS else "error"
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.pt"
        command = [sys.executable, str(PROGRAM), name, contender, str(result), "--threads", str(threads)]
        done = subprocess.run(
            command + ["--quick"] * quick,
            env=os.environ | given | ENVIRONMENTS[contender], capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError((done.stderr.strip() or f"status {done.returncode}").splitlines()[-1])
        compare(torch.load(result), wanted, TOLERANCES["infer"]["float32"])
    return float(done.stdout.splitlines()[-1])


def attempt(name: str, contender: str, wanted: Tensor, *, quick: bool) -> tuple[float | None, str]:
    """Return the milliseconds of a contender in a process of its own, or None and the reason why it has none."""
    try:
        return alone(name, contender, wanted, quick=quick), ""
    except (RuntimeError, AssertionError) as error:
        return None, f"{COMPILERS[contender]}: {' '.join(str(error).split())}"


def measure_task(name: str, kind: str, dtype: torch.dtype, options: argparse.Namespace) -> Row:
    """Measure a model in training or inference."""
    is_training = kind == "train"
    # Autocast in training, weights of the dtype in inference.
    weights, cast = (torch.float32, dtype) if is_training else (dtype, torch.float32)
    task = make_task(name, weights, training=is_training)
    host, mine = Contender(task, "cpu", cast), Contender(task, "rustdev", cast)
    short = str(dtype).removeprefix("torch.")
    if is_training:
        check_steps(host, mine, short)
    else:
        wanted = host.infer()
        compare(mine.infer(), wanted, TOLERANCES[kind][short])
    calls = [host.train, mine.train] if is_training else [host.infer, mine.infer]
    most = peak(calls[1])
    cpu, device = alternate(calls, quick=options.quick)
    is_cheap = not options.quick and cpu < LONGEST * 1e3
    most_on_host = host_peak(task, cast, kind) if is_cheap else None
    row = Row(torch.get_num_threads(), name, short, kind, cpu, device, host_peak=most_on_host, peak=most)
    if not is_training and dtype is torch.float32 and not options.no_compiled:
        del task, host, mine, calls
        gc.collect()
        found = {contender: attempt(name, contender, wanted, quick=options.quick) for contender in COMPILERS}
        row = row._replace(
            compiled={contender: spent for contender, (spent, _) in found.items() if spent is not None},
            failures="; ".join(failure for _, failure in found.values() if failure),
        )
    return row


def measure_writer(name: str, dtype: torch.dtype, options: argparse.Namespace) -> Row:
    """Measure a model that writes tokens: milliseconds of a token."""
    model, prompt = make_writer(name, dtype)
    host, mine = Writer(model, prompt, "cpu"), Writer(model, prompt, "rustdev")
    short = str(dtype).removeprefix("torch.")
    tokens = host.write()
    compare(mine.scores(tokens), host.scores(tokens), TOLERANCES["decode"][short])
    if dtype is torch.float32 and not torch.equal(mine.write().cpu(), tokens):
        raise AssertionError(f"{name}: other tokens than on the CPU device")
    most = peak(mine.write)
    cpu, device = (spent / ADDED for spent in alternate([host.write, mine.write], quick=options.quick))
    return Row(torch.get_num_threads(), name, short, "decode", cpu, device, peak=most)


def measure(name: str, kind: str, dtype: torch.dtype, options: argparse.Namespace) -> Row:
    """Measure a model."""
    rustdev.set_fallback_mode("allow" if name in FALLBACKS else "error")
    row = measure_writer(name, dtype, options) if kind == "decode" else measure_task(name, kind, dtype, options)
    gc.collect()
    return row


def show(row: Row) -> None:
    """Print a row."""
    times = f"{row.cpu:10.3f} ms{row.device:10.3f} ms{row.factor:7.2f}{memory(row.host_peak):>9}{memory(row.peak):>9} MiB"
    print(f"{row.threads} {row.model:34}{row.dtype:9}{row.kind:7}{times}", flush=True)
    if row.over_ours is not None:
        spent = "; ".join(f"{COMPILERS[contender]} {spent:.3f}" for contender, spent in row.compiled.items())
        print(f"  {spent} ms; best of the others over our best {row.over_ours:.2f}", flush=True)
    if row.failures:
        print(f"  failed: {row.failures}", flush=True)


def chosen(options: argparse.Namespace) -> list[tuple[str, str, torch.dtype]]:
    """Return the names, kinds and dtypes that the options choose."""
    models = {"infer": list(TASKS), "train": list(TASKS), "decode": list(WRITERS)}
    dtypes = [getattr(torch, dtype) for dtype in options.dtypes]
    return [(name, kind, dtype) for dtype in dtypes for kind in options.kinds for name in models[kind] if options.only in name]


def main(arguments: list[str]) -> None:
    """Measure, print the results as they come, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose name has this text")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="what is measured; default: all")
    parser.add_argument("--dtypes", nargs="+", choices=TOLERANCES["infer"], default=["float32", "bfloat16"], help="default: both")
    parser.add_argument("--threads", type=int, nargs="+", help="how many threads every contender has, one after the other")
    parser.add_argument("--quick", action="store_true", help="a short run, whose figures mean little")
    parser.add_argument("--no-compiled", action="store_true", help="without torch.compile and OpenVINO")
    parser.add_argument("--output", type=Path, help="the folder that the tables go to; without, none is written")
    parser.add_argument("--page", type=Path, metavar="FILE.md", help="the page")
    options = parser.parse_args(arguments)
    if not chosen(options):
        parser.error(f"no model of these kinds has {options.only!r} in its name")
    rows: list[Row] = []
    for threads in options.threads or [torch.get_num_threads()]:
        torch.set_num_threads(threads)
        rustdev.set_num_threads(threads)
        for name, kind, dtype in chosen(options):
            rows.append(measure(name, kind, dtype, options))
            show(rows[-1])
            if options.output:  # after each row: an interrupted run keeps its rows
                record(options.output, rows)
    print(*summary(rows), sep="\n")
    if options.output:
        print(*record(options.output, rows), sep="\n")
    if options.page:
        options.page.write_text(page(rows, quick=options.quick))
        print(options.page)


if __name__ == "__main__":
    main(sys.argv[1:])
