"""Trains a recommender with large embedding tables and sparse gradients: a step updates only the rows that it used.

    python examples/recommender.py [--device rustdev|cpu] [--steps N] [--amp] [--quiet]

A user is represented by the bag of the items that they liked, of any number. The network predicts whether they like another item
(He et al., Neural Collaborative Filtering, https://arxiv.org/abs/1708.05031). The data are synthetic, from hidden preferences.
"""

from __future__ import annotations

import functools

import torch
import training_loop
from torch import Tensor, nn
from torch.nn import functional

ITEMS, TASTES, BATCH = 500, 4, 256
#: Number of items that a user has seen, and threshold above which an item is liked.
SEEN, LIKED = 24, 0.4


class Recommender(nn.Module):
    """Concatenated bags of items [M] with their offsets [N], and items [N], to logits [N].

    Args:
        items: Number of items.
        width: Embedding size.
        sparse: Whether the gradients of the tables are sparse.
    """

    def __init__(self, items: int, width: int = 32, sparse: bool = True) -> None:
        super().__init__()
        self.liked = nn.EmbeddingBag(items, width, mode="mean", sparse=sparse)
        self.offered = nn.Embedding(items, width, sparse=sparse)
        for table in (self.liked, self.offered):
            nn.init.normal_(table.weight, std=0.1)
        self.network = nn.Sequential(nn.Linear(3 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, 1))

    def forward(self, liked: Tensor, starts: Tensor, offered: Tensor) -> Tensor:
        """Return the logit of an item for each bag."""
        user, item = self.liked(liked, starts), self.offered(offered)
        scores: Tensor = self.network(torch.cat((user, item, user * item), dim=1))[:, 0]
        return scores


@functools.cache
def tastes() -> Tensor:
    """Return the hidden features of the items: [ITEMS, TASTES]."""
    return functional.normalize(torch.randn(ITEMS, TASTES, generator=torch.Generator().manual_seed(2)), dim=1)


def batch(generator: torch.Generator) -> tuple[Tensor, ...]:
    """Return random users: the items that they liked of SEEN items, an item for each user, and whether it is liked (1 or 0)."""
    users = functional.normalize(torch.randn(BATCH, TASTES, generator=generator), dim=1)
    items = torch.randint(ITEMS, (BATCH, SEEN + 1), generator=generator)
    likings = (tastes()[items] @ users[:, :, None])[:, :, 0]
    is_liked = likings[:, :SEEN] > LIKED
    counts = is_liked.sum(dim=1)
    return items[:, :SEEN][is_liked], counts.cumsum(0) - counts, items[:, SEEN], (likings[:, SEEN] > 0).float()


FAMILY = training_loop.Family(
    lambda: Recommender(ITEMS),
    batch,
    functional.binary_cross_entropy_with_logits,
    lambda network: torch.optim.Adagrad(network.parameters(), lr=0.1),
)


if __name__ == "__main__":
    # PyTorch warns unless the checks of sparse tensors are explicitly enabled or disabled. They take time, and are not needed for
    # sparse tensors that autograd and the optimizer make.
    torch.sparse.check_sparse_tensor_invariants.disable()
    training_loop.main(FAMILY, __doc__, steps=600)
