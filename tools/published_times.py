"""Published throughputs of training against those of the simulated clock, as a table of docs/simulated-time.md.

    python tools/published_times.py [--only TEXT] [--page docs/simulated-time.md]

Each row is trained by one rank of its group in a dry run, in a process of its own, and the second step is timed. The models have
the shapes of their sources and are written in eager PyTorch, with its fully_shard where the source shards.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pages


@dataclasses.dataclass(frozen=True)
class Row:
    """A published throughput, in tokens per second of one GPU, and how it was measured."""

    name: str
    source: str
    profile: str
    published: float
    kind: str  # "gpt" or "llama"
    width: int
    layers: int
    heads: int
    length: int
    batch: int
    vocabulary: int
    key_heads: int = 0
    hidden: int = 0
    accumulation: int = 1
    recompute: str = ""  # "", "all" or "some": every second product is computed again
    ranks: int = 1
    cluster: str = ""
    autocast: str = ""


FOUNDRY = "llm-foundry, scripts/train/benchmarking/README.md"
TITAN = "torchtitan, docs/performance.md"
A100 = {"profile": "a100-80g", "cluster": "gpus:8,inside:nvlink3,between:ib200"}
H100 = {"profile": "h100-80g", "cluster": "gpus:8,inside:nvlink4,between:ib400"}
MPT: dict[str, Any] = {"source": FOUNDRY, "kind": "gpt", "vocabulary": 50368, "length": 2048, "ranks": 8}
LLAMA2: dict[str, Any] = {"source": TITAN, "kind": "llama", "vocabulary": 32000, "length": 4096, "ranks": 64}
LLAMA3: dict[str, Any] = {
    "kind": "llama", "vocabulary": 128256, "length": 8192, "width": 4096, "layers": 32, "heads": 32, "key_heads": 8,
    "hidden": 14336, "recompute": "some",
}  # fmt: skip
GPT3: dict[str, Any] = {
    "source": "LambdaLabs, flash-attention-2 on H100", "kind": "gpt", "vocabulary": 50304, "length": 2048, "width": 2560,
    "layers": 32, "heads": 32, "batch": 4, "autocast": "float16",
}  # fmt: skip

ROWS = [
    Row("MPT-125M, 8 A100, 32 x 2", width=768, layers=12, heads=12, batch=32, accumulation=2, published=141737, **MPT, **A100),
    Row("MPT-1.3B, 8 A100, 14 x 4", width=2048, layers=24, heads=16, batch=14, accumulation=4, published=20513, **MPT, **A100),
    Row("MPT-7B, 8 A100, 6 x 2", width=4096, layers=32, heads=32, batch=6, accumulation=2, published=4641, **MPT, **A100),
    Row("MPT-7B, 8 H100, 6 x 1", width=4096, layers=32, heads=32, batch=6, published=10643, **MPT, **H100),
    Row(
        "MPT-30B, 8 A100, 3 x 21, all recomputed",
        width=7168, layers=48, heads=56, batch=3, accumulation=21, recompute="all", published=916, **MPT, **A100,
    ),
    Row("Llama-3 8B, 64 A100, batch 1, some recomputed", batch=1, published=2973, ranks=64, source=TITAN, **LLAMA3, **A100),
    Row("Llama-2 13B, 64 A100, batch 2", width=5120, layers=40, heads=40, hidden=13824, batch=2, published=2162, **LLAMA2, **A100),
    Row(
        "Llama-3.1 8B, 8 H100, batch 2, some recomputed",
        batch=2, published=5762, ranks=8, source="torchtitan, benchmarks/llama3_h100_202412", **LLAMA3, **H100,
    ),
    Row("GPT3-2.7B, 1 A100, batch 4", published=10650, **GPT3, **A100),
    Row("GPT3-2.7B, 1 H100, batch 4", published=22282, **GPT3, **H100),
]  # fmt: skip


def train(row: Row) -> dict[str, float]:
    """Train two steps in this process, which is a dry run with a clock, and return figures of the second."""
    import torch
    import torch.distributed
    from torch import Tensor, nn
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.nn import functional
    from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

    is_llama = row.kind == "llama"
    size = row.width // row.heads
    key_heads = row.key_heads or row.heads
    bias = not is_llama

    def norm() -> nn.Module:
        return nn.RMSNorm(row.width) if is_llama else nn.LayerNorm(row.width)

    def rotate(x: Tensor, turns: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * turns).flatten(-2).type_as(x)

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(norm() for _ in range(2))
            self.output = nn.Linear(row.width, row.width, bias=bias)
            if is_llama:
                self.query = nn.Linear(row.width, row.width, bias=False)
                self.key, self.value = (nn.Linear(row.width, key_heads * size, bias=False) for _ in range(2))
                self.gate, self.up = (nn.Linear(row.width, row.hidden, bias=False) for _ in range(2))
                self.down = nn.Linear(row.hidden, row.width, bias=False)
            else:
                self.heads = nn.Linear(row.width, 3 * row.width)
                self.up, self.down = nn.Linear(row.width, 4 * row.width), nn.Linear(4 * row.width, row.width)

        def attend(self, x: Tensor, turns: Tensor | None) -> Tensor:
            if turns is None:
                query, key, value = (part.unflatten(-1, (row.heads, size)) for part in self.heads(x).chunk(3, dim=-1))
            else:
                query, key, value = (
                    project(x).unflatten(-1, (heads, size))
                    for project, heads in ((self.query, row.heads), (self.key, key_heads), (self.value, key_heads))
                )
                query, key = rotate(query, turns), rotate(key, turns)
                if key_heads != row.heads:
                    repeats = row.heads // key_heads
                    key, value = (x[:, :, :, None].expand(-1, -1, -1, repeats, -1).flatten(2, 3) for x in (key, value))
            attended = functional.scaled_dot_product_attention(
                query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), is_causal=True
            )
            return self.output(attended.transpose(1, 2).flatten(2))

        def forward(self, x: Tensor, turns: Tensor | None) -> Tensor:
            x = x + self.attend(self.norms[0](x), turns)
            hidden = self.norms[1](x)
            if is_llama:
                return x + self.down(functional.silu(self.gate(hidden)) * self.up(hidden))
            return x + self.down(functional.gelu(self.up(hidden)))

    aten = torch.ops.aten

    def some() -> Any:
        """Save every second product and all attentions, as torchtitan's selective recomputation of operators does."""
        counts: dict[bool, int] = {}

        def policy(context: Any, operator: Any, *_: Any, **__: Any) -> CheckpointPolicy:
            if operator is aten.mm.default:
                counts[context.is_recompute] = counts.get(context.is_recompute, 0) + 1
                is_saved = counts[context.is_recompute] % 2 == 1
            else:
                is_saved = "flash_attention" in str(operator)
            return CheckpointPolicy.MUST_SAVE if is_saved else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(row.vocabulary, row.width)
            self.layers = nn.ModuleList(Layer() for _ in range(row.layers))
            self.norm = norm()
            if is_llama:
                self.output = nn.Linear(row.width, row.vocabulary, bias=False)
            else:
                self.positions = nn.Embedding(row.length, row.width)

        def forward(self, tokens: Tensor, turns: Tensor | None) -> Tensor:
            x = self.embedding(tokens)
            if turns is None:
                x = x + self.positions(torch.arange(row.length, device=x.device))
            options = {"context_fn": some} if row.recompute == "some" else {}
            for layer in self.layers:
                x = checkpoint(layer, x, turns, use_reentrant=False, **options) if row.recompute else layer(x, turns)
            x = self.norm(x)
            logits = self.output(x) if is_llama else functional.linear(x, self.embedding.weight)
            return logits.float() if is_llama else logits

    with torch.device("rustdev"):
        model: nn.Module = Model()
        tokens = torch.randint(row.vocabulary, (row.batch, row.length + 1))
        turns = torch.empty(row.length, 1, size // 2, dtype=torch.complex64) if is_llama else None
    if row.ranks > 1:
        torch.distributed.init_process_group("rdccl-dry", store=torch.distributed.HashStore(), rank=0, world_size=row.ranks)
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32 if is_llama else torch.bfloat16)
        mesh = torch.distributed.init_device_mesh("rustdev", (row.ranks,))
        for layer in model.layers:  # type: ignore[union-attr]
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def now() -> dict[str, float]:
        torch.rustdev.synchronize()
        time = torch.rustdev.simulated_time()
        assert time is not None
        kernels, links = (time.devices[0].kernels, time.devices[0].links) if time.devices else (0.0, 0.0)
        return {"seconds": time.seconds, "kernels": kernels, "links": links}

    for _ in range(2):
        begin = now()
        for _ in range(row.accumulation):
            with torch.autocast("rustdev", getattr(torch, row.autocast or "bfloat16"), enabled=bool(row.autocast)):
                logits = model(tokens[:, :-1], turns)
                loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            del logits, loss
        optimizer.step()
        optimizer.zero_grad()
        end = now()
    return {name: end[name] - begin[name] for name in end}


