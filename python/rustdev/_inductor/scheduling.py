"""The scheduling of fused operators: PyTorch's C++ backend with our kernels."""

from typing import Any

import torch
from torch._inductor import config
from torch._inductor.codegen import cpp
from torch._inductor.scheduler import FusedSchedulerNode, SchedulerNode
from torch._inductor.virtualized import V

from .kernels import PARTS
from .loops import Group, KernelProxy

#: Divides loops into PARTS parts instead of the number of threads, with at least 128 elements each.
_DIVISION: dict[str, Any] = {"cpp.threads": PARTS, "cpp.dynamic_threads": False, "cpp.min_chunk_size": 128}


class Scheduling(cpp.CppScheduling):
    """PyTorch's C++ backend, with our kernels."""

    kernel_proxy_cls = KernelProxy

    def reset_kernel_group(self) -> None:
        """Begin a new kernel."""
        self.kernel_group = Group()

    def codegen_node(self, node: cpp.OuterLoopFusedSchedulerNode | FusedSchedulerNode | SchedulerNode) -> None:
        """Add a fused operator to the current kernel.

        Args:
            node: Fused operator.
        """
        # Code generation checks the current device, and emits Triton syntax for unknown devices.
        with V.graph.set_current_device(torch.device("cpu")), config.patch(_DIVISION):
            super().codegen_node(node)
