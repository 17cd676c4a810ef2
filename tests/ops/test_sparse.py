"""Sparse COO tensors as gradients of embeddings: autograd, clipping and optimizers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import torch
from comparison import assert_same

if TYPE_CHECKING:
    from torch import Tensor

pytestmark = pytest.mark.usefixtures("fallback")
DTYPES = [torch.float32, torch.float64, torch.bfloat16]


def sparse(device: str, dtype: torch.dtype = torch.float32, *, dims: int = 1, dense: int = 1) -> Tensor:
    """Return a sparse tensor of `dims` sparse and `dense` dense dimensions with positions that occur several times."""
    generator = torch.Generator().manual_seed(dims)
    indices = torch.randint(0, 4, (dims, 9), generator=generator)
    values = torch.randint(-8, 8, (9, *[3] * dense), generator=generator).to(dtype)
    return torch.sparse_coo_tensor(indices.to(device), values.to(device), (4,) * dims + (3,) * dense, check_invariants=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("dims", "dense"), list(itertools.product([1, 2, 3], [0, 1, 2])))
def test_coalesce_and_dense(dims: int, dense: int, dtype: torch.dtype) -> None:
    found, expected = (sparse(device, dtype, dims=dims, dense=dense) for device in ("rustdev", "cpu"))
    assert_same(found.coalesce(), expected.coalesce())
    assert_same(found.to_dense(), expected.to_dense())
    assert found.coalesce().coalesce().is_coalesced()
    assert (found.sparse_dim(), found.dense_dim(), found._nnz()) == (dims, dense, 9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_and_products(dtype: torch.dtype) -> None:
    for dims, dense in [(1, 1), (2, 0), (2, 1)]:
        found, expected = (sparse(device, dtype, dims=dims, dense=dense) for device in ("rustdev", "cpu"))
        plain = torch.arange(expected.numel(), dtype=dtype).view(expected.shape)
        assert_same(plain.to("rustdev") + found, plain + expected)
        assert_same(plain.to("rustdev").add_(found, alpha=-2), plain.clone().add_(expected, alpha=-2))
        assert_same((found + found).coalesce(), (expected + expected).coalesce())
        assert_same(found.coalesce() + found.coalesce(), expected.coalesce() + expected.coalesce())
        assert_same(found.clone().add_(found, alpha=3).coalesce(), expected.clone().add_(expected, alpha=3).coalesce())
        assert_same(found * 2.5, expected * 2.5)
        assert_same(found.clone().mul_(torch.tensor(0.5, device="rustdev")), expected.clone().mul_(torch.tensor(0.5)))
        assert_same(-found, -expected)
        assert_same(found.clone().zero_(), expected.clone().zero_())
        assert_same(plain.to("rustdev").sparse_mask(found.coalesce()), plain.sparse_mask(expected.coalesce()))


def test_a_dense_sum_into_a_transposed_tensor() -> None:
    found, expected = sparse("rustdev", dims=2, dense=0), sparse("cpu", dims=2, dense=0)
    target = torch.zeros(4, 4, device="rustdev")
    target.t().add_(found)
    assert_same(target, expected.to_dense().t().contiguous())


def test_indices_that_are_not_contiguous() -> None:
    """PyTorch's kernels read such indices as if they were, past their end."""
    rows = torch.tensor([[0, 9], [0, 9], [2, 9], [3, 9]], device="rustdev")[:, 0]
    starts = torch.tensor([[0, 9], [2, 9], [2, 9], [3, 9], [4, 9]], device="rustdev")[:, 0]
    columns = torch.tensor([[3, 9], [1, 9], [2, 9], [0, 9]], device="rustdev")[:, 0]
    assert torch._convert_indices_from_coo_to_csr(rows, 4).tolist() == [0, 2, 2, 3, 4]
    assert torch._convert_indices_from_csr_to_coo(starts, columns).tolist() == [[0, 0, 2, 3], [3, 1, 2, 0]]


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
@pytest.mark.parametrize("index", [torch.int64, torch.int32])
def test_gradients_of_reduced_products(reduce: str, index: torch.dtype) -> None:
    """What the greatest and the least are is a second result of the forward, made only where something requires a gradient."""
    plain = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, -1.0], [0.0, 0.0, 0.0]]).to_sparse_csr()
    parts = plain.crow_indices().to(index), plain.col_indices().to(index), plain.values()
    found = []
    for device in ("rustdev", "cpu"):
        moved = [part.to(device) for part in parts]
        matrix = torch.sparse_csr_tensor(*moved, plain.shape, check_invariants=True).requires_grad_()
        dense = torch.arange(12.0, device=device).view(3, 4).sin().requires_grad_()
        result = torch.sparse.mm(matrix, dense, reduce)
        (result * torch.arange(12.0, device=device).view(3, 4)).sum().backward()
        assert matrix.grad is not None
        assert dense.grad is not None
        found.append([result, matrix.grad, dense.grad])
    assert_same(*found, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_products_are_rounded_once(dtype: torch.dtype) -> None:
    """A row of 3000 ones, of which a sum that is rounded at each step would stand still."""
    ones = torch.ones(3000, 2, dtype=dtype, device="rustdev")
    own = torch.ones(1, 2, dtype=dtype, device="rustdev")
    row = torch.ones(1, 3000, dtype=dtype, device="rustdev").to_sparse()
    column = ones[:, :1].to_sparse()
    products = {
        "mm": torch.mm(row, ones),
        "mm.out": torch.mm(row, ones, out=torch.empty(0, dtype=dtype, device="rustdev")),
        "mm of two": torch.mm(row, column).to_dense(),
        "addmm": torch.addmm(own, row, ones, beta=0),
        "addmm.out": torch.addmm(own, row, ones, beta=0, out=torch.empty_like(own)),
        "addmm_": own.clone().addmm_(row, ones, beta=0),
        "hspmm": torch.hspmm(row, ones).to_dense(),
        "hspmm.out": torch.hspmm(row, ones, out=torch.zeros(1, 2, dtype=dtype, device="rustdev").to_sparse()).to_dense(),
    }
    wanted = torch.tensor(3000.0, dtype=dtype).item()
    assert {name: product.unique().tolist() for name, product in products.items()} == {name: [wanted] for name in products}


def test_what_does_not_fit_is_refused() -> None:
    gradient = sparse("rustdev")
    with pytest.raises(RuntimeError, match="same size"):
        torch.zeros(5, 3, device="rustdev").add_(gradient)
    with pytest.raises(RuntimeError, match="same device"):
        torch.zeros(4, 3, device="rustdev").add_(sparse("cpu"))
    assert torch.ones(2, device="rustdev").sum().item() == 2


@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled")
@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adagrad, torch.optim.SparseAdam])
@pytest.mark.parametrize("layer", ["embedding", "bag"])
def test_embeddings_train_as_on_the_cpu(make: type[torch.optim.Optimizer], layer: str) -> None:
    weights = {}
    for device in ("cpu", "rustdev"):
        torch.manual_seed(3)
        kind = torch.nn.Embedding if layer == "embedding" else torch.nn.EmbeddingBag
        table = kind(20, 6, sparse=True)
        table.to(device)
        optimizer = make(table.parameters(), lr=0.1)  # type: ignore[call-arg]
        for step in range(4):
            rows = (torch.arange(12).view(4, 3) * (step + 1)) % 20
            for half in rows.chunk(2):
                (table(half.to(device)) ** 2).sum().backward()
            assert table.weight.grad is not None
            assert table.weight.grad.layout is torch.sparse_coo
            if make is not torch.optim.Adagrad:
                torch.nn.utils.clip_grad_norm_(table.parameters(), 1.0, foreach=False)
            optimizer.step()
            optimizer.zero_grad()
        weights[device] = table.weight
    assert_same(weights["rustdev"], weights["cpu"], rtol=1e-6)
