"""torch_geometric: convolutions, pooling and aggregation on graphs, batches, utilities of graphs."""

from typing import Any

import pytest
import torch
from programs.beside import agree, agrees, moved, trained
from torch import Tensor, nn
from torch_geometric import nn as graphs
from torch_geometric import utils
from torch_geometric.data import Batch, Data, HeteroData

NODES, EDGES = 24, 80
X = torch.randn(NODES, 8)
EDGE_INDEX = torch.randint(0, NODES, (2, EDGES))
WEIGHT, ATTRIBUTES = torch.rand(EDGES), torch.randn(EDGES, 4)
TYPES = torch.randint(0, 3, (EDGES,))
BATCH = torch.arange(NODES) // 8
DEGREES = torch.bincount(torch.bincount(EDGE_INDEX[1], minlength=NODES))

#: By the class: the arguments of the layer, and what it is called with behind nodes and edges.
LAYERS: dict[str, tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]] = {
    "SAGEConv": ((8, 16), {"aggr": "max"}, {}),
    "TransformerConv": ((8, 16), {"heads": 2, "beta": True}, {}),
    "ChebConv": ((8, 16), {"K": 3}, {"edge_weight": WEIGHT}),
    "GraphConv": ((8, 16), {"aggr": "mean"}, {"edge_weight": WEIGHT}),
    "GatedGraphConv": ((16,), {"num_layers": 2}, {"edge_weight": WEIGHT}),
    "ARMAConv": ((8, 16), {"num_stacks": 2, "num_layers": 2}, {"edge_weight": WEIGHT}),
    "SGConv": ((8, 16), {"K": 2}, {}),
    "APPNP": ((), {"K": 3, "alpha": 0.1}, {"edge_weight": WEIGHT}),
    "CGConv": ((8,), {"dim": 4}, {"edge_attr": ATTRIBUTES}),
    "PNAConv": (
        (8, 16),
        {"aggregators": ["mean", "min", "max", "std"], "scalers": ["identity", "amplification"], "deg": DEGREES},
        {},
    ),
    "GENConv": ((8, 16), {"learn_t": True}, {}),
    "SuperGATConv": ((8, 16), {"heads": 2}, {}),
    "EGConv": ((8, 16), {"aggregators": ["sum", "std", "symnorm"]}, {}),
    "GeneralConv": ((8, 16), {"attention": True}, {}),
    "SSGConv": ((8, 16), {"alpha": 0.1, "K": 2}, {}),
}
PLAIN = ("ResGatedGraphConv", "MFConv", "ClusterGCNConv", "FiLMConv", "HypergraphConv", "MixHopConv")
LAYERS |= dict.fromkeys(PLAIN, ((8, 16), {}, {}))
LAYERS |= dict.fromkeys(("GCNConv", "TAGConv", "LEConv"), ((8, 16), {}, {"edge_weight": WEIGHT}))
LAYERS |= dict.fromkeys(("GATConv", "GATv2Conv"), ((8, 16), {"heads": 2, "edge_dim": 4}, {"edge_attr": ATTRIBUTES}))
LAYERS |= dict.fromkeys(("RGCNConv", "FastRGCNConv"), ((8, 16), {"num_relations": 3}, {"edge_type": TYPES}))


@pytest.mark.parametrize("name", LAYERS)
def test_convolutions(name: str) -> None:
    arguments, options, more = LAYERS[name]
    if arguments:
        trained(lambda: getattr(graphs, name)(*arguments, **options), X, EDGE_INDEX, tolerance=2e-3, **more)
    else:
        # It has no weights of its own.
        layer = getattr(graphs, name)(**options)
        call = lambda model, x, edges, **rest: layer(model(x), edges, **rest)  # noqa: E731
        trained(lambda: nn.Linear(8, 8), X, EDGE_INDEX, call=call, **more)


AGGREGATIONS = ["Sum", "Mean", "Max", "Min", "Mul", "Var", "Std", "Softmax", "Median", "Quantile", "Sort", "PowerMean"]


@pytest.mark.parametrize("name", AGGREGATIONS)
@agrees()
def test_aggregations(device: str, name: str) -> list[Tensor]:
    more: dict[str, dict[str, Any]] = {"Quantile": {"q": [0.25, 0.75]}, "Sort": {"k": 4}}
    options = more.get(name, {})
    values = X.abs() + 0.1
    x = values.to(device, copy=True).requires_grad_()
    answer = getattr(graphs.aggr, f"{name}Aggregation")(**options).to(device)(x, BATCH.to(device))
    answer.pow(2).sum().backward()
    return [answer, x.grad]


