"""Which C++ is written for the fused operators of a graph."""

from typing import Any

import torch
from torch._inductor import config
from torch._inductor.codegen import cpp
from torch._inductor.scheduler import FusedSchedulerNode, SchedulerNode
from torch._inductor.virtualized import V

from .kernels import PARTS
from .loops import Group, KernelProxy

__all__ = ["Scheduling"]

#: Has loops divided for the number of parts in place of the number of threads, and from so many elements a part on.
_DIVISION: dict[str, Any] = {"cpp.threads": PARTS, "cpp.dynamic_threads": False, "cpp.min_chunk_size": 128}


class Scheduling(cpp.CppScheduling):
    """PyTorch's C++ backend, with our kernels."""

    kernel_proxy_cls = KernelProxy

    def reset_kernel_group(self) -> None:
        """Begin a new kernel."""
        self.kernel_group = Group()

    def codegen_node(self, node: cpp.OuterLoopFusedSchedulerNode | FusedSchedulerNode | SchedulerNode) -> None:
        """Add a fused operator to the kernel.

        Args:
            node: The operator.
        """
        # Code generation asks for the current device, and writes Triton's dialect for all that it does not know.
        with V.graph.set_current_device(torch.device("cpu")), config.patch(_DIVISION):
            super().codegen_node(node)
