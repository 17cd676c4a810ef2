"""Arguments that crash PyTorch's CPU kernels are rejected, and the device works afterwards.

Kernels that are tasks of the stream reject values at the next wait, by AcceleratorError. The calls run in a child process. If a
call crashes it, the next call runs in a new child. ``make fuzz`` searches for more such arguments.
"""

import functools
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
#: The operators that the table of guards names.
GUARDED = set(re.findall(r'"(\w+)"', (ROOT / "src/operators/guards.rs").read_text())) - {"_backward"}


SHARED = "single memory location"
SIZE = "expected .* size|do(es)? not fit|same batch|same size"
RANGE = "out of bounds|out of range"

#: By the error and its text, calls; those of no error are accepted.
CASES: dict[tuple[str, str], list[str]] = {
    ("RuntimeError", SIZE): [
        "A._adaptive_avg_pool2d_backward(T(8, 1, 5), T(1, 1, 1))",
        "A.avg_pool3d_backward(T(0, 1, 2, 3, 2), T(1, 1, 4, 5, 4), [2, 3, 1], [2, 1, 2], [0, 0, 0], False, True, None)",
        "A.adaptive_max_pool2d_backward(T(3, 4, 1, 3), T(0, 4, 1, 4), Z(3, 4, 1, 3))",
        "A.max_pool3d_with_indices_backward(T(8, 2, 1, 3, 2), T(1, 2, 3, 6, 5), [3] * 3, [2] * 3, [0] * 3, [1] * 3, True, "
        "Z(8, 2, 1, 3, 2))",
        "A.fractional_max_pool3d_backward(T(1, 1, 2, 2, 2), T(1, 1, 4, 5, 4), [2, 2, 1], [2, 2, 2], Z(0))",
        "A._masked_softmax_backward(T(2, 2, 3, 3), T(0), Z(2, 2, 3, 3).bool(), -1)",
        "A._scaled_dot_product_flash_attention_for_cpu_backward(T(1, 2, 4, 8), T(1, 2, 4, 8), T(1, 2, 6, 8), "
        "T(1, 2, 6, 8), T(1, 2, 4, 8), T(0, 2, 4), 0.0, True)",
        "A._weight_int4pack_mm_for_cpu(T(4, 64).bfloat16(), Z(64, 32).byte(), 32, T(0, 64, 2).bfloat16())",
        "A._dyn_quant_matmul_4bit(T(4, 0), T(1088), 32, 64, 32)",
        "A.mkldnn_rnn_layer(T(5, 2, 4), T(12, 4), T(12, 3), T(12), T(12), T(2, 3), T(2, 3), False, [], 2, 7, 1, True, "
        "False, False, True)",
        "torch.segment_reduce(T(2, 6), 'min', lengths=I([[2, 1, 3]]), axis=1)",
        "A._segment_reduce_backward(T(0), T(3, 3), T(6, 3), 'sum', lengths=I([2, 1, 3]))",
        "A._nested_view_from_buffer(T(18), I([[2, 3], [4, 3]]).cpu(), Z(2, 0).cpu(), I([0, 6]).cpu())",
        "A._cdist_backward(T(0, 4), T(3, 5), T(4, 5), 2.0, T(0, 4))",
        "A._pdist_backward(T(10), T(5, 5), 2.0, T(0))",
        "A._compute_linear_combination(T(2, 2, 2), T(2, 3))",
        "A._sparse_mm_reduce_impl_backward(C([0, 1, 2], [0, 1], (2, 3)), T(2, 2), T(3, 2), 'amax', Z(0), [True, True])",
        "A._sparse_mm_reduce_impl_backward(C([0, 1, 2], [0, 1], (2, 3)), T(2, 2), T(1, 2), 'sum', Z(0), [True, True])",
    ],
    ("RuntimeError", SHARED): [
        "A.avg_pool3d.out(T(2, 3, 4, 4), [2, 2, 2], out=T(1, 1, 2, 2).expand(2, 1, 2, 2))",
        "A.avg_pool3d_backward.grad_input(T(2, 1, 2, 2), T(2, 3, 4, 4), [2, 2, 2], [], [0, 0, 0], False, True, None, "
        "grad_input=T(1, 3, 4, 4).expand(2, 3, 4, 4))",
        "A.adaptive_max_pool3d.out(T(2, 3, 4, 4), [1, 2, 2], out=T(1, 1, 2, 2).expand(2, 1, 2, 2), indices=Z(2, 1, 2, 2))",
        "A.max_pool3d_with_indices.out(T(2, 3, 4, 4), [2, 2, 2], out=T(2, 1, 2, 2), indices=Z(1, 1, 2, 2).expand(2, 1, 2, 2))",
        "A.fractional_max_pool2d.output(T(2, 4, 4), [2, 2], [2, 2], T(1, 2, 2), output=T(1, 2, 2).expand(2, 2, 2), "
        "indices=Z(2, 2, 2))",
        "A.rrelu_with_noise_(T(1, 4).expand(3, 4), T(3, 4), 0.1, 0.3, True)",
        "A.upsample_bicubic2d_backward.grad_input(T(1, 2, 8, 8), [8, 8], [1, 2, 4, 4], False, "
        "grad_input=T(1, 1, 4, 4).expand(1, 2, 4, 4))",
        "A.linalg_lu.out(T(3, 3), P=T(3, 3), L=T(1, 3).expand(3, 3), U=T(3, 3))",
        "A.lu_unpack.out(T(3, 3), I([1, 2, 3]).int(), P=T(3, 3), L=T(3, 3), U=T(5).as_strided((3, 3), (1, 1)))",
        "A.narrow_copy.out(T(5, 5), 1, 2, 2, out=T(1, 2).expand(5, 2))",
    ],
    ("", ""): [
        "A.narrow_copy.out(T(5, 5), 1, 2, 2, out=T(2, 5).t())",
        "A.adaptive_max_pool3d_backward(T(1, 4, 4, 3, 5), T(1, 4, 4, 3, 5), I(0).expand(1, 4, 4, 3, 5))",
        "A.rrelu_with_noise.out(T(20), T(20), 0.0, 1.0, True, None, out=T(0)).shape == (20, ) or 1 / 0",
        "F.ctc_loss(L(), I([[1, 3, 2], [4, 4, -(2**40)]]), [6, 5], [3, 2])",
        "torch.linalg.lstsq(T(3, 2, 3), T(3, 2, 0), driver='gels')",
        "torch.sparse.spdiags(T(2, 3).cpu(), I([0, 1]).cpu(), (3, 3))",
        "C([0, 1, 7], [0, 9], (2, 3)).cpu().crow_indices().tolist() == [0, 1, 7] or 1 / 0",
        "torch.gather(T(1, 5, 3), -1, Z(0)).shape == (0, ) or 1 / 0",
    ],
    ("AcceleratorError", RANGE): [
        "A.adaptive_max_pool2d_backward(T(1, 1, 3), T(1, 1, 4), I([[[0, 1, 2**40]]]))",
        "A.adaptive_max_pool3d_backward(T(1, 1, 1, 2), T(1, 1, 1, 4), I([[[[0, -1]]]]))",
        "A.max_pool3d_with_indices_backward(T(1, 2, 1, 2, 2), T(1, 2, 3, 6, 5), [3] * 3, [], [0] * 3, [1] * 3, True, "
        "Z(1, 2, 1, 2, 2) + 2**40)",
        "F.ctc_loss(L(), I([[1, 3, 2**31 - 1], [4, 4, 1]]), [6, 5], [3, 2])",
        "F.ctc_loss(L(), I([[1, 3, -(2**40)], [4, 4, 1]]), I([6, 5]), I([3, 2]))",
        "torch.segment_reduce(T(6, 3), 'max', offsets=I([0, 2**31 - 1, 3, 6]))",
        "torch.segment_reduce(T(6, 3), 'min', lengths=I([2, 2**40]), unsafe=True)",
    ],
    ("IndexError", RANGE): [
        "A._fft_r2c(T(4, 5), [2**31], 0, True)",
        "A._fft_c2c(T(4, 5) + 0j, [-2], 0, True)",
        "A._convert_indices_from_coo_to_csr(I([0, 0, 1, 3]), 2)",
        "A._convert_indices_from_csr_to_coo(I([0, 4, 3, 4]), I([0, 1, 0, 2]))",
        "A._sparse_mm_reduce_impl_backward(C([0, 1, 2], [0, 1], (2, 3)), T(2, 2), T(3, 2), 'amin', Z(2, 2) + 9, [True, True])",
    ],
    ("RuntimeError", "2 integers"): [
        "A.fractional_max_pool2d_backward(T(1, 3, 4, 4), T(1, 3, 9, 9), [4, 4], [], Z(1, 3, 4, 4))",
        "A.upsample_bilinear2d_backward(T(2, 3, 5, 5), [], [2, 3, 4, 4], True)",
        "A._slow_conv2d_backward(T(2, 4, 5, 5), T(2, 3, 5, 5), T(4, 3, 3, 3), [3, 3], [], [1, 1], [True] * 3)",
    ],
    ("RuntimeError", "too large"): [
        "A._upsample_bilinear2d_aa(T(6, 3, 10, 20), [1000, 1000], False, 1.7, 0.9)",
        "A._upsample_bicubic2d_aa(T(1, 2, 6, 5), [1000, 9], False, 0.5, 1.5)",
        "A._slow_conv2d_forward(T(2, 3, 5, 5), T(4, 3, 3, 3), [3, 3], T(4), [1, 1], [1, 2**63 - 1])",
    ],
    ("RuntimeError", "1 elements"): [
        "A.multi_margin_loss_backward(T(0), T(5, 10), I([5, 9, 3, 1, 4]), 1, 0.5)",
        "A.multilabel_margin_loss_backward(T(0), T(10, 5), Z(10, 5), 2, T(10, 5))",
        "A._fused_moving_avg_obs_fq_helper(T(3, 4), I([1]), I([1]), T(1), T(0), T(1), Z(1).int(), 0.01, 0, 255, 0, False, False)",
    ],
    ("RuntimeError", "3 elements"): [
        "torch._weight_norm(T(3, 4), T(0), 0)",
        "A._weight_norm_interface_backward(T(3, 4), T(3, 4), T(3, 1), T(0), 0)",
        "A.batch_norm_update_stats(T(2, 3, 4), T(3), T(0), 0.1)",
    ],
    ("RuntimeError", "too small"): [
        "A.upsample_nearest1d(T(2, 3, 4).byte(), [2], 1e-30)",
        "A._upsample_nearest_exact2d(T(2, 3, 4, 4).byte(), [3, 3], None, 1e-30)",
    ],
    ("RuntimeError", "kernel"): [
        "A.slow_conv3d_forward(T(2, 3, 5, 5, 4), T(4, 3, 3, 2, 3), [3] * 3, T(4), [1] * 3, [1] * 3)",
        "A.slow_conv_transpose2d(T(2, 3, 5, 5), T(3, 4, 3, 3), [1000, 1000], T(4), [2, 2], [1, 1], [1, 1], [1, 1])",
    ],
    ("RuntimeError", "2 dimensions"): [
        "A.batch_norm_elemt(T(3), None, None, T(3), T(3), 0.1)",
        "A.batch_norm_backward_elemt(T(3), T(3), T(3), T(3), None, T(3), T(3), Z(1))",
    ],
    ("RuntimeError", "infs or NaNs"): [
        "torch.linalg.eigvals(T(3, 3) * float('nan'))",
        "torch.linalg.eigvals(T(3, 3) * float('inf'), out=T(0) + 0j)",
    ],
    ("RuntimeError", "self is empty"): ["A._adaptive_avg_pool3d_backward(T(8, 4, 3, 7), T(8, 4, 3, 0))"],
    ("RuntimeError", "to have 6 elements"): [
        "A.native_batch_norm.out(T(1, 6, 3, 4), T(5, 2, 0), None, T(0), T(6), True, 0.1, 1e-5, out=T(0), save_mean=T(0), "
        "save_invstd=T(0))",
    ],
    ("RuntimeError", "where training is False"): [
        "A._native_batch_norm_legit.no_stats_out(T(3, 2, 3, 4), T(2), T(2), False, 0.1, 1e-5, out=T(0), save_mean=T(0), "
        "save_invstd=T(0))",
    ],
    ("(IndexError|AcceleratorError)", ""): [
        "A.max_pool2d_with_indices_backward(T(1, 2, 1, 2), T(1, 2, 3, 6), [3, 3], [2, 2], [0, 0], [1, 2], True, "
        "Z(1, 2, 1, 2) - 2**31)",
    ],
    ("RuntimeError", "expected self to have 4 dimensions"): ["A._masked_softmax(T(0), Z(0).bool(), -1, 1)"],
    ("RuntimeError", "num_head"): ["A._native_multi_head_attention(*[T(2, 3, 8)] * 3, 8, 0, T(24, 8), T(24), T(8, 8), T(8))"],
    ("RuntimeError", "num_heads"): [
        "A._transformer_encoder_layer_fwd(T(2, 3, 8), 8, 0, T(24, 8), T(24), T(8, 8), T(8), False, False, 1e-5, "
        "*[T(8)] * 4, T(16, 8), T(16), T(8, 16), T(8))",
    ],
    ("RuntimeError", "24 elements"): ["A._transform_bias_rescale_qkv(T(2, 3, 24), T(0), 2)"],
    ("RuntimeError", "heads"): ["A._scaled_dot_product_flash_attention_for_cpu(T(1, 4, 3, 8), T(1, 23, 6, 8), T(1, 23, 6, 8))"],
    ("RuntimeError", "no heads or rows"): [
        "A._scaled_dot_product_flash_attention_for_cpu(T(1, 4, 0, 8), T(1, 4, 6, 8), T(1, 4, 6, 8))",
    ],
    ("RuntimeError", "positive strides"): [
        "A.convolution_overrideable(T(2, 3, 8, 8), T(4, 3, 3, 3), None, [0, 0], [0, 0], [1, 1], False, [0, 0], 1)",
    ],
    ("RuntimeError", "do not fit"): [
        "A.convolution_overrideable(T(2, 3, 8, 8), T(4, 5, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 0)",
    ],
    ("RuntimeError", "2 numbers"): [
        "A.convolution_backward_overrideable(T(2, 4, 6, 6), T(2, 3, 8, 8), T(4, 3, 3, 3), [1], [0], [1], False, [0], 1, "
        "[True, True, True])",
    ],
    ("RuntimeError", "block_size"): ["A._dyn_quant_pack_4bit_weight(Z(32, 32).byte(), T(32, 2), None, 0, 64, 32)"],
    ("RuntimeError", "blank must be in label range"): [
        "A._ctc_loss_backward(T(2), L(), I([[1, 3, 2], [4, 4, 1]]), [6, 5], [3, 2], T(2), T(2, 6, 7), 64)",
    ],
    ("RuntimeError", "target_lengths between 0 and 3"): [
        "A._ctc_loss_backward(T(2), L(), I([[1, 3, 2], [4, 4, 1]]), [6, 5], [1000, 1000], T(2), T(2, 6, 7), 0)",
    ],
    ("RuntimeError", "log_alpha"): [
        "A._ctc_loss_backward(T(2), L(), I([[1, 3, 2], [4, 4, 1]]), [6, 5], [3, 2], T(2), T(2, 6, 1), 0)",
    ],
    ("RuntimeError", "no rows"): ["A._nested_compute_contiguous_strides_offsets(Z(0, 2))"],
    ("RuntimeError", "multiple times"): ["A._fft_c2r(T(5, 3, 6) + 0j, [2, 2], 1, 10)"],
    ("RuntimeError", "2 elements"): ["A._fft_c2r(T(5, 6, 4) + 0j, [2], 0, 3)"],
    ("RuntimeError", "square"): ["A._cholesky_solve_helper(T(3, 2), T(18, 3), False)"],
    ("AcceleratorError", "pair"): ["torch.linalg.ldl_solve(T(5, 5), I([1, 2, 3, 4, -1]).int(), T(5, 5))"],
    ("RuntimeError", "gelss"): ["torch.linalg.lstsq(T(3, 2, 3), T(3, 2, 0), driver='gelss')"],
    ("RuntimeError", "at least 0"): ["A._spdiags(T(2, 3), I([0, 1]), [3, -2])"],
    ("RuntimeError", "an index .* less than 3, but got 9"): ["C([0, 1, 2], [0, 9], (2, 3)) @ T(3, 2)"],
    ("RuntimeError", "an index .* but got -1"): ["C([0, 1, 2], [0, -1], (2, 3)) @ T(3)"],
    ("RuntimeError", "an end of the compressed"): ["C([1, 1, 2], [0, 1], (2, 3)) @ T(3, 2)"],
    ("RuntimeError", "an end .* 5"): ["torch.sparse.mm(C([0, 1, 7], [0, 1], (2, 3)), T(3, 2), 'max')"],
    ("RuntimeError", "a step of the compressed"): ["(C([0, 2**40, 2], [0, 1], (2, 3)) @ T(3, 2))"],
    ("RuntimeError", "expected 3 compressed indices"): ["C([0, 1], [0], (2, 3)).to_dense()"],
    ("RuntimeError", "less than 2"): ["C([0, 1, 2, 2], [0, 2], (2, 3), torch.sparse_csc).to_dense()"],
    ("RuntimeError", "less than 2, but got 2"): ["torch.sparse_bsr_tensor(I([0, 1]), I([2]), T(1, 2, 2), (2, 4)).to_dense()"],
    ("RuntimeError", "less than 3, but got 9"): ["torch.sparse.softmax(S([[0, 1], [0, 9]], (2, 3)), 1)"],
    ("RuntimeError", "must have same nnz"): ["torch.cat([A._sparse_coo_tensor_unsafe(I([[0, 1]]), T(5), (2, ))] * 2)"],
    ("RuntimeError", "padding"): ["A.reflection_pad1d_backward(T(1, 10, 116), T(1, 10, 100), [])"],
}

