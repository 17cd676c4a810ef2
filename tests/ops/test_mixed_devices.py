"""Operands on several devices: every operator of PyTorch's database rejects them with a message that names the devices."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from torch.testing._internal.opinfo.core import OpInfo

# Operators that take operands of several devices here, and why: read off PyTorch's functions, not off another accelerator.
EXPECTED = {
    "__getitem__": "indices may be in host memory",
    "_segment_reduce": "lengths may be in host memory",
    "_unsafe_masked_index": "indices may be in host memory",
    "_unsafe_masked_index_put_accumulate": "indices come from anywhere",
    "as_strided_scatter": "a copy, which goes between devices",
    "atleast_1d": "each tensor is a result of its own",
    "atleast_2d": "each tensor is a result of its own",
    "atleast_3d": "each tensor is a result of its own",
    "broadcast_tensors": "each tensor is a result of its own",
    "diagonal_scatter": "a copy, which goes between devices",
    "diff": "the first sample with several operands takes no difference",
    "expand_as": "only the shape of the second is used",
    "index_put": "indices come from anywhere",
    "meshgrid": "each tensor is a result of its own",
    "nn.functional.ctc_loss": "targets and lengths are moved to where they are read",
    "reshape_as": "only the shape of the second is used",
    "resize_as_": "only the shape of the second is used",
    "select_scatter": "a copy, which goes between devices",
    "slice_scatter": "a copy, which goes between devices",
    "tensor_split": "the positions of cuts are in host memory",
    "to": "moves between devices",
    "view_as": "only the shape of the second is used",
}


pytestmark = pytest.mark.usefixtures("fallback")
#: Samples among which one with several operands is looked for.
SAMPLES = 8


def leaves(sample: Any) -> tuple[list[Any], Any]:
    """Return everything in the arguments of a sample, flat, and how to put it together again."""
    return pytree.tree_flatten((sample.input, sample.args, sample.kwargs))


def mixtures(op: OpInfo, elsewhere: str) -> list[tuple[Any, Any]]:
    """Return the first sample with several operands, once for each operand that can be on another device."""
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32), SAMPLES):
        flat, spec = leaves(sample)
        # A number of no dimensions may be in host memory.
        operands = [index for index, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.numel()]
        tensors = [index for index, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)]
        if len(operands) > 1:
            home = [leaf.to("rustdev") if index in tensors else leaf for index, leaf in enumerate(flat)]
            return [([*home[:index], flat[index].to(elsewhere), *home[index + 1 :]], spec) for index in operands]
    return []


def has_kernels(op: OpInfo, flat: list[Any], spec: Any) -> bool:
    """Return whether a call with all of its operands on the device needs no fallback."""
    home = [leaf.to("rustdev") if isinstance(leaf, torch.Tensor) else leaf for leaf in flat]
    first, args, kwargs = pytree.tree_unflatten(home, spec)
    torch.rustdev.set_fallback_mode("error")
    try:
        op(first, *args, **kwargs)
    except NotImplementedError:
        return False
    return True


# The jiterator compiles for GPUs alone.
CASES = [op for op in op_db if torch.float32 in op.dtypes and op.name not in EXPECTED and not op.name.startswith("jiterator")]


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.filterwarnings("ignore:torch.qr is deprecated")  # samples of linalg.pinv in PyTorch 2.13
@pytest.mark.filterwarnings("ignore:Using torch.cross without specifying the dim arg")
@pytest.mark.filterwarnings("ignore:torch.(lu_solve|triangular_solve) is deprecated")
@pytest.mark.parametrize("elsewhere", ["cpu", "rustdev:1"])
@pytest.mark.parametrize("op", CASES, ids=lambda op: op.formatted_name)
def test_operands_of_two_devices_are_refused(op: OpInfo, elsewhere: str) -> None:
    """Whichever operand is elsewhere, and with the fallback forbidden where the operands of one device need none."""
    for flat, spec in mixtures(op, elsewhere):
        torch.rustdev.set_fallback_mode("error" if has_kernels(op, flat, spec) else "allow")
        first, args, kwargs = pytree.tree_unflatten(flat, spec)
        with pytest.raises((RuntimeError, TypeError, ValueError), match=r"(?i)device") as refusal:
            op(first, *args, **kwargs)
        assert not isinstance(refusal.value, NotImplementedError), "the call was left to the fallback"