def simulate(row: Row) -> dict[str, float]:
    """Train a row in a process of its own."""
    variables = {
        "RUSTDEV_PROFILE": row.profile, "RUSTDEV_CLOCK": "profile", "RUSTDEV_COMPUTE": "none", "RUSTDEV_CLUSTER": row.cluster,
        "RUSTDEV_MEMORY_LIMIT": "1T", "RUSTDEV_DEVICE_COUNT": "1",
    }  # fmt: skip
    command = [sys.executable, __file__, "--row", str(ROWS.index(row))]
    result = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SystemExit(f"{row.name}: {result.stderr}")
    figures: dict[str, float] = json.loads(result.stdout)
    return figures


def line(row: Row, figures: dict[str, float]) -> str:
    """Return the line of a row in the table."""
    simulated = row.batch * row.accumulation * row.length / figures["seconds"]
    busy, links = (figures[part] / figures["seconds"] for part in ("kernels", "links"))
    cells = (row.name, row.source, f"{row.published:,.0f}", f"{simulated:,.0f}", f"{simulated / row.published:.2f}", f"{busy:.0%}")
    return pages.row((*cells, f"{links:.0%}"))


def main() -> None:
    """Print the table, and write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    parser.add_argument("--page", type=Path, help="the page to write the table into")
    parser.add_argument("--row", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row is not None:
        print(json.dumps(train(ROWS[options.row])))
        return
    lines = pages.table("training | source | published | simulated | ratio | kernels | links", [])
    print("\n".join(lines), flush=True)
    for row in ROWS:
        if options.only in row.name:
            lines.append(line(row, simulate(row)))
            print(lines[-1], flush=True)
    if options.page:
        options.page.write_text(pages.fill(options.page, lines))


if __name__ == "__main__":
    main()
