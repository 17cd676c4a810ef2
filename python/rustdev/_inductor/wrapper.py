"""The code that allocates a graph's memory and calls its kernels: in Python, and in C++ for ``cpp_wrapper`` and AOTInductor."""

import re
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch._inductor.virtualized import V

from .kernels import prefix
from .loops import MARK

__all__ = ["CppWrapper", "Wrapper"]


def _finish_kernels() -> None:
    """Write the calls of all kernels so far. The scheduler's own flush would also free what the current operator reads."""
    for backend in V.graph.scheduler.backends.values():
        backend.flush()


class _Calls:
    """What both graphs and the graphs inside them (branches, loop bodies) have of their own."""

    def define_kernel(self, kernel_name: str, kernel_body: str, *args: Any, **kwargs: Any) -> None:
        """Write a kernel's definition.

        Args:
            kernel_name: Its name in the graph.
            kernel_body: The code that compiles it.
            *args: As PyTorch's.
            **kwargs: As PyTorch's.
        """
        if MARK in kernel_body:
            kernel_body = kernel_body.replace("async_compile.cpp_pybinding(", "rustdev_kernel(", 1)
        super().define_kernel(kernel_name, kernel_body, *args, **kwargs)  # type: ignore[misc]

    def _generate_kernel_call_helper(
        self, kernel_name: str, call_args: list[str], *, device: torch.device | None = None, **kwargs: Any
    ) -> None:
        device = device or V.graph.get_current_device_or_throw()
        # PyTorch's refuses devices that it does not know; the call is that of a kernel for the CPU, whose arguments are complete.
        called_as = torch.device("cpu") if device.type == "rustdev" else device
        super()._generate_kernel_call_helper(kernel_name, call_args, device=called_as, **kwargs)  # type: ignore[misc]

    def make_allocation(self, name: str, device: torch.device, *args: Any, **kwargs: Any) -> str:
        """Return the code that allocates a buffer.

        Args:
            name: The buffer's.
            device: Where, with its index, which PyTorch leaves out for devices that it does not know.
            *args: As PyTorch's.
            **kwargs: As PyTorch's.
        """
        code: str = super().make_allocation(name, device, *args, **kwargs)  # type: ignore[misc]
        return code.replace("device='rustdev'", f"device='{device}'")

    def generate_fallback_kernel(self, node: Any) -> None:
        """Write the call of an operator that is not compiled.

        Args:
            node: The operator.
        """
        # One without results, as `event.record()`, has not ended the kernel that is being written.
        _finish_kernels()
        super().generate_fallback_kernel(node)  # type: ignore[misc]

    def codegen_enter_cuda_stream_context(self, code: Any, stream_idx: int) -> None:
        """Write the beginning of what runs on a stream.

        Args:
            code: Where to.
            stream_idx: The number of the stream in the graph; 0 for the one that is current when the graph is called.
        """
        # PyTorch puts the streams into variables together with a guard of the device, which there is none of here.
        of_user = V.graph.scheduler.stream_idx_to_user_obj_idx.get(stream_idx)
        stream = f"torch._dynamo.variables.streams._get_stream_by_index({of_user})"
        code.writeline(f"with {'torch._ops.contextlib.nullcontext()' if of_user is None else stream}:")
        code.do_indent()

    def codegen_cuda_stream_exit(self) -> None:
        """End what runs on a stream, with the kernels that are written so far."""
        _finish_kernels()
        super().codegen_cuda_stream_exit()  # type: ignore[misc]

    def generate(self, is_inference: bool) -> Any:
        """Return the graph's code.

        Args:
            is_inference: Whether there is no backward.
        """
        scheduler = V.graph.scheduler
        if scheduler is not None and scheduler.current_stream_idx is not None:
            scheduler.generate_stream_ctx_exit()
        return super().generate(is_inference)  # type: ignore[misc]


class _SubgraphWrapper(_Calls, SubgraphPythonWrapperCodegen):
    """A graph inside another."""


