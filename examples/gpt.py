"""Trains a character-level transformer with the architecture of GPT-2 on text, then generates text.

    python examples/gpt.py [--device rustdev|cpu] [--steps N] [--amp] [--text FILE] [--start TEXT] [--characters N] [--quiet]

Without a file the text is that of Python's help() topics, 460,000 characters. A tenth of the text is the test set. The default
takes less than a minute on two cores. Only the memory report is specific to rustdev.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from pydoc_data.topics import topics as python_topics
from typing import Any

import torch
import training_loop
from torch import Tensor, nn
from torch.nn import functional

SEED = 7
BATCH, CONTEXT, WIDTH, HEADS, LAYERS = 16, 96, 128, 4, 3
RATE, WARMUP, CLIP = 4e-3, 20, 1.0


def topics() -> str:
    """Return the text of Python's help() topics."""
    return "\n\n".join(python_topics[name] for name in sorted(python_topics))


class Text:
    """A text as character indices on the CPU; the last tenth is the test set.

    Args:
        text: Text of at least 20 characters.
    """

    def __init__(self, text: str) -> None:
        self.characters = sorted(set(text))
        self._positions = {character: place for place, character in enumerate(self.characters)}
        self.training, self.testing = self.numbers(text).tensor_split([len(text) * 9 // 10])

    def numbers(self, text: str) -> Tensor:
        """Return the indices [T] of characters; characters that are not in the vocabulary are left out."""
        return torch.tensor([self._positions[character] for character in text if character in self._positions])

    def string(self, numbers: Tensor) -> str:
        """Return the characters of indices [T]."""
        return "".join(self.characters[number] for number in numbers.tolist())

    def batch(self, generator: torch.Generator, count: int, length: int, testing: bool = False) -> tuple[Tensor, Tensor]:
        """Return random excerpts of the text [count, length], and the same excerpts shifted by one character as targets."""
        numbers = self.testing if testing else self.training
        starts = torch.randint(len(numbers) - length, (count, 1), generator=generator)
        parts = numbers[starts + torch.arange(length + 1)]
        return parts[:, :-1], parts[:, 1:]


class Block(nn.Module):
    """Pre-norm transformer block: attention and a feed-forward network, [N, T, width] to [N, T, width].

    Args:
        width: Embedding size.
        heads: Number of attention heads.
        is_causal: Whether attention is causal.
    """

    def __init__(self, width: int, heads: int, is_causal: bool = True) -> None:
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.attention_norm, self.forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Apply attention and the feed-forward network, with residual connections."""
        parts = self.project(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=self.is_causal)
        x = x + self.join(attended.transpose(1, 2).flatten(2))
        added: Tensor = x + self.feed_forward(self.forward_norm(x))
        return added


class GPT(nn.Module):
    """Character indices [N, T] to logits of the next character at each position [N, T, characters].

    Args:
        characters: Size of the vocabulary.
        context: Maximum T.
        width: Embedding size.
        heads: Number of attention heads.
        layers: Number of blocks.
    """

    def __init__(self, characters: int, context: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.context = context
        self.characters, self.positions = nn.Embedding(characters, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, characters))

    def forward(self, characters: Tensor) -> Tensor:
        """Return the logits of the next characters."""
        positions = torch.arange(characters.shape[1], device=characters.device)
        scores: Tensor = self.head(self.blocks(self.characters(characters) + self.positions(positions)))
        return scores

    @torch.no_grad()
    def write(self, start: Tensor, count: int, temperature: float = 0.8) -> Tensor:
        """Generate characters after a start [T], and return both: [T + count].

        Args:
            start: Indices of at least one character.
            count: Number of characters to sample.
            temperature: Sampling temperature. Below 1, likely characters become more likely.
        """
        written = start[None]
        for _ in range(count):
            scores = self(written[:, -self.context :])[:, -1]
            written = torch.cat((written, torch.multinomial((scores.float() / temperature).softmax(dim=-1), 1)), dim=1)
        return written[0]


def loss(scores: Tensor, wanted: Tensor) -> Tensor:
    """Return the mean cross entropy of logits [N, T, characters] and character indices [N, T]."""
    return functional.cross_entropy(scores.flatten(0, 1), wanted.flatten())


def train(text: Text, device: str, steps: int, amp: bool, progress: bool = True) -> tuple[GPT, list[float]]:
    """Train a new network and return it with the loss of each step.

    Args:
        text: Training text.
        device: Name of the device.
        steps: Number of steps.
        amp: Whether to use autocast to bfloat16.
        progress: Whether to show a progress bar.
    """
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    network = GPT(len(text.characters), CONTEXT, WIDTH, HEADS, LAYERS).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.1)

    def rate(step: int) -> float:
        return min(1, (step + 1) / WARMUP) * (0.55 + 0.45 * math.cos(math.pi * step / max(steps, 1)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    losses: list[Tensor] = []
    bar: Any = training_loop.progress_bar(device, steps) if progress else range(steps)
    for step in bar:
        given, wanted = (tensor.to(device) for tensor in text.batch(generator, BATCH, CONTEXT))
        optimizer.zero_grad()
        with training_loop.autocast(device, amp):
            found = loss(network(given), wanted)
        found.backward()
        nn.utils.clip_grad_norm_(network.parameters(), CLIP)
        optimizer.step()
        scheduler.step()
        losses.append(found.detach())
        if progress and step % training_loop.SHOWN == training_loop.SHOWN - 1:
            bar.set_postfix(loss=f"{losses[-1].item():.3f}")
    return network, torch.stack(losses).tolist() if losses else []


@torch.no_grad()
def evaluate(network: GPT, text: Text, amp: bool, batches: int = 8) -> float:
    """Return the mean loss on batches of the test set."""
    device = next(network.parameters()).device
    generator = torch.Generator().manual_seed(SEED)
    found = []
    for _ in range(batches):
        given, wanted = (tensor.to(device) for tensor in text.batch(generator, BATCH, CONTEXT, testing=True))
        with training_loop.autocast(device.type, amp):
            found.append(loss(network(given), wanted))
    return torch.stack(found).mean().item()


def main() -> None:
    """Read the command line, train, report and generate text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="rustdev", help="rustdev, cpu, or another one that torch knows")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--amp", action="store_true", help="bfloat16 autocast")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.add_argument("--text", type=Path, metavar="FILE", help="read this, in UTF-8")
    parser.add_argument("--start", default="The ", help="how the sample begins")
    parser.add_argument("--characters", type=int, default=400, help="how many more it has")
    arguments = parser.parse_args()

    text = Text(arguments.text.read_text(encoding="utf-8") if arguments.text else topics())
    if len(text.testing) <= CONTEXT:
        parser.error(f"{arguments.text} is too short: it takes more than {10 * CONTEXT} characters")
    if not len(text.numbers(arguments.start)):
        parser.error("the text has no character of --start")
    started = time.perf_counter()
    network, losses = train(text, arguments.device, arguments.steps, arguments.amp, not arguments.quiet)
    seconds = time.perf_counter() - started
    parameters = sum(parameter.numel() for parameter in network.parameters())
    print(f"{parameters:,} parameters, {len(text.characters)} different characters, {len(text.training):,} to learn from")
    if losses:
        print(f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} at last, in {seconds:.1f} s")
    print(f"loss {evaluate(network, text, arguments.amp):.3f} on the rest of the text (nats a character)")
    if torch.device(arguments.device).type == "rustdev":
        import rustdev

        print(f"peak memory {rustdev.max_memory_allocated(arguments.device) / 2**20:.1f} MiB")
    print()
    print(text.string(network.write(text.numbers(arguments.start).to(arguments.device), arguments.characters)))


if __name__ == "__main__":
    main()
