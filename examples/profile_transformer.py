"""Profiles a training step of a small transformer: prints a table of kernels, writes a trace for Perfetto, and plots it.

    python examples/profile_transformer.py [--trace FILE.json] [--plot FILE.png]

The trace opens in https://ui.perfetto.dev or chrome://tracing. The training is written as for a GPU: batches are copied from pinned
memory on a separate stream while the previous step computes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import rustdev
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, record_function, schedule

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 256, 64, 128, 4, 2, 16


class Block(nn.Module):
    """Pre-norm transformer block: causal attention and a feed-forward network, [N, T, WIDTH] to [N, T, WIDTH]."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.forward_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.heads, self.joined = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """Apply attention and the feed-forward network, with residual connections."""
        split = [part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.heads(self.attention_norm(x)).chunk(3, dim=-1)]
        attended = functional.scaled_dot_product_attention(split[0], split[1], split[2], is_causal=True)
        x = x + self.joined(attended.transpose(1, 2).flatten(2))
        added: Tensor = x + self.feed_forward(self.forward_norm(x))
        return added


class Transformer(nn.Module):
    """A GPT with half a million parameters: tokens [N, T] to logits [N, T, VOCABULARY]."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.logits = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of the next token at every position."""
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        logits: Tensor = self.logits(self.norm(self.blocks(self.tokens(tokens) + self.positions(steps))))
        return logits


class Batches:
    """Random tokens in pinned memory, copied to the device on a separate stream, one batch ahead."""

    def __init__(self) -> None:
        self.text = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1)).pin_memory()
        self.stream = rustdev.Stream()
        self.fetch()

    def fetch(self) -> None:
        """Start copying the next batch."""
        with rustdev.stream(self.stream), record_function("fetch"):
            self.coming = self.text.to("rustdev", non_blocking=True)

    def next(self) -> Tensor:
        """Return the fetched batch, and start copying the next one."""
        current = rustdev.current_stream()
        current.wait_stream(self.stream)
        batch = self.coming
        batch.record_stream(current)
        self.fetch()
        return batch


def step(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Batches) -> None:
    """Run a training step on one batch."""
    batch = batches.next()
    optimizer.zero_grad()
    with record_function("forward"):
        logits = model(batch[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    with record_function("backward"):
        loss.backward()
    with record_function("optimizer"):
        optimizer.step()


def take() -> Any:
    """Profile two steps after three warm-up steps."""
    torch.manual_seed(0)
    model = Transformer().to("rustdev")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    batches = Batches()
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1],
        schedule=schedule(wait=2, warmup=1, active=2),
        record_shapes=True,
        profile_memory=True,
        acc_events=True,
    ) as profiler:
        for _ in range(5):
            step(model, optimizer, batches)
            rustdev.synchronize()
            profiler.step()
    return profiler


COLOURS = {"fetch": "tab:orange", "forward": "tab:blue", "backward": "tab:purple", "optimizer": "tab:green"}
ON_STREAMS = ("kernel", "gpu_memcpy", "gpu_memset")


def draw(events: list[dict[str, Any]], file: Path) -> None:
    """Plot the first step: the operators of the host, the streams below, and the links between them.

    Args:
        events: Events of the trace.
        file: Picture file to write.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    spans = [event for event in events if event["ph"] == "X" and "cat" in event]
    first = min((span for span in spans if span["name"].startswith("ProfilerStep") and span["cat"] == "user_annotation"), key=begin)
    spans = [span for span in spans if first["ts"] <= span["ts"] < first["ts"] + first["dur"]]
    ranges = [span for span in spans if span["cat"] == "user_annotation" and span["name"] in COLOURS]
    arrows = {event["id"]: [event] for event in events if event.get("cat") == "ac2g" and event["ph"] == "s"}
    for event in events:
        if event.get("cat") == "ac2g" and event["ph"] == "f":
            arrows[event["id"]].append(event)
    submitted = {(end["tid"], end["ts"]): start["ts"] for start, end in arrows.values()}
    figure, axes = plt.subplots(figsize=(13, 3.6), layout="constrained")
    streams = sorted({span["tid"] for span in spans if span["cat"] in ON_STREAMS})
    rows = {"host": 0, **{f"stream {stream}": 1 + place for place, stream in enumerate(streams)}}

    def colour(moment: float) -> str:
        around = [span["name"] for span in ranges if span["ts"] <= moment <= span["ts"] + span["dur"]]
        return COLOURS[around[0]] if around else "silver"

    for span in sorted(spans, key=begin):
        at = (span["ts"] - first["ts"]) / 1e3
        size: Any = {"height": 0.5, "edgecolor": "white", "linewidth": 0.3}
        if span["cat"] == "cpu_op":
            axes.barh(0, span["dur"] / 1e3, left=at, color=colour(span["ts"]), **size)
        elif span["cat"] in ON_STREAMS:
            row, moment = rows[f"stream {span['tid']}"], submitted[span["tid"], span["ts"]]
            axes.barh(row, span["dur"] / 1e3, left=at, color=colour(moment), **size)
            axes.plot([(moment - first["ts"]) / 1e3, at], [0.25, row - 0.25], color=colour(moment), linewidth=0.4, alpha=0.6)
            if span["dur"] > first["dur"] / 25:
                axes.text(
                    at + span["dur"] / 2e3,
                    row,
                    span["name"].strip("_").replace("_", "_\n"),
                    ha="center",
                    va="center",
                    fontsize=6,
                    color="white",
                )
    axes.set_yticks(list(rows.values()), list(rows))
    axes.invert_yaxis()
    axes.set(xlabel="milliseconds", title="one training step: the host submits, the streams follow", xlim=(0, first["dur"] / 1e3))
    axes.legend(
        handles=[Patch(color=value, label=name) for name, value in COLOURS.items()], frameon=False, ncols=4, loc="upper right"
    )
    axes.spines[["top", "right"]].set_visible(False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    print(f"drawn: {file}")


def begin(span: dict[str, Any]) -> float:
    """Return the beginning of a span."""
    return float(span["ts"])


def main() -> None:
    """Read the command line, profile and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, default=Path("demo-output/transformer.json"), metavar="FILE.json")
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    arguments = parser.parse_args()

    profiler = take()
    print(profiler.key_averages().table(sort_by="self_device_time_total", row_limit=15, max_name_column_width=45))
    arguments.trace.parent.mkdir(parents=True, exist_ok=True)
    profiler.export_chrome_trace(str(arguments.trace))
    print(f"written: {arguments.trace}")
    if arguments.plot:
        draw(json.loads(arguments.trace.read_text())["traceEvents"], arguments.plot)


if __name__ == "__main__":
    main()
