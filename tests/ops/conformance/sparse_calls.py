"""Calls of every operator for which PyTorch's CPU device has a kernel for sparse tensors.

A call is an expression of the names that :func:`names` defines for a layout and a dtype. S, S2 (4, 6), T (6, 4), Q (4, 4), R (4, 3)
and R2 (6, 3), with 4 instead of 3 if blocks require it, are sparse. D (4, 6), M (6, 3), N (3, 4), C (4, 3), E (4, 2), A (4, 5),
B (5, 6), U (4) and V (6) are dense. P (2, 4, 6) is sparse COO, F (2, 6, 3) dense. I has indices. ``device`` is their device.
"""

import functools
from typing import Any

import torch

#: Kinds of sparse tensors: layouts, and those of COO whose elements occur twice, or are rows.
KINDS = ("coo", "twice", "rows", "csr", "csc", "bsr", "bsc")
DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64),
    *(torch.int64, torch.int8, torch.uint8, torch.bool),
)
POINTWISE = (
    "abs angle asin asinh atan atanh ceil conj_physical deg2rad erf erfinv expm1 floor frac log1p nan_to_num neg rad2deg round sgn "
    "sign sin sinh sqrt tan tanh trunc"
)
MEMBERS = "is_coalesced _dimI _dimV sparse_dim dense_dim _nnz _indices _values indices values"
MEMBERS += " crow_indices col_indices ccol_indices row_indices"

CALLS: dict[str, tuple[str, ...]] = {
    name: (f"torch.{name}(S)", f"S.clone().{name}_()", f"torch.{name}(S, out=torch.zeros_like(S))") for name in POINTWISE.split()
}
CALLS |= {name: (f"torch.{name}(S)",) for name in ("isinf", "isnan", "signbit", "isneginf", "isposinf", "positive", "square")}
CALLS |= {name: (f"S.{name}()",) for name in MEMBERS.split()}
for name, blocks in (("csr", ""), ("csc", ""), ("bsr", "(2, 2)"), ("bsc", "(2, 2)")):
    CALLS[f"_to_sparse_{name}"] = (f"S.to_sparse_{name}({blocks})", f"D.to_sparse_{name}({blocks})")
