"""Trains a graph neural network to detect the communities of random graphs, from the edges and from a few labelled nodes.

    python examples/graph_network.py [--device rustdev|cpu] [--steps N] [--amp] [--quiet]

Edges are more likely within a community, and a tenth of the nodes are labelled with their community. A layer passes messages along
the edges and aggregates them by mean and by maximum (Hamilton et al., Inductive Representation Learning on Large Graphs,
https://arxiv.org/abs/1706.02216).
"""

from __future__ import annotations

import torch
import training_loop
from torch import Tensor, nn
from torch.nn import functional

NODES, COMMUNITIES, WIDTH = 160, 4, 64
#: Probability of an edge within a community and between communities; fraction of labelled nodes.
WITHIN, BETWEEN, KNOWN = 0.12, 0.015, 0.1


class Layer(nn.Module):
    """Message-passing layer: nodes [N, width] and edges [2, E] (source and target nodes) to nodes [N, width].

    Args:
        width: Number of features of a node.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.message, self.norm = nn.Linear(2 * width, width), nn.LayerNorm(width)
        self.update = nn.Sequential(nn.Linear(3 * width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        """Aggregate the messages of the neighbours, and add the update to the nodes."""
        source, target = edges
        said = functional.relu(self.message(torch.cat((nodes[source], nodes[target]), dim=1)))
        degree = said.new_zeros(len(nodes)).index_add(0, target, said.new_ones(len(target)))
        mean = torch.zeros_like(nodes, dtype=said.dtype).index_add(0, target, said) / degree.clamp(min=1)[:, None]
        positions = target[:, None].expand_as(said)
        greatest = torch.zeros_like(nodes, dtype=said.dtype).scatter_reduce(0, positions, said, "amax", include_self=True)
        heard = self.update(torch.cat((nodes, mean.to(nodes.dtype), greatest.to(nodes.dtype)), dim=1))
        added: Tensor = self.norm(nodes + heard)
        return added


class GraphNetwork(nn.Module):
    """Node labels [N, communities] (0 if unknown) and edges [2, E] to logits [N, communities].

    Args:
        communities: Number of communities.
        width: Number of features of a node.
        layers: Number of layers.
    """

    def __init__(self, communities: int, width: int = WIDTH, layers: int = 3) -> None:
        super().__init__()
        self.first = nn.Linear(communities, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.last = nn.Linear(width, communities)

    def forward(self, known: Tensor, edges: Tensor) -> Tensor:
        """Return the logits of the communities of each node."""
        nodes = self.first(known)
        for layer in self.layers:
            nodes = layer(nodes, edges)
        scores: Tensor = self.last(nodes)
        return scores


def batch(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Return a random graph: labels [NODES, COMMUNITIES], edges in both directions [2, E], and the communities [NODES]."""
    communities = torch.randint(COMMUNITIES, (NODES,), generator=generator)
    likely = torch.where(communities[:, None] == communities, WITHIN, BETWEEN)
    joined = (torch.rand(NODES, NODES, generator=generator) < likely).triu(1)
    edges = torch.cat((joined.nonzero(), joined.T.nonzero())).T.contiguous()
    is_known = torch.rand(NODES, 1, generator=generator) < KNOWN
    return functional.one_hot(communities, COMMUNITIES) * is_known.float(), edges, communities


FAMILY = training_loop.Family(lambda: GraphNetwork(COMMUNITIES), batch, functional.cross_entropy, training_loop.adamw)


if __name__ == "__main__":
    training_loop.main(FAMILY, __doc__, steps=300)
