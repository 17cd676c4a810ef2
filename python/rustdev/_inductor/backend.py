"""The registration with Inductor, and the two lines where it asks for the word "cpu" and must find it."""

import torch
from torch._inductor import ir
from torch._inductor.codegen import common, wrapper_fxir
from torch._inductor.scheduler import BaseSchedulerNode

from . import choices
from .scheduling import Scheduling
from .wrapper import CppWrapper, Wrapper

__all__ = ["register"]


class _Overrides(common.NoOpDeviceOpOverrides):
    """The little code around kernels that names the device: none, as streams and devices belong to the thread."""

    def aten_device_type(self) -> str:
        """Return the C++ name of the device's type."""
        return "at::kPrivateUse1"


def _count_as_cpu() -> None:
    """Have Inductor treat the device as it does the CPU, for which the same C++ is generated.

    No registration reaches these two. ``ir.get_device_type`` decides whether the index of an ``argmax`` is that of the tensor or
    that of its memory (the wrong one is wrong silently), and which results are kept rather than computed again. ``is_cpu`` decides
    how loops are brought together, which differs for Triton's kernels and fails for C++ ones.
    """
    type_of = ir.get_device_type

    def get_device_type(x: ir.IRNode | ir.OutputSpec | torch.device | str | None) -> str | None:
        found = type_of(x)
        return "cpu" if found == "rustdev" else found

    def is_cpu(self: BaseSchedulerNode) -> bool:
        device = self.get_device()
        return device is not None and device.type in ("cpu", "rustdev")

    ir.get_device_type = get_device_type
    BaseSchedulerNode.is_cpu = is_cpu  # type: ignore[method-assign]


def register() -> None:
    """Register the device; called once, by the hook that 2.15 brought, with the compile lock held."""
    _count_as_cpu()
    choices.choose_layouts_and_variances()
    choices.call_accumulations()
    choices.keep_lowered()
    common.register_backend_for_device("rustdev", Scheduling, Wrapper, CppWrapper, wrapper_fxir.WrapperFxCodegen)
    common.register_device_op_overrides("rustdev", _Overrides())