PROGRAM = """
import json, sys, torch
import torch.nn.functional as F

A = torch.ops.aten
def T(*sizes): return torch.ones(sizes, device="rustdev")
def Z(*sizes): return torch.zeros(sizes, dtype=torch.long, device="rustdev")
def I(values): return torch.tensor(values, device="rustdev")
def L(): return T(6, 2, 5).log_softmax(-1)
def C(compressed, plain, size, layout=torch.sparse_csr):
    return torch.sparse_compressed_tensor(I(compressed), I(plain), T(len(plain)), size, layout=layout)
def S(indices, size): return torch.sparse_coo_tensor(I(indices), T(len(indices[0])), size)

for call in json.load(sys.stdin):
    end = "accepted"
    print(json.dumps(call), flush=True)
    try:
        eval(call)
        torch.rustdev.synchronize()
    except Exception as error:
        end = f"{type(error).__name__}: {error}".splitlines()[0]
    works = (torch.ones(3, device="rustdev") + 1).tolist() == [2, 2, 2]
    print(json.dumps(end if works else f"{end}, and the device does not work"), flush=True)
"""


@functools.cache
def ends() -> dict[str, str]:
    """Return how each call ended; they are made in as few children as survive them."""
    found: dict[str, str] = {}
    while left := [call for calls in CASES.values() for call in calls if call not in found]:
        run = subprocess.run([sys.executable, "-c", PROGRAM], input=json.dumps(left), capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        assert lines, run.stderr
        found.update(zip(lines[::2], lines[1::2], strict=False))
        if len(lines) % 2:
            found[lines[-1]] = f"ended the process: {signal.strsignal(-run.returncode) if run.returncode < 0 else run.returncode}"
    return found


@pytest.mark.parametrize(("error", "text", "call"), [(*end, call) for end, calls in CASES.items() for call in calls])
def test_call(error: str, text: str, call: str) -> None:
    assert re.match(rf"{error}: .*({text})" if error else "accepted$", ends()[call]), ends()[call]


def test_guards_are_of_operators_of_pytorch() -> None:
    names = {name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    assert len(GUARDED) > 80
    assert [name for name in GUARDED if f"aten::{name}" not in names] == []