class Wrapper(_Calls, PythonWrapperCodegen):
    """A graph."""

    @staticmethod
    def create(
        is_subgraph: bool, subgraph_name: Any, parent_wrapper: Any, partition_signatures: Any = None
    ) -> PythonWrapperCodegen:
        """Return what writes a graph.

        Args:
            is_subgraph: Whether it is inside another.
            subgraph_name: Its name there.
            parent_wrapper: What writes the other.
            partition_signatures: As PyTorch's.
        """
        if not is_subgraph:
            return Wrapper()  # type: ignore[no-untyped-call]
        return _SubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)

    def write_header(self) -> None:
        """Write what comes before the kernels."""
        super().write_header()
        self.imports.writeline("from rustdev._inductor.kernels import kernel as rustdev_kernel")
        if config.triton.cudagraphs:
            self.imports.writeline("from rustdev._inductor.replays import Replays")

    def generate_after_suffix(self, result: Any) -> None:
        """Write what comes after the function that runs the graph.

        Args:
            result: Where to.
        """
        super().generate_after_suffix(result)
        if config.triton.cudagraphs and V.graph.device_types <= {"rustdev"}:
            mutated = [index for index, name in enumerate(V.graph.graph_inputs) if name in V.graph.mutated_inputs]
            # Gradients are the program's, which does not ask for the last ones while it computes the next.
            (output,) = V.graph.graph.find_nodes(op="output")
            visible = (
                [] if V.graph.is_backward else list(output.meta.get("user_visible_output_idxs", range(len(V.graph.graph_outputs))))
            )
            result.writeline(f"call = Replays(call, {mutated}, {visible})")


class CppWrapper(CppWrapperCpu):
    """A graph in C++. Its kernels are in the same library, and are tasks as well; operators go through the dispatcher."""

    def __init__(self) -> None:
        self.device = "rustdev"  # first: it decides how constants are kept
        super().__init__()  # type: ignore[no-untyped-call]

    @staticmethod
    def create(is_subgraph: bool, subgraph_name: Any, parent_wrapper: Any, partition_signatures: Any = None) -> "CppWrapper":
        """Return what writes a graph.

        Args:
            is_subgraph: Whether it is inside another.
            subgraph_name: Its name there.
            parent_wrapper: What writes the other.
            partition_signatures: As PyTorch's.
        """
        return CppWrapper()

    def define_kernel(self, kernel_name: str, kernel_body: str, *args: Any, **kwargs: Any) -> None:
        """Write a kernel, and the function that makes a call of it a task.

        Args:
            kernel_name: Its name in the graph.
            kernel_body: Its source, as ``loops.Group`` writes it.
            *args: As PyTorch's.
            **kwargs: As PyTorch's.
        """
        if MARK in kernel_body:
            head, parameters, body = re.split(r'extern "C" void kernel\((.*)\)', kernel_body)
            names = ", ".join(parameter.rpartition(" ")[2] for parameter in parameters.split(", "))
            call = f'extern "C" void {kernel_name}(int64_t device, {parameters})'
            inside = f"rustdev_{kernel_name}"
            self._begin_kernels()
            kernel_body = (
                f"namespace {inside} {{\n{head}static void kernel({parameters}){body}}}\n"
                f"{call} {{ rustdev::enqueue({inside}::kernel, {inside}::cost, {inside}::kernel_name, device, {names}); }}\n"
            )
            kwargs["cpp_definition"] = f"{call};\n"
        super().define_kernel(kernel_name, kernel_body, *args, **kwargs)

    def _generate_kernel_call_helper(
        self, kernel_name: str, call_args: list[str], *, device: torch.device | None = None, **kwargs: Any
    ) -> None:
        if device is not None and device.type == self.device:
            call_args = [self.codegen_device_idx(device, call_args[0]), *call_args[1:]]  # type: ignore[no-untyped-call]
        super()._generate_kernel_call_helper(kernel_name, call_args, device=device, **kwargs)

    def generate_fallback_kernel(self, node: Any) -> None:
        """Write the call of an operator that is not compiled, through the dispatcher.

        Args:
            node: The operator.
        """
        self.generate_fallback_kernel_with_runtime_lookup(
            node.get_name(),
            node.python_kernel_name,
            lambda: [*node.codegen_args(), *node.codegen_kwargs()],
            node.op_overload,
            node.export_extern_kernel_node(),
            node.codegen_outputs(),
        )

    def _begin_kernels(self) -> None:
        """Write what stands in front of the kernels, and connects them with the runtime."""
        if not self.kernel_declarations:
            self.needs_vec_isa = True
            self.kernel_declarations.splice(prefix())

    def finalize_prefix(self) -> None:
        """Write what stands in front of the graph."""
        self._begin_kernels()  # a library without kernels is connected as well
        super().finalize_prefix()  # type: ignore[no-untyped-call]

    def _generate_end_jit(self, result: Any) -> None:
        super()._generate_end_jit(result)  # type: ignore[no-untyped-call]
        result.splice("from rustdev._inductor.kernels import connect\nconnect(inductor_entry.__self__.__file__)")

    def codegen_enter_cuda_stream_context(self, code: Any, stream_idx: int) -> None:
        """Refuse what runs on a stream of the program's.

        Args:
            code: Where it would be written.
            stream_idx: The number of the stream.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("a graph in C++ runs on the current stream alone: streams are not supported in it")