CALLS |= {
    # sums, products and powers of elements
    "add": (
        *("S + S2", "D + S", "S + D", "torch.add(S, S2, alpha=2)", "torch.add(D, S, alpha=2)", "S.clone().add_(S2)"),
        *("D.clone().add_(S)", "torch.add(S, S2, out=torch.zeros_like(S))", "torch.add(D, S, out=torch.zeros_like(D))"),
    ),
    "sub": ("S - S2", "D - S", "S - D", "S.clone().sub_(S2)", "torch.sub(S, S2, out=torch.zeros_like(S))"),
    "mul": (
        *("S * S2", "S * D", "D * S", "S * 2.5", "S * 2", "S * torch.tensor(2, device=device)", "S.clone().mul_(2)"),
        *("S.clone().mul_(S2)", "S.clone().mul_(D)", "S * D[:1]", "S * D[:, :1]", "torch.mul(S, S2, out=torch.zeros_like(S))"),
    ),
    "div": (
        *("S / 2", "S / torch.tensor(2, device=device)", "S / S2", "S / D", "S.clone().div_(2)"),
        *("torch.div(S, 2, rounding_mode='floor')", "torch.div(S, 2, rounding_mode='trunc')"),
    ),
    "floor_divide": ("S // 2", "S.clone().floor_divide_(2)"),
    "pow": ("S**2", "S**0.5", "torch.pow(S, 3)"),
    "relu": ("S.relu()", "S.clone().relu_()"),
    "threshold_backward": ("aten.threshold_backward(S, S, 0)",),
    "fill": ("S.clone().fill_(2)",),
    "zero": ("S.clone().zero_()",),
    "normal": ("S.clone().normal_().shape",),
    # matrix products
    "mm": (
        *("torch.mm(S, M)", "torch.mm(N, S)", "torch.mm(S, T)", "torch.sparse.mm(S, M)", "torch.sparse.mm(N, S)"),
        *("torch.sparse.mm(S, T)", "S @ M", "N @ S", "S @ T", "torch.mm(S, M, out=torch.zeros_like(C))", "torch.smm(S, M)"),
        "torch.nn.functional.linear(N, Q)",
    ),
    "_sparse_sparse_matmul": ("S @ S.t()",),
    "_sparse_mm_reduce_impl": tuple(f"torch.sparse.mm(S, M, '{reduce}')" for reduce in ("sum", "mean", "amax", "amin")),
    "addmm": (
        *("torch.addmm(C, S, M, beta=2, alpha=3)", "torch.addmm(C, D, R2)", "torch.sparse.addmm(C, S, M, beta=2)"),
        *("C.clone().addmm_(S, M)", "torch.addmm(Q, S, T)"),
    ),
    "addmv": ("torch.addmv(U, S, V)", "torch.addmv(U, S, V, out=torch.zeros_like(U))"),
    "mv": ("S.mv(V)", "S @ V"),
    "bmm": ("torch.bmm(P, F)", "torch.bmm(P, F, out=F.new_zeros(2, 4, 3))"),
    "hspmm": ("torch.hspmm(S, M)",),
    "sspaddmm": ("torch.sspaddmm(R, S, M)",),
    "sparse_sampled_addmm": ("torch.sparse.sampled_addmm(S, A, B, beta=2, alpha=3)",),
    "triangular_solve": (
        "torch.triangular_solve(E, Q)",
        "torch.triangular_solve(E, Q, upper=False, transpose=True, unitriangular=True)",
    ),
    # reductions
    "sum": (
        *("S.sum()", "S.sum(0)", "S.sum(1)", "S.sum(0, keepdim=True)", "S.sum((0, 1))", "torch.sum(S, (0, 1), keepdim=True)"),
        *("torch.sparse.sum(S)", "torch.sparse.sum(S, 0)", "torch.sparse.sum(S, 1)", "torch.sparse.sum(S, [0, 1])", "S.mean()"),
        "torch.sparse.sum(S, dtype=torch.float64)",
    ),
    "_sparse_csr_sum": ("torch._sparse_csr_sum(S, (0,), keepdim=True)", "torch._sparse_csr_sum(S, (1,), keepdim=True)"),
    "_sparse_csr_prod": ("torch._sparse_csr_prod(S, (0,), keepdim=True)", "torch._sparse_csr_prod(S, (1,), keepdim=True)"),
    "masked": tuple(f"torch.masked.{name}(S, 1, keepdim=True)" for name in ("sum", "prod", "amax", "amin", "mean")),
    "norm": ("S.norm()", "torch.norm(S, 1)", "torch.norm(S, float('inf'))", "torch.linalg.norm(S)"),
    "native_norm": ("torch.native_norm(S)",),
    "linalg_vector_norm": ("torch.linalg.vector_norm(S)",),
    "any": ("S.any()",),
    "_sparse_softmax": ("torch.sparse.softmax(S, 0)", "torch.sparse.softmax(S, 1)", "torch.softmax(S, 1)"),
    "_sparse_log_softmax": ("torch.sparse.log_softmax(S, 0)", "torch.sparse.log_softmax(S, 1)"),
    # parts and arrangements
    "cat": ("torch.cat([S, S2])", "torch.cat([S, S2], 1)", "torch.stack([S, S2])"),
    "select": ("S[0]", "S.select(1, 1)"),
    "select_copy": ("torch.select_copy(S, 0, 1)",),
    "index_select": ("S.index_select(0, I)", "S.index_select(1, I)"),
    "narrow_copy": ("S.narrow_copy(0, 1, 2)",),
    "permute": ("S.permute(1, 0)", "S.t()", "S.transpose(0, 1)"),
    "unsqueeze": ("S.unsqueeze(0)", "S.unsqueeze(-1)"),
    "_sparse_broadcast_to": ("torch._sparse_broadcast_to(S.narrow_copy(0, 0, 1), S.shape)",),
    "sparse_mask": ("D.sparse_mask(S)", "S2.sparse_mask(S)", "D.sparse_mask(S.coalesce())", "S2.sparse_mask(S.coalesce())"),
    "_sparse_mask_projection": ("S2._sparse_mask_projection(S)", "S2._sparse_mask_projection(S, True)"),
    "view_as_real": ("torch.view_as_real(S)", "S.real"),
    "view_as_complex": ("torch.view_as_complex(torch.view_as_real(S))",),
    "_conj_physical": ("torch._conj_physical(S)", "S.conj()"),
    # other layouts and dtypes
    "_to_dense": ("S.to_dense()", "S.to_dense(dtype=torch.float64)"),
    "_to_sparse": ("S.to_sparse()", "S.to_sparse(1)", "S.to_sparse(layout=torch.sparse_coo)", "D.to_sparse()", "D.to_sparse(1)"),
    "clone": ("S.clone()", "S.detach()", "S.to(torch.float64)", "S.bool()"),
    "empty_like": ("torch.empty_like(S).shape", "torch.zeros_like(S)", "torch.ones_like(S)", "torch.randn_like(S).shape"),
    "zeros": ("torch.zeros((4, 6), dtype=S.dtype, layout=S.layout, device=device)",),
    "copy": ("S.clone().copy_(S2)", "torch.zeros_like(D).copy_(S)", "S.clone().copy_(D)"),
    "copy_sparse_to_sparse": ("torch.ops.aten.copy_sparse_to_sparse_(S.clone(), S2)",),
    # members
    "_coalesce": ("S.coalesce()",),
    "_coalesced": ("S.clone()._coalesced_(False)",),
    "resize_as_sparse": ("S.clone().resize_as_sparse_(S2)._nnz()",),
    "sparse_resize": ("S.clone().sparse_resize_((8, 8), 2, 0).to_dense()",),
    "sparse_resize_and_clear": ("S.clone().sparse_resize_and_clear_((8, 8), 2, 0)",),
    "resize": ("S.clone().resize_(8, 8).shape",),
    "_sparse_coo_tensor_with_dims": ("torch.sparse_coo_tensor((4, 6), dtype=S.dtype, device=device)",),
    "_sparse_coo_tensor_with_dims_and_tensors": ("torch.sparse_coo_tensor(S._indices(), S._values(), S.shape)",),
}
#: Operators that calls of others reach, behind autograd, that ask for pinned memory, or that leave memory as they find it.
ELSEWHERE = {
    "empty",
    *("_sparse_log_softmax_backward_data", "_sparse_mm_reduce_impl_backward", "_sparse_softmax_backward_data"),
    *("_sparse_sum_backward", "_pin_memory", "is_pinned"),
}
#: Calls and kinds that end the process on the CPU device, or whose result there is no sparse tensor.
DEADLY = {("torch.addmm(Q, S, T)", "csc")}


