"""Two training steps of a model of Llama's shape with 7 billion parameters, in bfloat16 with AdamW, on random tokens.

    python -m rustdev.preflight --profile a100-80g examples/llama_training.py [--batch N] [--length N] [--layers N]
        [--dtype float32] [--checkpoint] [--shard RANKS] [--optimizer adamw8bit]

It is meant for a dry run, which computes nothing: the states take 50 GB. `--shard 8` is rank 0 of 8 ranks, which need not exist.
"""

import argparse

import torch
from adamw_8bit import AdamW8Bit
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WIDTH, HEADS, HIDDEN, VOCABULARY = 4096, 32, 11008, 32000


class Layer(nn.Module):
    """Attention and a gated network, each behind a norm and with a residual connection: [N, T, WIDTH] to the same."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(2))
        self.heads, self.output = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output."""
        query, key, value = self.heads(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).transpose(1, 3).unbind(2)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(attended.transpose(1, 2).flatten(2))
        hidden = self.norms[1](x)
        added: Tensor = x + self.down(functional.silu(self.gate(hidden)) * self.up(hidden))
        return added


class Model(nn.Module):
    """Tokens [N, T] to logits [N, T, VOCABULARY].

    Args:
        layers: Number of layers.
        recomputes: Whether the layers are computed again in the backward.
    """

    def __init__(self, layers: int, *, recomputes: bool) -> None:
        super().__init__()
        self.recomputes = recomputes
        self.embedding, self.norm = nn.Embedding(VOCABULARY, WIDTH), nn.RMSNorm(WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.output = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recomputes else layer(x)
        logits: Tensor = self.output(self.norm(x))
        return logits


def shard(model: Model, ranks: int, device: str) -> None:
    """Shard the layers and the rest of a model by FSDP2, as rank 0 of a process group that moves nothing."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    mesh = init_device_mesh(device, (ranks,))
    for part in (*model.layers, model):
        fully_shard(part, mesh=mesh)


def make(options: argparse.Namespace) -> tuple[Model, torch.optim.Optimizer]:
    """Return the model, made on the device, and its optimizer."""
    with torch.device("meta" if options.shard > 1 else options.device):
        model = Model(options.layers, recomputes=options.checkpoint)
    if options.shard > 1:
        shard(model, options.shard, options.device)
        model.to_empty(device=options.device)
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.02)
    if options.optimizer == "adamw8bit":
        return model, AdamW8Bit(model.parameters(), lr=1e-4)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1, help="sequences of a step, on each rank")
    parser.add_argument("--length", type=int, default=2048, help="tokens of a sequence")
    parser.add_argument("--layers", type=int, default=32, help="layers; 32 make 7 billion parameters")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16", help="dtype of all tensors")
    parser.add_argument("--checkpoint", action="store_true", help="recompute the layers in the backward")
    parser.add_argument(
        "--shard", type=int, default=1, metavar="RANKS", help="FSDP2 over this number of ranks; the process is rank 0"
    )
    parser.add_argument("--optimizer", choices=("adamw", "adamw8bit"), default="adamw", help="adamw8bit has states of 8 bits")
    parser.add_argument("--device", default="rustdev")
    options = parser.parse_args()
    torch.set_default_dtype(getattr(torch, options.dtype))
    model, optimizer = make(options)
    tokens = torch.randint(VOCABULARY, (options.batch, options.length + 1), device=options.device)
    for _ in range(2):
        logits = model(tokens[:, :-1])
        functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
