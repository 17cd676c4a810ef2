"""Dispatch: every PyTorch operator has a kernel, a fallback or a reason; values of operators that the CPU lacks."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from comparison import assert_same, compare_gradients, copied
from torch.nn import functional

aten = torch.ops.aten
KEYS = ("PrivateUse1", "SparsePrivateUse1", "SparseCsrPrivateUse1", "QuantizedPrivateUse1", "NestedTensorPrivateUse1")

ATTENTION = "CUDA's kernel; scaled_dot_product_attention chooses one that the device has"
JAGGED = "defined by torch.nested's Python class of jagged tensors, for every device"
#: Why the device does not serve operators, by parts of their names.
REASONS = {
    "cudnn": "NVIDIA's cuDNN",
    "miopen": "AMD's MIOpen",
    "mkldnn": "opaque tensors of oneDNN, which exist on the CPU alone",
    "mps": "Apple's Metal",
    "max_pool2d_backward": "Apple's Metal: the gradient elsewhere is max_pool2d_with_indices_backward",
    "cslt": "NVIDIA's cuSPARSELt",
    "_mixed_dtypes_linear": "NVIDIA's CUTLASS",
    "_spsolve": "NVIDIA's cuDSS",
    "triton": "Triton's kernels",
    "semi_structured": "the sparse matrix units of NVIDIA's GPUs",
    "int4pack": "weights in the packed layout of CUDA's kernels; the CPU's, _weight_int4pack_mm_for_cpu, has a kernel",
    "efficient_attention": ATTENTION,
    "mem_eff_dropout": ATTENTION,
    "flash_attention": ATTENTION,
    "_nested_from_padded_tensor": JAGGED,
    "_nested_get": JAGGED,
    "_nested_view_from_jagged": JAGGED,
    "_scaled_addmm": "float8 products of CUDA; _scaled_mm falls back",
    "_scaled_grouped_mm": "float8 products of CUDA; _scaled_mm falls back",
}
KEYED = ("_philox_key_fold_in", "_philox_key_split", "_philox_normal_", "_philox_uniform_")
if torch.__version__ < "2.15":
    REASONS |= dict.fromkeys(KEYED, "CUDA's kernel alone before torch 2.15")


def declared() -> Iterator[str]:
    """Yield the operators that PyTorch's own list marks as needing a backend's kernel, without namespace."""
    path = Path(torch.__file__).parent / "include/ATen/RegistrationDeclarations.h"
    for line in path.read_text().splitlines():
        _, mark, entry = line.partition("// {")
        if mark:
            facts = json.loads("{" + entry)
            if facts["dispatch"] == "True" and facts["default"] == "False":
                yield facts["schema"].partition("(")[0].removeprefix("aten::")


DECLARED = sorted(declared())


def served(name: str) -> bool:
    """Return whether the operator has a kernel or a fallback on one of the device's keys."""
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", key) for key in KEYS)


def reasons(name: str) -> list[str]:
    """Return the parts of an operator's name that have a reason."""
    return [part for part in REASONS if part in name and "_for_cpu" not in name]


def test_no_operator_is_left_out() -> None:
    assert {"add.out", "mm.dtype", "_thnn_fused_lstm_cell", "batch_norm_stats", "_cudnn_rnn"} <= set(DECLARED), "the list is read"
    left = [name for name in DECLARED if not served(name) and not reasons(name)]
    assert not left, f"neither kernel nor fallback nor reason: {', '.join(left)}"


def test_reasons_are_needed() -> None:
    needed = {part for name in DECLARED if not served(name) for part in reasons(name)}
    if torch.__version__ < "2.15":
        needed |= {"_scaled_addmm", *KEYED}  # are not there yet, or have a fallback
    assert not set(REASONS) - needed


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_products_with_out_dtype(dtype: torch.dtype) -> None:
    a, b, addend = (torch.randn(shape).to(dtype) for shape in ((3, 40), (40, 5), (3, 5)))
    full, product = torch.float32, a.float() @ b.float()
    da, db, daddend = copied((a, b, addend))
    for found, expected in (
        (torch.mm(da, db, out_dtype=full), product),
        (torch.bmm(da[None], db[None], out_dtype=full), product[None]),
        (torch.addmm(daddend, da, db, beta=0.5, alpha=2, out_dtype=full), addend.float() * 0.5 + product * 2),
        (torch.baddbmm(daddend[None], da[None], db[None], out_dtype=full), (addend.float() + product)[None]),
    ):
        assert_same(found, expected)
    assert_same(torch.mm(da, db, out_dtype=dtype), a @ b, rtol=2e-2, atol=2e-2)
    for operator, given, expected in (
        (aten.mm, (da, db), product),
        (aten.bmm, (da[None], db[None]), product[None]),
        (aten.addmm, (daddend, da, db), product + addend.float()),
        (aten.baddbmm, (daddend[None], da[None], db[None]), (product + addend.float())[None]),
    ):
        out = torch.empty(0, device="rustdev")
        assert operator.dtype_out(*given, full, out=out) is out
        assert_same(out, expected)
    with pytest.raises(RuntimeError, match="out_dtype"):
        torch.mm(da.float(), db.float(), out_dtype=torch.float16)
    with pytest.raises(RuntimeError, match="one dtype"):
        torch.mm(da.half(), db.bfloat16(), out_dtype=full)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(6, 3), (6, 3, 4), (6, 3, 4, 5)])
