"""The code that allocates a graph's memory and calls its kernels: in Python, and in C++ for ``cpp_wrapper`` and AOTInductor."""

import re
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch._inductor.virtualized import V

from .._name import NAME
from .kernels import prefix
from .loops import MARK


def _finish_kernels() -> None:
    """Generate the calls of all kernels so far. The scheduler's own flush would also free inputs of the current operator."""
    for backend in V.graph.scheduler.backends.values():
        backend.flush()


class _Calls:
    """Overrides for graphs and for their subgraphs (branches, loop bodies)."""

    def define_kernel(self, kernel_name: str, kernel_body: str, *args: Any, **kwargs: Any) -> None:
        """Generate the definition of a kernel.

        Args:
            kernel_name: Name of the kernel in the graph.
            kernel_body: Code that compiles the kernel.
            *args: Other arguments of the base class.
            **kwargs: Other arguments of the base class.
        """
        if MARK in kernel_body:
            kernel_body = kernel_body.replace("async_compile.cpp_pybinding(", "rustdev_kernel(", 1)
        super().define_kernel(kernel_name, kernel_body, *args, **kwargs)  # type: ignore[misc]

    def _generate_kernel_call_helper(
        self, kernel_name: str, call_args: list[str], *, device: torch.device | None = None, **kwargs: Any
    ) -> None:
        device = device or V.graph.get_current_device_or_throw()
        # PyTorch's method rejects unknown devices. The call is generated as for a CPU kernel: `call_args` is complete.
        called_as = torch.device("cpu") if device.type == NAME else device
        super()._generate_kernel_call_helper(kernel_name, call_args, device=called_as, **kwargs)  # type: ignore[misc]

    def make_allocation(self, name: str, device: torch.device, *args: Any, **kwargs: Any) -> str:
        """Return code that allocates a buffer. It names the device index, which PyTorch omits for unknown devices.

        Args:
            name: Name of the buffer.
            device: Device of the buffer, with index.
            *args: Other arguments of the base class.
            **kwargs: Other arguments of the base class.
        """
        code: str = super().make_allocation(name, device, *args, **kwargs)  # type: ignore[misc]
        return code.replace(f"device='{NAME}'", f"device='{device}'")

    def generate_fallback_kernel(self, node: Any) -> None:
        """Generate the call of an operator that is not compiled.

        Args:
            node: Operator.
        """
        # The scheduler does not flush the current kernel before operators without results, such as `event.record()`.
        _finish_kernels()
        super().generate_fallback_kernel(node)  # type: ignore[misc]

    def codegen_enter_cuda_stream_context(self, code: Any, stream_idx: int) -> None:
        """Begin a block of code that runs on a stream.

        Args:
            code: Buffer to write to.
            stream_idx: Index of the stream in the graph; 0 is the current stream of the call.
        """
        # PyTorch defines variables for the streams together with a device guard, which this device does not need.
        of_user = V.graph.scheduler.stream_idx_to_user_obj_idx.get(stream_idx)
        stream = f"torch._dynamo.variables.streams._get_stream_by_index({of_user})"
        code.writeline(f"with {'torch._ops.contextlib.nullcontext()' if of_user is None else stream}:")
        code.do_indent()

    def codegen_cuda_stream_exit(self) -> None:
        """End a block of code that runs on a stream, after the kernels so far."""
        _finish_kernels()
        super().codegen_cuda_stream_exit()  # type: ignore[misc]

    def generate(self, is_inference: bool) -> Any:
        """Return the code of the graph.

        Args:
            is_inference: Whether the graph has no backward.
        """
        scheduler = V.graph.scheduler
        if scheduler is not None and scheduler.current_stream_idx is not None:
            scheduler.generate_stream_ctx_exit()
        return super().generate(is_inference)  # type: ignore[misc]


class _SubgraphWrapper(_Calls, SubgraphPythonWrapperCodegen):
    """Wrapper code generator of a subgraph."""


