"""Trains a character-level LSTM language model on text, then generates text.

    python examples/lstm.py [--device rustdev|cpu] [--steps N] [--amp] [--quiet]

The text is that of gpt.py: Python's help() topics.
"""

from __future__ import annotations

import functools

import gpt
import torch
import training_loop
from torch import Tensor, nn

BATCH, LENGTH = 16, 64


class LanguageModel(nn.Module):
    """Character indices [N, T] to logits of the next character at each position [N, T, characters].

    Args:
        characters: Size of the vocabulary.
        width: Size of embeddings and hidden states.
        layers: Number of LSTM layers.
    """

    def __init__(self, characters: int, width: int = 160, layers: int = 2) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, width)
        self.layers = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, characters)

    def forward(self, characters: Tensor) -> Tensor:
        """Return the logits of the next characters."""
        scores: Tensor = self.head(self.layers(self.characters(characters))[0])
        return scores

    @torch.no_grad()
    def write(self, start: Tensor, count: int) -> Tensor:
        """Generate ``count`` characters after a start [T], and return both: [T + count]. The state is carried from step to step."""
        written, state, given = [start], None, start[None]
        for _ in range(count):
            found, state = self.layers(self.characters(given), state)
            given = torch.multinomial(self.head(found[:, -1]).softmax(dim=-1), 1)
            written.append(given[0])
        return torch.cat(written)


@functools.cache
def text() -> gpt.Text:
    """Return the training text."""
    return gpt.Text(gpt.topics())


def batch(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return random excerpts of the text [BATCH, LENGTH], and the same excerpts shifted by one character as targets."""
    return text().batch(generator, BATCH, LENGTH)


FAMILY = training_loop.Family(
    lambda: LanguageModel(len(text().characters)),
    batch,
    gpt.loss,
    lambda network: torch.optim.AdamW(network.parameters(), lr=4e-3),
)


def main() -> None:
    """Train, generate text and print it."""
    network = training_loop.main(FAMILY, __doc__, steps=400)
    assert isinstance(network, LanguageModel)
    start = text().numbers("The ").to(next(network.parameters()).device)
    print(text().string(network.write(start, 300)))


if __name__ == "__main__":
    main()
