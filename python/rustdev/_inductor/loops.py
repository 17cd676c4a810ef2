"""The C++ code of fused operators: that of PyTorch, except that loops run on the runtime's threads instead of OpenMP's.

A parallel loop nest becomes::

    rustdev::parallel(nanoseconds, [&, in_ptr0 = in_ptr0](int tid)
    {
        const rustdev::Span span_x0 = rustdev::part_of(trips, tid);
        const rustdev::Span steps_x0 = rustdev::outermost(span_x0, 1);
        for (int64_t x0 = steps_x0.begin; x0 < steps_x0.end; x0 += 1)
        {
            ...
        }
    }
    );

Each nest is a separate parallel loop. Its parts need not run concurrently, so no part may wait for another.
"""

import contextlib
import dataclasses
import re
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.codegen import cpp
from torch._inductor.codegen.cpp_utils import INDEX_TYPE, cexpr_index
from torch._inductor.scheduler import SchedulerNode
from torch._inductor.utils import get_fused_kernel_name, sympy_product
from torch._inductor.virtualized import V

#: First line of a kernel for the device: a graph may also contain kernels for the CPU.
MARK = "// rustdev"
#: Estimated nanoseconds per operation and element in vectorized code; loads, stores and index arithmetic count as operations.
_NANOSECONDS_PER_OPERATION = 0.1
#: Placeholder for the lambda captures of a parallel loop, replaced when all arguments of the kernel are known.
_CAPTURES = "RUSTDEV_CAPTURES"
#: Loop that draws a random number for each lane of a vector.
_RANDOM_LANES = re.compile(
    r"for\( int64_t offset_idx = 0; offset_idx < \d+; offset_idx\+\+ \)\s*\{\s*"
    r"result\[offset_idx\] = normalized_rand_cpu\((\w+), offset\[offset_idx\]\);\s*\}"
)
#: Load of a mask, and store of a vector.
_MASK_LOAD = re.compile(r"at::vec::VecMask<(\w+,\d+)>::from\((\w*ptr\w+ \+ [^;\n]*), (static_cast<int64_t>\([^()\n]*\))\)")
_VECTOR_STORE = re.compile(r"(?<![\w.])(\w+)\.store\((\w*out_ptr\w+ \+ [^;\n]*), (static_cast<int64_t>\([^()\n]*\))\);")


class _Loop(cpp.LoopLevel):
    """A loop of a nest. In a nest that is divided into parts, it runs the iterations of the current part.

    Args:
        level: PyTorch's loop.
        nest: Enclosing loops; this loop is appended.
    """

    def __init__(self, level: cpp.LoopLevel, nest: "list[_Loop]") -> None:
        super().__init__(**{field.name: getattr(level, field.name) for field in dataclasses.fields(cpp.LoopLevel)})
        self.nest, self.depth = nest, len(nest)
        nest.append(self)

    def lines(self) -> list[str] | None:
        """Return the lines before the loop body; None for an empty loop."""
        divided = next((loop for loop in self.nest[: self.depth + 1] if loop.depth + loop.parallel > self.depth), None)
        as_usual: list[str] | None = super().lines()  # type: ignore[no-untyped-call]
        if divided is None or as_usual is None:
            return as_usual
        inside = " * ".join(loop.trips for loop in self.nest[self.depth + 1 : divided.depth + divided.parallel]) or "1"
        if divided is self:
            span = f"rustdev::part_of({self.trips} * {inside}, tid)"
        else:
            outer = self.nest[self.depth - 1]
            trip = f"({outer.var} - {cexpr_index(outer.offset)}) / {outer.step}"
            span = f"rustdev::inside(span_{outer.var}, {trip}, {self.trips} * {inside})"
        offset, size = cexpr_index(self.offset), cexpr_index(self.size)
        return [
            f"const rustdev::Span span_{self.var} = {span};",
            f"const rustdev::Span steps_{self.var} = rustdev::outermost(span_{self.var}, {inside});",
            f"const {INDEX_TYPE} end_{self.var} = std::min<{INDEX_TYPE}>({size}, {offset} + steps_{self.var}.end * {self.step});",
            f"for({INDEX_TYPE} {self.var} = {offset} + steps_{self.var}.begin * {self.step}; "
            f"{self.var} < end_{self.var}; {self.var} += {self.step})",
        ]

    @property
    def step(self) -> str:
        """C++ expression of the step, which is never 0."""
        step = cexpr_index(self.steps)
        return step if self.steps.is_number else f"std::max<{INDEX_TYPE}>({step}, 1)"

    @property
    def trips(self) -> str:
        """C++ expression of the number of iterations."""
        return f"rustdev::trips({cexpr_index(self.offset)}, {cexpr_index(self.size)}, {self.step})"


class _Region(cpp.WorkSharing):
    """Parallel region of a kernel."""

    #: C++ expression of the estimated nanoseconds of the next region on one thread.
    cost = "0"

    def parallel(self, threads: int) -> None:
        """Open a parallel region.

        Args:
            threads: Number of parts; kernel.h has it as a constant.
        """
        if not self.in_parallel:
            self.num_threads, self.in_parallel = threads, True
            self.code.writeline(f"rustdev::parallel({self.cost}, [{_CAPTURES}](int tid)")
            self.stack.callback(self.code.writeline, ");")
            self.stack.enter_context(self.code.indent())


