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
GUARDED = set(re.findall(r'^ +\|? ?("\w+".*?)(?: =>|$)', (ROOT / "src/call/guards.rs").read_text(), re.MULTILINE))
GUARDED = {name for line in GUARDED for name in re.findall(r'"(\w+)"', line)}


#: How calls end, by the error's type and a pattern of its text, and the calls below it; lines further in go on with the last one.
#: Kernels of the device's own, poolings, convolutions, losses, sequences, mathematics; sparse tensors whose indices nobody checked.
CALLS = r"""
RuntimeError: expected .* size|do(es)? not fit|same batch|same size|size mismatch|2D tensor expected
    T().addr_(T(5), T(10))
    T(5, 9).addr_(T(5), T(10))
    A._adaptive_avg_pool3d_backward(T(8, 4, 3, 7), T(8, 4, 3, 0))
    A.avg_pool3d_backward(T(0, 1, 2, 3, 2), T(1, 1, 4, 5, 4), [2, 3, 1], [2, 1, 2], [0, 0, 0], False, True, None)
    A.adaptive_max_pool2d_backward(T(3, 4, 1, 3), T(0, 4, 1, 4), Z(3, 4, 1, 3))
    A.max_pool3d_with_indices_backward(T(8, 2, 1, 3, 2), T(1, 2, 3, 6, 5), [3] * 3, [2] * 3, [0] * 3, [1] * 3, True,
        Z(8, 2, 1, 3, 2))
    A.fractional_max_pool2d_backward(T(1, 3, 4, 4), T(1, 3, 9, 9), [4, 4], [], Z(1, 3, 4, 4))
    A.fractional_max_pool3d_backward(T(1, 1, 2, 2, 2), T(1, 1, 4, 5, 4), [2, 2, 1], [2, 2, 2], Z(0))
    A._scaled_dot_product_flash_attention_for_cpu_backward(T(1, 2, 4, 8), T(1, 2, 4, 8), T(1, 2, 6, 8), T(1, 2, 6, 8),
        T(1, 2, 4, 8), T(0, 2, 4), 0.0, True)
    A.rrelu_with_noise.out(T(20), T(20), 0.0, 1.0, True, None, out=T(0))
    torch.segment_reduce(T(2, 6), 'min', lengths=I([[2, 1, 3]]), axis=1)
    A._segment_reduce_backward(T(0), T(3, 3), T(6, 3), 'sum', lengths=I([2, 1, 3]))
    torch.linalg.lstsq(T(3, 2, 3), T(3, 2, 0), driver='gelss')
    A._spdiags(T(2, 3), I([0, 1]), [3, -2])
RuntimeError: single memory location
    A.avg_pool3d.out(T(2, 3, 4, 4), [2, 2, 2], out=T(1, 1, 2, 2).expand(2, 1, 2, 2))
    A.avg_pool3d_backward.grad_input(T(2, 1, 2, 2), T(2, 3, 4, 4), [2, 2, 2], [], [0, 0, 0], False, True, None,
        grad_input=T(1, 3, 4, 4).expand(2, 3, 4, 4))
    A.adaptive_max_pool3d.out(T(2, 3, 4, 4), [1, 2, 2], out=T(1, 1, 2, 2).expand(2, 1, 2, 2), indices=Z(2, 1, 2, 2))
    A.max_pool3d_with_indices.out(T(2, 3, 4, 4), [2, 2, 2], out=T(2, 1, 2, 2), indices=Z(1, 1, 2, 2).expand(2, 1, 2, 2))
    A.fractional_max_pool2d.output(T(2, 4, 4), [2, 2], [2, 2], T(1, 2, 2), output=T(1, 2, 2).expand(2, 2, 2), indices=Z(2, 2, 2))
    A.rrelu_with_noise_(T(1, 4).expand(3, 4), T(3, 4), 0.1, 0.3, True)
    A.upsample_bicubic2d_backward.grad_input(T(1, 2, 8, 8), [8, 8], [1, 2, 4, 4], False,
        grad_input=T(1, 1, 4, 4).expand(1, 2, 4, 4))
    A.linalg_lu.out(T(3, 3), P=T(3, 3), L=T(1, 3).expand(3, 3), U=T(3, 3))
    A.lu_unpack.out(T(3, 3), I([1, 2, 3]).int(), P=T(3, 3), L=T(3, 3), U=T(5).as_strided((3, 3), (1, 1)))
    A.narrow_copy.out(T(5, 5), 1, 2, 2, out=T(1, 2).expand(5, 2))
AcceleratorError: out of bounds|out of range
    A.adaptive_max_pool2d_backward(T(1, 1, 3), T(1, 1, 4), I([[[0, 1, 2**40]]]))
    A.adaptive_max_pool3d_backward(T(1, 1, 1, 2), T(1, 1, 1, 4), I([[[[0, -1]]]]))
    A.max_pool3d_with_indices_backward(T(1, 2, 1, 2, 2), T(1, 2, 3, 6, 5), [3] * 3, [], [0] * 3, [1] * 3, True,
        Z(1, 2, 1, 2, 2) + 2**40)
    F.ctc_loss(L(), I([[1, 3, 2**31 - 1], [4, 4, 1]]), [6, 5], [3, 2])
    F.ctc_loss(L(), I([[1, 3, -(2**40)], [4, 4, 1]]), I([6, 5]), I([3, 2]))
    F.multi_margin_loss(T(2, 8), I([9, 9]))
    torch.segment_reduce(T(6, 3), 'max', offsets=I([0, 2**31 - 1, 3, 6]))
    torch.segment_reduce(T(6, 3), 'min', lengths=I([2, 2**40]), unsafe=True)
RuntimeError: 1 elements
    A.multi_margin_loss_backward(T(0), T(5, 10), I([5, 9, 3, 1, 4]), 1, 0.5)
    A.multilabel_margin_loss_backward(T(0), T(10, 5), Z(10, 5), 2, T(10, 5))
    A._fused_moving_avg_obs_fq_helper(T(3, 4), I([1]), I([1]), T(1), T(0), T(1), Z(1).int(), 0.01, 0, 255, 0, False, False)
RuntimeError: too small
    A.upsample_nearest1d(T(2, 3, 4).byte(), [2], 1e-30)
    A._upsample_nearest_exact2d(T(2, 3, 4, 4).byte(), [3, 3], None, 1e-30)
NotImplementedError: for this device
    A.slow_conv3d_forward(T(2, 3, 5, 5, 4), T(4, 3, 3, 2, 3), [3] * 3, T(4), [1] * 3, [1] * 3)
    A.mkldnn_rnn_layer(T(5, 2, 4), T(12, 4), T(12, 3), T(12), T(12), T(2, 3), T(2, 3), False, [], 2, 7, 1, True, False, False,
        True)
RuntimeError: 3 elements
    torch._weight_norm(T(3, 4), T(0), 0)
    A.batch_norm_update_stats(T(2, 3, 4), T(3), T(0), 0.1)
RuntimeError: 2 dimensions
    A.batch_norm_elemt(T(3), None, None, T(3), T(3), 0.1)
    A.batch_norm_backward_elemt(T(3), T(3), T(3), T(3), None, T(3), T(3), Z(1))
RuntimeError: infs or NaNs
    torch.linalg.eigvals(T(3, 3) * float('nan'))
    torch.linalg.eigvals(T(3, 3) * float('inf'), out=T(0) + 0j)
RuntimeError: to have 6 elements
    A.native_batch_norm.out(T(1, 6, 3, 4), T(5, 2, 0), None, T(0), T(6), True, 0.1, 1e-5, out=T(0), save_mean=T(0),
        save_invstd=T(0))
RuntimeError: running_mean to be defined
    A._native_batch_norm_legit.no_stats_out(T(3, 2, 3, 4), T(2), T(2), False, 0.1, 1e-5, out=T(0), save_mean=T(0),
        save_invstd=T(0))
(IndexError|AcceleratorError): \w
    A.max_pool2d_with_indices_backward(T(1, 2, 1, 2), T(1, 2, 3, 6), [3, 3], [2, 2], [0, 0], [1, 2], True, Z(1, 2, 1, 2) - 2**31)
RuntimeError: heads
    A._scaled_dot_product_flash_attention_for_cpu(T(1, 4, 3, 8), T(1, 23, 6, 8), T(1, 23, 6, 8))
    A._native_multi_head_attention(T(2, 5, 8), T(2, 5, 8), T(2, 5, 8), 8, 0, T(24, 8), T(24), T(8, 8), T(8))
RuntimeError: no heads or rows
    A._scaled_dot_product_flash_attention_for_cpu(T(1, 4, 0, 8), T(1, 4, 6, 8), T(1, 4, 6, 8))
RuntimeError: positive strides
    A.convolution_overrideable(T(2, 3, 8, 8), T(4, 3, 3, 3), None, [0, 0], [0, 0], [1, 1], False, [0, 0], 1)
RuntimeError: expected bias to be 1-dimensional with 4 elements
    A.convolution_overrideable(T(2, 3, 8, 8), T(4, 3, 1, 1), T(1), [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    A.convolution_overrideable(T(2, 3, 8, 8), T(4, 3, 1, 1), T(1, 4), [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
RuntimeError: do not fit
    A.convolution_overrideable(T(2, 3, 8, 8), T(4, 5, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 0)
RuntimeError: 2 numbers
    A.convolution_backward_overrideable(T(2, 4, 6, 6), T(2, 3, 8, 8), T(4, 3, 3, 3), [1], [0], [1], False, [0], 1,
        [True, True, True])
RuntimeError: target_lengths between 0 and 3
    A._ctc_loss_backward(T(2), L(), I([[1, 3, 2], [4, 4, 1]]), [6, 5], [1000, 1000], T(2), T(2, 6, 7), 0)
AcceleratorError: invalid max index
    F.max_unpool2d(T(1, 1, 2, 2), Z(1, 1, 2, 2) + 900, 2)
AcceleratorError: pair
    torch.linalg.ldl_solve(T(5, 5), I([1, 2, 3, 4, -1]).int(), T(5, 5))
RuntimeError: an index .* less than 3, but got 9
    C([0, 1, 2], [0, 9], (2, 3)) @ T(3, 2)
RuntimeError: an index .* but got -1
    C([0, 1, 2], [0, -1], (2, 3)) @ T(3)
RuntimeError: an end of the compressed
    C([1, 1, 2], [0, 1], (2, 3)) @ T(3, 2)
RuntimeError: an end .* 5
    torch.sparse.mm(C([0, 1, 7], [0, 1], (2, 3)), T(3, 2), 'max')
RuntimeError: a step of the compressed
    (C([0, 2**40, 2], [0, 1], (2, 3)) @ T(3, 2))
RuntimeError: expected 3 compressed indices
    C([0, 1], [0], (2, 3)).to_dense()
RuntimeError: less than 2
    C([0, 1, 2, 2], [0, 2], (2, 3), torch.sparse_csc).to_dense()
RuntimeError: less than 2, but got 2
    torch.sparse_bsr_tensor(I([0, 1]), I([2]), T(1, 2, 2), (2, 4)).to_dense()
RuntimeError: less than 3, but got 9
    torch.sparse.softmax(S([[0, 1], [0, 9]], (2, 3)), 1)
RuntimeError: must have same nnz
    torch.cat([A._sparse_coo_tensor_unsafe(I([[0, 1]]), T(5), (2,))] * 2)
RuntimeError: padding
    A.reflection_pad1d_backward(T(1, 10, 116), T(1, 10, 100), [])
accepted
    A.narrow_copy.out(T(5, 5), 1, 2, 2, out=T(2, 5).t())
    A.adaptive_max_pool3d_backward(T(1, 4, 4, 3, 5), T(1, 4, 4, 3, 5), I(0).expand(1, 4, 4, 3, 5))
    F.ctc_loss(L(), I([[1, 3, 2], [4, 4, -(2**40)]]), [6, 5], [3, 2])
    torch.linalg.lstsq(T(3, 2, 3), T(3, 2, 0), driver='gels')
    torch.sparse.spdiags(T(2, 3).cpu(), I([0, 1]).cpu(), (3, 3))
    C([0, 1, 7], [0, 9], (2, 3)).cpu().crow_indices().tolist() == [0, 1, 7] or 1 / 0
    torch.gather(T(1, 5, 3), -1, Z(0)).shape == (0,) or 1 / 0
"""


def cases() -> dict[str, str]:
    """Return the calls with the patterns of how they end."""
    found, end = {}, ""
    for line in CALLS.strip().replace("\n        ", " ").splitlines():
        if line.startswith(" "):
            found[line.strip()] = end
        else:
            end = line.replace(": ", ": .*(", 1) + ")" if ": " in line else f"{line}$"
    return found


CASES = cases()

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
    while len(found) < len(CASES):
        left = [call for call in CASES if call not in found]
        run = subprocess.run([sys.executable, "-c", PROGRAM], input=json.dumps(left), capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        assert lines, run.stderr
        found.update(zip(lines[::2], lines[1::2], strict=False))
        if len(lines) % 2:
            found[lines[-1]] = (
                f"ended the process: {signal.Signals(-run.returncode).name if run.returncode < 0 else run.returncode}"
            )
    return found


@pytest.mark.parametrize("call", CASES)
def test_call(call: str) -> None:
    assert re.match(CASES[call], ends()[call]), ends()[call]


def test_guards_are_of_operators_of_pytorch() -> None:
    names = {name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    assert len(GUARDED) > 60
    assert [name for name in GUARDED if f"aten::{name}" not in names] == []
