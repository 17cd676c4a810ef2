"""The registration with Inductor, and patches of two functions that compare the device type with "cpu"."""

import torch
from torch._inductor import ir
from torch._inductor.codegen import common, wrapper_fxir
from torch._inductor.scheduler import BaseSchedulerNode

from .._name import NAME
from . import choices, flex_attention
from .scheduling import Scheduling
from .wrapper import CppWrapper, Wrapper


class _Overrides(common.NoOpDeviceOpOverrides):
    """Device-specific code around kernel calls: none is needed, as the current stream and device are thread-local."""

    def aten_device_type(self) -> str:
        """Return the C++ name of the device type."""
        return "at::kPrivateUse1"


def _count_as_cpu() -> None:
    """Make Inductor treat the device like the CPU, for which the same C++ code is generated.

    Two functions cannot be changed by a registration. ``ir.get_device_type`` decides whether the index of an ``argmax`` counts in
    the tensor or in memory order (the wrong choice gives silently wrong results), and which results are recomputed. ``is_cpu``
    selects how loops are fused; the choice for Triton kernels fails for C++ kernels.
    """
    type_of = ir.get_device_type

    def get_device_type(x: ir.IRNode | ir.OutputSpec | torch.device | str | None) -> str | None:
        found = type_of(x)
        return "cpu" if found == NAME else found

    def is_cpu(self: BaseSchedulerNode) -> bool:
        device = self.get_device()
        return device is not None and device.type in ("cpu", NAME)

    ir.get_device_type = get_device_type
    BaseSchedulerNode.is_cpu = is_cpu  # type: ignore[method-assign]


def register() -> None:
    """Register the device. Called once, by Inductor's backend hook (PyTorch 2.15), with the compile lock held."""
    _count_as_cpu()
    choices.choose_layouts_and_variances()
    choices.call_accumulations()
    choices.keep_lowered()
    flex_attention.lower()
    common.register_backend_for_device(NAME, Scheduling, Wrapper, CppWrapper, wrapper_fxir.WrapperFxCodegen)
    common.register_device_op_overrides(NAME, _Overrides())
