"""Operands on several devices: every operator of PyTorch's database rejects them with a message that names the devices."""

import itertools
from typing import Any

import pytest
import torch
from rustdev_conformance.database import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils import _pytree as pytree

# Operators that take operands of several devices here, and why: read off PyTorch's functions, not off another accelerator.
REASONS = {
    "indices may be in host memory": "__getitem__ _unsafe_masked_index",
    "lengths may be in host memory": "_segment_reduce",
    "indices come from anywhere": "_unsafe_masked_index_put_accumulate index_put",
    "a copy, which goes between devices": "as_strided_scatter diagonal_scatter select_scatter slice_scatter",
    "each tensor is a result of its own": "atleast_1d atleast_2d atleast_3d broadcast_tensors meshgrid",
    "the first sample with several operands takes no difference": "diff",
    "only the shape of the second is used": "expand_as reshape_as resize_as_ view_as",
    "targets and lengths are moved to where they are read": "nn.functional.ctc_loss",
    "the positions of cuts are in host memory": "tensor_split",
    "moves between devices": "to",
}
EXPECTED = {name for names in REASONS.values() for name in names.split()}


pytestmark = pytest.mark.usefixtures("fallback")
#: Samples among which one with several operands is looked for.
SAMPLES = 8


def leaves(sample: Any) -> tuple[list[Any], Any]:
    """Return everything in the arguments of a sample, flat, and how to put it together again."""
    return pytree.tree_flatten((sample.input, sample.args, sample.kwargs))


def mixtures(op: OpInfo) -> list[tuple[Any, Any]]:
    """Return the first sample with several operands, once for each operand and each other device that it can be on."""
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32), SAMPLES):
        flat, spec = leaves(sample)
        # A number of no dimensions may be in host memory.
        operands = [index for index, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.numel()]
        if len(operands) > 1:
            home = [leaf.to("rustdev") if isinstance(leaf, torch.Tensor) else leaf for leaf in flat]
            mixed = itertools.product(operands, ("cpu", "rustdev:1"))
            return [([*home[:index], flat[index].to(place), *home[index + 1 :]], spec) for index, place in mixed]
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
@pytest.mark.parametrize("op", CASES, ids=lambda op: op.formatted_name)
def test_operands_of_two_devices_are_refused(op: OpInfo) -> None:
    """Whichever operand is elsewhere, and with the fallback forbidden where the operands of one device need none."""
    found = mixtures(op)
    torch.rustdev.set_fallback_mode("error" if found and has_kernels(op, *found[0]) else "allow")
    for flat, spec in found:
        first, args, kwargs = pytree.tree_unflatten(flat, spec)
        with pytest.raises((RuntimeError, TypeError, ValueError), match=r"(?i)device") as refusal:
            op(first, *args, **kwargs)
        assert not isinstance(refusal.value, NotImplementedError), "the call was left to the fallback"
