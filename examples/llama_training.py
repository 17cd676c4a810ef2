"""Two training steps of a model of Llama's shape with 7 billion parameters, in bfloat16 with AdamW, on random tokens.

    python -m rustdev.preflight --profile a100-80g examples/llama_training.py [--batch N] [--length N] [--layers N] [--checkpoint]

It is meant for a dry run, which computes nothing: the states take 50 GB. `--checkpoint` recomputes the layers in the backward.
"""

import argparse

import torch
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


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1, help="sequences of a step")
    parser.add_argument("--length", type=int, default=2048, help="tokens of a sequence")
    parser.add_argument("--layers", type=int, default=32, help="layers; 32 make 7 billion parameters")
    parser.add_argument("--checkpoint", action="store_true", help="recompute the layers in the backward")
    parser.add_argument("--device", default="rustdev")
    options = parser.parse_args()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(options.device):
        model = Model(options.layers, recomputes=options.checkpoint)
        tokens = torch.randint(VOCABULARY, (options.batch, options.length + 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for _ in range(2):
        logits = model(tokens[:, :-1])
        functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
