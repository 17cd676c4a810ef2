"""Trains a language model of LSTM layers on real text, character by character, and lets it write.

    python examples/lstm.py [--device rustdev|cpu] [--steps N] [--amp] [--quiet]

The text is that of gpt.py: the topics of Python's help().
"""

from __future__ import annotations

import functools

import gpt
import torch
import training_loop
from torch import Tensor, nn

BATCH, LENGTH = 16, 64


class LanguageModel(nn.Module):
    """Characters [N, T] to scores of the next one at each place [N, T, characters].

    Args:
        characters: how many different ones there are.
        width: numbers of a character and of a layer's state.
        layers: layers of LSTM.
    """

    def __init__(self, characters: int, width: int = 160, layers: int = 2) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, width)
        self.layers = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, characters)

    def forward(self, characters: Tensor) -> Tensor:
        """Scores the next characters."""
        scores: Tensor = self.head(self.layers(self.characters(characters))[0])
        return scores

    @torch.no_grad()
    def write(self, start: Tensor, count: int) -> Tensor:
        """Goes on after the characters [T], with those that it draws: [T + count]. The state is kept from one to the next."""
        written, state, given = [start], None, start[None]
        for _ in range(count):
            found, state = self.layers(self.characters(given), state)
            given = torch.multinomial(self.head(found[:, -1]).softmax(dim=-1), 1)
            written.append(given[0])
        return torch.cat(written)


@functools.cache
def text() -> gpt.Text:
    """What is read."""
    return gpt.Text(gpt.topics())


def batch(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draws parts of the text [BATCH, LENGTH], and the same a character further on."""
    return text().batch(generator, BATCH, LENGTH)


FAMILY = training_loop.Family(
    lambda: LanguageModel(len(text().characters)),
    batch,
    gpt.loss,
    lambda network: torch.optim.AdamW(network.parameters(), lr=4e-3),
)


def main() -> None:
    """Trains, and prints what the network writes."""
    network = training_loop.main(FAMILY, __doc__, steps=400)
    assert isinstance(network, LanguageModel)
    start = text().numbers("The ").to(next(network.parameters()).device)
    print(text().string(network.write(start, 300)))


if __name__ == "__main__":
    main()