@pytest.mark.parametrize("name", ["GRU", "LSTM", "DeepSets", "Attentional", "Set2Set"])
def test_learned_aggregations(name: str) -> None:
    def make() -> nn.Module:
        if name in ("GRU", "LSTM"):
            return getattr(graphs.aggr, f"{name}Aggregation")(8, 16)
        if name == "DeepSets":
            return graphs.aggr.DeepSetsAggregation(nn.Linear(8, 16), nn.Linear(16, 4))
        return graphs.aggr.AttentionalAggregation(nn.Linear(8, 1)) if name == "Attentional" else graphs.aggr.Set2Set(8, 3)

    trained(make, X, BATCH)


class Pooled(nn.Module):
    """A network with pooling between its convolutions."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.first, self.pool, self.second = graphs.GCNConv(8, 16), getattr(graphs, kind)(16, ratio=0.5), graphs.GCNConv(16, 16)
        self.norm, self.end = graphs.GraphNorm(16), nn.Linear(32, 3)

    def forward(self, x: Tensor, edges: Tensor, batch: Tensor) -> Tensor:
        x = self.norm(self.first(x, edges).relu(), batch)
        x, edges, _, batch, *_ = self.pool(x, edges, batch=batch)
        x = self.second(x, edges).relu()
        return self.end(torch.cat([graphs.global_mean_pool(x, batch), graphs.global_max_pool(x, batch)], 1))


@pytest.mark.parametrize("kind", ["TopKPooling", "SAGPooling"])
def test_networks_with_pooling(kind: str) -> None:
    edges = torch.cat([torch.randint(8 * part, 8 * part + 8, (2, 30)) for part in range(3)], 1)
    trained(lambda: Pooled(kind), X, edges, BATCH)


@agrees()
def test_dense_pooling(device: str) -> Any:
    dense, kept = torch.rand(2, 8, 8), torch.randn(2, 8, 4)
    x, adjacency, groups = X.view(3, 8, 8)[:2].to(device), dense.to(device), kept.to(device)
    return graphs.dense_diff_pool(x, adjacency, groups), graphs.dense_mincut_pool(x, adjacency, groups)


@agrees()
def test_batches_of_graphs(device: str) -> Any:
    parts = [Data(x=torch.randn(n, 8), edge_index=torch.randint(0, n, (2, 3 * n)), y=torch.tensor([n % 3])) for n in (5, 8, 3)]
    batch = Batch.from_data_list(parts)
    there = batch.clone().to(device)
    return [there.x, there.edge_index, there.batch, there.ptr, there.y, *[part.x for part in there.to_data_list()]]


def test_several_kinds_of_nodes() -> None:
    data = HeteroData()
    data["user"].x, data["item"].x = torch.randn(6, 8), torch.randn(9, 5)
    data["user", "buys", "item"].edge_index = torch.stack([torch.randint(0, 6, (20,)), torch.randint(0, 9, (20,))])
    data["item", "bought_by", "user"].edge_index = data["user", "buys", "item"].edge_index.flip(0)

    def make() -> nn.Module:
        layers = {edge: graphs.SAGEConv((8, 5) if edge[0] == "user" else (5, 8), 7) for edge in data.edge_types}
        return graphs.HeteroConv(layers, aggr="sum")

    def call(model: nn.Module, nodes: Any, edges: Any) -> Any:
        return model(nodes, {tuple(name.split("/")): index for name, index in edges.items()})

    trained(make, data.x_dict, {"/".join(name): index for name, index in data.edge_index_dict.items()}, call=call)


@agrees()
def test_utilities(device: str) -> Any:
    edges, x = EDGE_INDEX.to(device), X.to(device)
    laplacian = utils.get_laplacian(edges, WEIGHT.to(device), normalization="sym", num_nodes=NODES)
    return [
        utils.degree(edges[0], NODES), utils.to_undirected(edges, num_nodes=NODES), utils.coalesce(edges),
        utils.remove_self_loops(edges)[0], utils.add_self_loops(edges, num_nodes=NODES)[0], laplacian,
        utils.to_dense_adj(edges, max_num_nodes=NODES), utils.to_dense_batch(x, BATCH.to(device)),
        utils.softmax(WEIGHT.to(device), edges[1], num_nodes=NODES), utils.scatter(x, BATCH.to(device), reduce="max"),
        utils.subgraph(torch.arange(12, device=device), edges, num_nodes=NODES)[0],
        utils.k_hop_subgraph(3, 2, edges, num_nodes=NODES)[0], utils.sort_edge_index(edges),
        utils.to_torch_coo_tensor(edges, size=NODES).to_dense(), utils.to_torch_csr_tensor(edges, size=NODES).to_dense(),
    ]  # fmt: skip


@agrees()
def test_products_with_sparse_matrices(device: str) -> list[Tensor]:
    matrix = utils.to_torch_csr_tensor(EDGE_INDEX.to(device), size=NODES)
    return [utils.spmm(matrix, X.to(device), reduce) for reduce in ("sum", "mean", "min", "max")]


def test_a_table_of_nodes_moves() -> None:
    agree(lambda device: moved(dict(Data(x=X, edge_index=EDGE_INDEX)), device))