class Wrapper(_Calls, PythonWrapperCodegen):
    """Wrapper code generator of a graph in Python."""

    @staticmethod
    def create(
        is_subgraph: bool, subgraph_name: Any, parent_wrapper: Any, partition_signatures: Any = None
    ) -> PythonWrapperCodegen:
        """Create the wrapper code generator of a graph.

        Args:
            is_subgraph: Whether the graph is a subgraph.
            subgraph_name: Name of the subgraph.
            parent_wrapper: Wrapper of the enclosing graph.
            partition_signatures: See the base class.
        """
        if not is_subgraph:
            return Wrapper()  # type: ignore[no-untyped-call]
        return _SubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)

    def write_header(self) -> None:
        """Generate the imports before the kernels."""
        super().write_header()
        self.imports.writeline("from rustdev._inductor.kernels import kernel as rustdev_kernel")
        self.imports.writeline("from rustdev._inductor.flex_attention import function as flex_attention_function")
        if config.triton.cudagraphs:
            self.imports.writeline("from rustdev._inductor.replays import Replays")

    def generate_after_suffix(self, result: Any) -> None:
        """Generate the code after the function that runs the graph: for "reduce-overhead" it is wrapped in Replays.

        Args:
            result: Buffer to write to.
        """
        super().generate_after_suffix(result)
        if config.triton.cudagraphs and V.graph.device_types <= {NAME}:
            mutated = [index for index, name in enumerate(V.graph.graph_inputs) if name in V.graph.mutated_inputs]
            # Results of a backward are not copied: programs do not use gradients any more when they compute the next ones.
            (output,) = V.graph.graph.find_nodes(op="output")
            visible = (
                [] if V.graph.is_backward else list(output.meta.get("user_visible_output_idxs", range(len(V.graph.graph_outputs))))
            )
            result.writeline(f"call = Replays(call, {mutated}, {visible})")


class CppWrapper(CppWrapperCpu):
    """Wrapper code generator of a graph in C++. Its kernels are in the same library; operators are called by the dispatcher."""

    def __init__(self) -> None:
        self.device = NAME  # before super().__init__(), which uses it to decide how constants are stored
        super().__init__()  # type: ignore[no-untyped-call]

    @staticmethod
    def create(is_subgraph: bool, subgraph_name: Any, parent_wrapper: Any, partition_signatures: Any = None) -> "CppWrapper":
        """Create the wrapper code generator of a graph.

        Args:
            is_subgraph: Whether the graph is a subgraph.
            subgraph_name: Name of the subgraph.
            parent_wrapper: Wrapper of the enclosing graph.
            partition_signatures: See the base class.
        """
        return CppWrapper()

    def define_kernel(self, kernel_name: str, kernel_body: str, *args: Any, **kwargs: Any) -> None:
        """Generate a kernel, and the function that submits it as a task.

        Args:
            kernel_name: Name of the kernel in the graph.
            kernel_body: Source of the kernel, as written by ``loops.Group``.
            *args: Other arguments of the base class.
            **kwargs: Other arguments of the base class.
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
        """Generate the call of an operator that is not compiled, by the dispatcher.

        Args:
            node: Operator.
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
        """Generate the header of the kernels, which links them to the runtime, unless it is generated already."""
        if not self.kernel_declarations:
            self.needs_vec_isa = True
            self.kernel_declarations.splice(prefix())

    def finalize_prefix(self) -> None:
        """Generate the code before the graph."""
        self._begin_kernels()  # also for a library without kernels, which is linked to the runtime, too
        super().finalize_prefix()  # type: ignore[no-untyped-call]

    def _generate_end_jit(self, result: Any) -> None:
        super()._generate_end_jit(result)  # type: ignore[no-untyped-call]
        result.splice("from rustdev._inductor.kernels import connect\nconnect(inductor_entry.__self__.__file__)")

    def codegen_enter_cuda_stream_context(self, code: Any, stream_idx: int) -> None:
        """Reject code that runs on a stream of the program.

        Args:
            code: Buffer to write to.
            stream_idx: Index of the stream in the graph.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("a graph in C++ runs on the current stream alone: streams are not supported in it")
