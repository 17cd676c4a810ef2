"""Sparse COO tensors as gradients of embeddings: autograd, clipping and optimizers."""

import pytest
import torch
from comparison import assert_same
from torch import Tensor

pytestmark = pytest.mark.usefixtures("fallback")


def sparse(device: str, dtype: torch.dtype = torch.float32, *, dims: int = 1, dense: int = 1) -> Tensor:
    """Return a sparse tensor of `dims` sparse and `dense` dense dimensions with positions that occur several times."""
    generator = torch.Generator().manual_seed(dims)
    indices = torch.randint(0, 4, (dims, 9), generator=generator)
    values = torch.randint(-8, 8, (9, *[3] * dense), generator=generator).to(dtype)
    return torch.sparse_coo_tensor(indices.to(device), values.to(device), (4,) * dims + (3,) * dense, check_invariants=True)


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


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")  # once in a process
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