class KernelProxy(cpp.CppKernelProxy):
    """A loop nest over fused operators."""

    #: Number of operations per element.
    operations = 0

    def codegen_nodes(self, nodes: list[SchedulerNode]) -> None:
        """Generate the body of the nest.

        Args:
            nodes: Fused operators.
        """
        super().codegen_nodes(nodes)
        bodies = [node._body for node in nodes]
        self.operations = sum(len(block.graph.nodes) for body in bodies for block in (body.root_block, *body.subblocks.values()))

    def codegen_loops(self, code: Any, worksharing: _Region) -> None:
        """Generate the loops of the nest.

        Args:
            code: Buffer to write to.
            worksharing: Parallel region; closed before and after.
        """
        nest: Any = self.loop_nest
        if nest.loops:
            loops: list[_Loop] = []
            for level in nest.loops:
                _Loop(level, loops)
            nest.loops = loops
        inner = nest.kernel.inner if isinstance(nest.kernel, cpp.OuterLoopFusedKernel) else [nest]
        kernels: list[Any] = [one.get_kernel() for one in inner]
        self.kernel_group.costs += [kernel.cost(0) for kernel in kernels]
        worksharing.cost = " + ".join(kernel.cost(nest.max_parallel_depth().start_depth) for kernel in kernels)
        super().codegen_loops(code, worksharing)  # type: ignore[no-untyped-call]
        worksharing.close()  # type: ignore[no-untyped-call]

    def cost(self, depth: int) -> str:
        """Return the C++ expression of the estimated nanoseconds of the loops from a depth on, on one thread."""
        elements = cexpr_index(sympy_product(self.ranges[depth:]))
        return f"{self.operations * _NANOSECONDS_PER_OPERATION:.1f} * static_cast<double>({elements})"


class Group(cpp.KernelGroup):
    """Loop nests that form one kernel, and so one task."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ws = _Region(self.loops_code)  # type: ignore[no-untyped-call]
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(self.ws)
        self.costs: list[str] = []

    def codegen_group(self, name: str | None = None) -> str:
        """Return the source: the name for errors and profiles, the cost function, and the kernel. Empty if there are no loops.

        Args:
            name: Ignored: the C++ function is always named ``kernel``.
        """
        self.stack.close()
        if not self.scheduled_nodes:
            return ""
        definitions, _, _ = self.args.cpp_argdefs()
        aliases = list(self.args.aliases())
        names = [definition.rpartition(" ")[2] for definition in definitions] + [old for old, _ in aliases]
        captures = ", ".join(["&", *(f"{name} = {name}" for name in names)])
        parameters = ", ".join(definitions)
        fused = get_fused_kernel_name(self.scheduled_nodes, config.cpp.descriptive_names or "original_aten")
        lines = [
            MARK,
            f'static constexpr char kernel_name[] = "compiled::{fused.removeprefix("fused_")}";',
            f"static double cost({parameters}) {{ return {' + '.join(self.costs)}; }}",
            f'extern "C" void kernel({parameters})',
            "{",
            *(f"auto {old} = {new};" for old, new in aliases),
            _with_functions_of_ours(self.loops_code.getvalue().replace(_CAPTURES, captures)),
            "}",
        ]
        return "\n".join(lines) + "\n"

    def call_kernel(self, wrapper: Any, kernel_name: str) -> None:
        """Generate the call of the kernel in the graph.

        Args:
            wrapper: Wrapper code generator of the graph.
            kernel_name: Name of the kernel in the graph.
        """
        device = self.scheduled_nodes[0].get_device()
        _, arguments, types = self.args.cpp_argdefs()
        placed = [_on_device(argument, device) for argument in arguments]
        wrapper.generate_kernel_call(
            kernel_name, [str(device.index), *placed], triton=False, arg_types=["int64_t", *types], device=device
        )


def _with_functions_of_ours(code: str) -> str:
    """Replace slow functions of PyTorch in a kernel's body by functions of kernel.h.

    Args:
        code: Body generated by PyTorch.
    """
    code = _RANDOM_LANES.sub(r"rustdev::uniform(\1, offset, result);", code)
    code = _MASK_LOAD.sub(r"rustdev::read_mask<\1>(\2, \3)", code)
    return _VECTOR_STORE.sub(r"rustdev::store(\1, \2, \3);", code)


def _on_device(argument: str, device: torch.device) -> str:
    """Return code that yields a kernel argument in device memory.

    A CPU tensor, usually a scalar, is copied, because it may be changed or freed before the kernel runs.

    Args:
        argument: Code of the argument.
        device: Device of the kernel.
    """
    buffer = V.graph.try_get_buffer(argument) if isinstance(argument, str) else None
    if buffer is None or buffer.get_device() == device:
        return argument
    return f"rustdev::on_device({argument}, {device.index})" if V.graph.cpp_wrapper else f"{argument}.to('{device}')"