def test_batch_norm_in_parts(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """Two groups of 2 and 4 samples, put together again, equal the whole."""
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    loose = dict.fromkeys(("rtol", "atol"), 2e-2 if dtype is torch.bfloat16 else 1e-4)
    x, grad = (torch.randn(shape) * 2 + 1).to(dtype).requires_grad_(), torch.randn(shape).to(dtype)
    weight, bias = torch.randn(3, dtype=wide).requires_grad_(), torch.randn(3, dtype=wide).requires_grad_()
    running = torch.zeros(3, dtype=wide), torch.ones(3, dtype=wide)
    dweight, dbias, dmean, dvar = copied((weight.detach(), bias.detach(), *running))
    expected = functional.batch_norm(x.to(wide), *running, weight, bias, True, 0.1, 1e-5)
    expected.backward(grad.to(wide))

    parts, grads = ([one.contiguous() for one in copied(whole).split([2, 4])] for whole in (x.detach(), grad))
    means, invstds = zip(*(torch.batch_norm_stats(part, 1e-5) for part in parts), strict=True)
    assert means[0].dtype is wide
    counts = torch.tensor([part.numel() / 3 for part in parts], dtype=wide, device="rustdev")
    gathered = torch.stack(means), torch.stack(invstds), dmean, dvar
    mean, invstd = torch.batch_norm_gather_stats_with_counts(parts[0], *gathered, 0.1, 1e-5, counts)
    assert_same((dmean, dvar), running, **loose)
    outputs = [torch.batch_norm_elemt(part, dweight, dbias, mean, invstd, 1e-5) for part in parts]
    assert_same(torch.cat(outputs), expected.detach().to(dtype), **loose)
    out = torch.batch_norm_elemt(parts[0], dweight, dbias, mean, invstd, 1e-5, out=torch.empty_like(parts[0]))
    assert torch.equal(out, outputs[0])
    last = parts[0].mT.contiguous().mT
    assert torch.batch_norm_elemt(last, dweight, dbias, mean, invstd, 1e-5).stride() == last.stride()

    pairs = list(zip(grads, parts, strict=True))
    reduced = [torch.batch_norm_backward_reduce(*pair, mean, invstd, dweight, True, True, True) for pair in pairs]
    sum_dy, sum_dy_xmu, grad_weight, grad_bias = (sum(values) for values in zip(*reduced, strict=True))
    assert_same((grad_weight, grad_bias), (weight.grad, bias.grad), **loose)
    sums = sum_dy, sum_dy_xmu, counts.int()
    elements = [torch.batch_norm_backward_elemt(*pair, mean, invstd, dweight, *sums) for pair in pairs]
    assert_same(torch.cat(elements), x.grad, **loose)


def test_batch_norm_statistics_of_equal_groups_and_updates() -> None:
    x = torch.randn(4, 3, 5)
    parts = copied(x).chunk(2)
    mean, invstd = (torch.stack(values) for values in zip(*(torch.batch_norm_stats(part, 1e-3) for part in parts), strict=True))
    found = torch.batch_norm_gather_stats(parts[0], mean, invstd, None, None, 0.1, 1e-3, 10)
    variance = x.var((0, 2), unbiased=False)
    assert_same(found, (x.mean((0, 2)), (variance + 1e-3).rsqrt()), rtol=1e-4, atol=1e-5)
    found = torch.batch_norm_update_stats(copied(x), None, None, 0.1)
    assert_same(found, torch.batch_norm_update_stats(x, None, None, 0.1))
    reduced = torch.batch_norm_backward_reduce(copied(x), copied(x), found[0], found[1], None, False, True, False)
    assert [one is not None for one in reduced] == [False, False, True, False]


@pytest.mark.parametrize("shape", [(4, 6), (6,), (2, 3, 6)])
@pytest.mark.parametrize("weighted", [True, False])
def test_rms_norm_and_its_gradient(shape: tuple[int, ...], weighted: bool) -> None:
    def norm(x: torch.Tensor, *weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, (6,), *weight or (None,), 1e-5)

    leaves = [torch.randn(shape), *[torch.randn(6)] * weighted]
    compare_gradients(norm, *leaves, rtol=1e-4, atol=1e-5)
    grad, (expected, pull) = torch.randn(shape), torch.func.vjp(norm, *leaves)
    (dx, *weight), dgrad = copied((leaves, grad))
    out, rstd = aten._fused_rms_norm(dx, [6], *weight or (None,), 1e-5)
    assert_same(out, expected, rtol=1e-5, atol=1e-5)
    found = aten._fused_rms_norm_backward(dgrad, dx, [6], rstd, *weight or (None,), [True, weighted])
    assert (found[1] is not None) is weighted
    assert_same([one for one in found if one is not None], list(pull(grad)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5)])