def members(sparse: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the indices and the values of a sparse tensor; of COO, of what it is coalesced."""
    if sparse.layout is torch.sparse_coo:
        whole = sparse.coalesce()
        return whole._indices(), whole._values()
    if sparse.layout in (torch.sparse_csr, torch.sparse_bsr):
        return sparse.crow_indices(), sparse.col_indices(), sparse.values()
    return sparse.ccol_indices(), sparse.row_indices(), sparse.values()


def plain(shape: tuple[int, ...], seed: int, dtype: torch.dtype, density: float = 0.5) -> torch.Tensor:
    """Return a dense tensor of small numbers of which some are 0."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(-5, 6, shape, generator=generator)
    numbers *= torch.rand(shape, generator=generator) < density
    if dtype.is_complex:
        return torch.complex(numbers / 4, numbers / 2).to(dtype)
    if dtype.is_floating_point:
        return (numbers / 4).to(dtype)
    return numbers.to(dtype) if dtype.is_signed else numbers.abs().to(dtype)


def sparse(dense: torch.Tensor, kind: str, index: torch.dtype) -> torch.Tensor:
    """Return a tensor of a kind, with indices of a dtype where the layout takes one."""
    if kind == "coo":
        return dense.to_sparse()
    if kind == "twice":
        whole = dense.to_sparse()
        indices, values = torch.cat([whole.indices()] * 2, 1), torch.cat([whole.values()] * 2)
        return torch.sparse_coo_tensor(indices, values, dense.shape, check_invariants=True)
    if kind == "rows":
        return torch.stack([dense] * 2, -1).to_sparse(2)
    blocks = (2, 2) if kind.startswith("b") else None
    made = dense.to_sparse(layout=getattr(torch, f"sparse_{kind}"), blocksize=blocks)
    compressed, other, values = members(made)
    return torch.sparse_compressed_tensor(
        compressed.to(index), other.to(index), values, made.shape, layout=made.layout, check_invariants=True
    )


@functools.cache
def names(kind: str, dtype: torch.dtype, index: torch.dtype, device: str, *, gradients: bool) -> dict[str, Any]:
    """Return what calls, which change none of it, are made of on a device; with ``gradients``, tensors require one."""
    shapes = {"S": (4, 6), "S2": (4, 6), "T": (6, 4), "Q": (4, 4), "R": (4, 4 if kind.startswith("b") else 3)}
    shapes["R2"] = (6, 4 if kind.startswith("b") else 3)
    made = {name: sparse(plain(shape, seed, dtype), kind, index) for seed, (name, shape) in enumerate(shapes.items())}
    # A triangle with a diagonal, for systems of equations.
    made["Q"] = sparse(plain((4, 4), 9, dtype).triu() + torch.eye(4).to(dtype), kind, index)
    shapes = {"D": (4, 6), "M": (6, 3), "N": (3, 4), "C": (4, 3), "E": (4, 2), "A": (4, 5), "B": (5, 6), "U": (4,), "V": (6,)}
    made |= {name: plain(shape, seed, dtype, 1.0) for seed, (name, shape) in enumerate(shapes.items(), 10)}
    made["P"], made["F"] = plain((2, 4, 6), 30, dtype).to_sparse(), plain((2, 6, 3), 31, dtype, 1.0)
    with_gradients = gradients and (dtype.is_floating_point or dtype.is_complex)
    moved: dict[str, Any] = {name: value.to(device).detach().requires_grad_(with_gradients) for name, value in made.items()}
    return moved | {"I": torch.tensor([0, 2, 0], device=device), "device": device, "torch": torch, "aten": torch.ops.aten}


def described(value: Any) -> list[Any]:
    """Return a result as numbers, words and dense tensors."""
    if isinstance(value, tuple | list) and not isinstance(value, torch.Size):
        return [part for item in value for part in described(item)]
    if not isinstance(value, torch.Tensor) or value.layout is torch.strided:
        return [value]
    head = [str(value.layout), value.dtype, value.shape]
    return [*head, *(member.detach().resolve_conj() for member in members(value))]


def outcome_of(call: str, given: dict[str, Any]) -> list[Any]:
    """Return what a call gives, and the gradients of what requires one."""
    torch.manual_seed(0)
    result = eval(call, dict(given))
    results = [it for it in (result if isinstance(result, tuple) else (result,)) if isinstance(it, torch.Tensor)]
    found = [it for it in results if it.requires_grad]
    leaves = [it for it in given.values() if isinstance(it, torch.Tensor) and it.requires_grad]
    gradients = torch.autograd.grad(found, leaves, [torch.ones_like(it) for it in found], allow_unused=True) if found else ()
    parts = described(result) + [part for gradient in gradients for part in described(gradient)]
    return [it.detach() if isinstance(it, torch.Tensor) else it for it in parts]