def test_linear_backward(shape: tuple[int, ...]) -> None:
    x, weight, bias = torch.randn(shape), torch.randn(4, 5), torch.randn(4)
    output, pull = torch.func.vjp(functional.linear, x, weight, bias)
    arguments = copied((x, grad := torch.randn_like(output), weight))
    assert_same(aten.linear_backward(*arguments, [True, True, True]), pull(grad), rtol=1e-4, atol=1e-5)
    assert [one is None for one in aten.linear_backward(*arguments, [False, True, False])] == [True, False, True]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3,), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((3,), (5, 3, 4)),
        ((5, 1, 2, 3), (6, 3, 4)),
    ],
)
def test_matmul_backward(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = torch.randn(left), torch.randn(right)
    output, pull = torch.func.vjp(torch.matmul, a, b)
    arguments = copied((grad := torch.randn_like(output), a, b))
    expected = [one.contiguous() for one in pull(grad)]
    assert_same(list(aten.matmul_backward(*arguments, [True, True])), expected, rtol=1e-4, atol=1e-5)
    assert aten.matmul_backward(*arguments, [True, False])[1] is None


def test_depthwise_convolutions() -> None:
    x, weight, bias = torch.randn(2, 3, 6, 6), torch.randn(6, 1, 3, 3), torch.randn(6)
    expected = functional.conv2d(x, weight, bias, (2, 1), (1, 0), (1, 2), 3)
    dx, dweight, dbias = copied((x, weight, bias))
    given = dx, dweight, [3, 3], dbias, [2, 1], [1, 0], [1, 2]
    assert_same(aten._conv_depthwise2d(*given), expected, rtol=1e-4, atol=1e-4)
    assert_same(aten._conv_depthwise2d.out(*given, out=torch.empty(0, device="rustdev")), expected, rtol=1e-4, atol=1e-4)
    x, weight = torch.randn(1, 2, 4, 4, 4), torch.randn(2, 1, 2, 2, 2)
    found = aten.conv_depthwise3d(*copied((x, weight)), [2, 2, 2], None, [1, 1, 1], [1, 1, 1], [1, 1, 1])
    assert_same(found, functional.conv3d(x, weight, None, 1, 1, 1, 2), rtol=1e-4, atol=1e-4)


def test_fused_dropout_scales_what_it_keeps() -> None:
    x = torch.ones(10_000, device="rustdev")
    result, mask = torch._fused_dropout(x, 0.75)
    assert mask.dtype is torch.uint8
    assert torch.equal(result.cpu(), mask.cpu() * (1 / 0.75))
    assert 0.7 < mask.cpu().float().mean() < 0.8
    assert_same(torch._masked_scale(x * 3, mask, 2.0), mask.cpu() * 6.0)


def test_resize_output() -> None:
    out = torch.empty(0, device="rustdev")
    assert aten._resize_output_(out, [2, 3], "rustdev:0").shape == (2, 3)
    with pytest.raises(RuntimeError, match="correct device"):
        aten._resize_output_(out, [2], "rustdev:1")


def test_scaled_product_of_float8() -> None:
    a, b = torch.randn(16, 32).to(torch.float8_e4m3fn), torch.randn(16, 32).to(torch.float8_e4m3fn).t()
    scales = torch.tensor(0.5), torch.tensor(2.0)
    expected = torch._scaled_mm(a, b, *scales, out_dtype=torch.bfloat16)
    torch.testing.assert_close(expected.float(), a.float() @ b.float(), rtol=2e-2, atol=2e-2)
    da, db = a.view(torch.uint8).to("rustdev").view(a.dtype), b.t().view(torch.uint8).to("rustdev").view(a.dtype).t()
    assert_same(torch._scaled_mm(da, db, *copied(scales), out_dtype=torch.bfloat16), expected)


def test_composite_operators_are_composite_for_subclasses() -> None:
    """A kernel of the device alone would hide PyTorch's composite one, and ``__torch_dispatch__`` be asked of the operator."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    hidden = [
        name
        for name in torch._C._dispatch_get_all_op_names()
        if has_kernel(name, "CompositeImplicitAutograd")
        and has_kernel(name, "PrivateUse1")
        and not any(has_kernel(name, key) for key in ("CPU", "AutogradPrivateUse1"))
    ]
    assert hidden == []
