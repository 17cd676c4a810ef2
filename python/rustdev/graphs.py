"""Graphs: device work that is recorded once and started again and again by one call, with the names of ``torch.cuda``."""

import gc
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, Literal

import torch
from torch.utils import _pytree
from typing_extensions import Self

from . import _rustdev
from .device import current_device, synchronize
from .mem_pools import MemPool
from .memory import empty_cache, empty_host_cache
from .streams import Stream, StreamContext, current_stream
from .streams import stream as stream_context

__all__ = ["Graph", "RustdevGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]

#: Names a memory pool that graphs may share.
PoolHandle = tuple[int, int]
_Pool = PoolHandle | MemPool
CaptureErrorMode = Literal["default", "global", "thread_local", "relaxed"]
_Function = Callable[..., Any]


def is_current_stream_capturing() -> bool:
    """Return whether the current stream records a graph instead of working."""
    return not _rustdev.is_fork_child() and current_stream().is_capturing()


def graph_pool_handle() -> PoolHandle:
    """Return the name of a new memory pool, for graphs that are to share one."""
    return 0, torch.ops.rustdev.graph_pool_handle()


def _handle(pool: _Pool | None) -> PoolHandle | None:
    return pool.id if isinstance(pool, MemPool) else pool


if hasattr(torch.accelerator, "Graph"):
    _AcceleratorGraph = torch.accelerator.Graph
else:

    class _AcceleratorGraph:  # type: ignore[no-redef]
        def __new__(cls, *args: object, **options: object) -> Self:
            raise RuntimeError(f"torch {torch.__version__} has no graphs of accelerators: that takes 2.15")


class Graph(_AcceleratorGraph):
    """Device work that is recorded once and replayed: ``torch.accelerator.Graph`` with the methods of ``torch.cuda.CUDAGraph``.

    Args:
        keep_graph: Whether ``instantiate`` may be called. It changes nothing: what ``capture_end`` makes can be replayed.
        pool: The memory pool of captures whose ``capture_begin`` names none; None means one of the graph's own.
        capture_error_mode: The mode of captures whose ``capture_begin`` names none; see ``graph``.
    """

    def capture_begin(self, pool: _Pool | None = None, capture_error_mode: CaptureErrorMode | None = None) -> None:
        """Record what is put on the current stream from now on instead of running it.

        Args:
            pool: A ``MemPool``, or what ``graph_pool_handle`` or the ``pool`` method of another graph returned.
            capture_error_mode: See ``graph``.

        Raises:
            RuntimeError: The stream is capturing, or this graph holds a capture.
        """
        mode = self.capture_error_mode if capture_error_mode is None else capture_error_mode
        handle = _handle(self.graph_pool if pool is None else pool)
        torch._C._acceleratorGraph.capture_begin(self, pool=handle, capture_error_mode=mode)

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Do nothing but check the argument: a graph finds the generators that it draws from by itself.

        Raises:
            TypeError: It is no generator.
            ValueError: It is one of another device.
        """
        if not isinstance(generator, torch.Generator):
            raise TypeError(f"expected a torch.Generator, got {type(generator).__name__}")
        if generator.device.type != "rustdev":
            raise ValueError(f"expected a generator of a rustdev device, got one of {generator.device}")

    def __exit__(self, *exc_info: object) -> None:
        _end_capture(self, has_failed=bool(exc_info) and exc_info[0] is not None)


#: The name as torch.cuda has CUDAGraph and torch.xpu XPUGraph.
RustdevGraph = Graph


def _end_capture(graph: "torch.accelerator.Graph", *, has_failed: bool) -> None:
    """End a capture; that of a block that has failed is forgotten, so that its error is the one that comes out."""
    if has_failed:
        graph.reset()
    else:
        torch._C._acceleratorGraph.capture_end(graph)


class graph:  # noqa: N801 - the name that torch.cuda has
    """Context manager that records what its block puts on a stream.

    Entering waits for the device and gives cached memory back, so that the graph's own pool finds room.

    Args:
        rustdev_graph: Takes the recorded work.
        pool: A ``MemPool``, or what ``graph_pool_handle`` or the ``pool`` method of another graph returned: both then use one
            memory pool.
        stream: The stream that records; default: one that serves for all captures of a device.
        capture_error_mode: Which threads may not call ``torch.rustdev.synchronize()`` meanwhile: ``"global"``, all;
            ``"thread_local"``, this one; ``"relaxed"``, none: it waits for the other streams. ``"default"`` is ``"thread_local"``.
    """

    _streams: ClassVar[dict[int, Stream]] = {}

    def __init__(
        self,
        rustdev_graph: "torch.accelerator.Graph",
        pool: _Pool | None = None,
        stream: torch.Stream | None = None,
        capture_error_mode: CaptureErrorMode = "global",
    ) -> None:
        if not isinstance(rustdev_graph, torch._C._acceleratorGraph):
            raise TypeError(f"expected a torch.rustdev.Graph, got {type(rustdev_graph).__name__}")
        self.rustdev_graph = rustdev_graph
        self.pool = _handle(pool)
        self.capture_stream = self._default_stream() if stream is None else stream
        self.capture_error_mode = capture_error_mode
        self._context = StreamContext(self.capture_stream)

    @classmethod
    def _default_stream(cls) -> Stream:
        index = current_device()
        if index not in cls._streams:
            cls._streams[index] = Stream(index)
        return cls._streams[index]

    def __enter__(self) -> Self:
        synchronize(self.capture_stream.device_index)
        if torch.compiler.config.force_cudagraph_gc:
            gc.collect()
        empty_cache()
        empty_host_cache()
        self._context.__enter__()
        try:
            torch._C._acceleratorGraph.capture_begin(self.rustdev_graph, pool=self.pool, capture_error_mode=self.capture_error_mode)
        except BaseException:
            self._context.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            _end_capture(self.rustdev_graph, has_failed=kind is not None)
        finally:
            self._context.__exit__(kind, error, traceback)


class _Section:
    """One callable whose forward and backward work are graphs, with the tensors that these read and write."""

    def __init__(self, function: _Function, args: tuple[Any, ...]) -> None:
        self.function = function
        self.args = args
        self.num_args = len(_pytree.arg_tree_leaves(*args))
        self.parameters = tuple(function.parameters()) if isinstance(function, torch.nn.Module) else ()
        self.inputs: tuple[torch.Tensor, ...] = (*_pytree.arg_tree_leaves(*args), *self.parameters)
        self.forward_graph, self.backward_graph = Graph(), Graph()
        self.outputs: tuple[torch.Tensor, ...] = ()
        self.grad_outputs: tuple[torch.Tensor | None, ...] = ()
        self.grad_inputs: tuple[torch.Tensor | None, ...] = (None,) * len(self.inputs)
        self.spec: _pytree.TreeSpec | None = None

    def check(self) -> None:
        """Refuse what the graphs could not stand for."""
        module = self.function
        if not all(isinstance(arg, torch.Tensor) for arg in self.inputs):
            raise TypeError("make_graphed_callables: sample_args must contain tensors only")
        if not isinstance(module, torch.nn.Module):
            return
        if module._backward_hooks or module._forward_hooks or module._forward_pre_hooks:
            raise RuntimeError("make_graphed_callables: a module must not have hooks yet; register them afterwards")
        if any(buffer.requires_grad for buffer in module.buffers()):
            raise RuntimeError("make_graphed_callables: buffers of a module must have requires_grad=False")

    def gradients(self, outputs: tuple[torch.Tensor, ...], grads: tuple[torch.Tensor | None, ...], allow_unused: bool) -> Any:
        """Return the gradients of the inputs that require them; None where no output does."""
        pairs = [(output, grad) for output, grad in zip(outputs, grads, strict=True) if grad is not None]
        wanted = [tensor for tensor in self.inputs if tensor.requires_grad]
        if not pairs or not wanted:
            return None
        with_grad, given = zip(*pairs, strict=True)
        return torch.autograd.grad(with_grad, wanted, given, only_inputs=True, allow_unused=allow_unused)

    def warm_up(self, iterations: int, allow_unused: bool) -> None:
        """Run forward and backward, so that what happens only in first calls is over."""
        for _ in range(iterations):
            outputs = tuple(_pytree.tree_leaves(self.function(*self.args)))
            self.gradients(outputs, _empty_grads(outputs), allow_unused)

    def capture_forward(self, pool: PoolHandle) -> None:
        with graph(self.forward_graph, pool=pool):
            outputs = self.function(*self.args)
        leaves, self.spec = _pytree.tree_flatten(outputs)
        self.outputs = tuple(leaves)

    def capture_backward(self, pool: PoolHandle, allow_unused: bool) -> None:
        self.grad_outputs = _empty_grads(self.outputs)
        if not any(tensor.requires_grad for tensor in self.inputs) or all(grad is None for grad in self.grad_outputs):
            return
        with graph(self.backward_graph, pool=pool):
            grads = iter(self.gradients(self.outputs, self.grad_outputs, allow_unused))
        self.grad_inputs = tuple(next(grads) if tensor.requires_grad else None for tensor in self.inputs)
        # What was saved for the backward pass is memory of the graphs now.
        self.outputs = tuple(output.detach().requires_grad_(output.requires_grad) for output in self.outputs)

    def install(self) -> _Function:
        """Return what runs the graphs: a module while it is in the mode, training or not, in which it was captured."""
        module = self.function
        if not isinstance(module, torch.nn.Module):
            return self
        mode, original = module.training, module.forward

        def forward(*args: Any, **kwargs: Any) -> Any:
            return self(*args, **kwargs) if module.training == mode else original(*args, **kwargs)

        module.forward = forward
        return module

    def __call__(self, *args: Any) -> Any:
        assert self.spec is not None
        return _pytree.tree_unflatten(_Replay.apply(self, *_pytree.arg_tree_leaves(*args), *self.parameters), self.spec)


def _empty_grads(outputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor | None, ...]:
    return tuple(torch.empty_like(output) if output.requires_grad else None for output in outputs)


def _fill(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copy a tensor to where a graph reads it, unless it is there."""
    if target.data_ptr() != source.data_ptr():
        target.copy_(source)


class _Replay(torch.autograd.Function):
    """A call of a section: one node of the autograd graph, whose two passes are replays."""

    @staticmethod
    def forward(ctx: Any, section: _Section, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if len(inputs) != len(section.inputs):
            expected, given = section.num_args, len(inputs) - len(section.parameters)
            raise TypeError(f"the callable was captured with {expected} tensors as arguments, and is called with {given}")
        for target, source in zip(section.inputs[: section.num_args], inputs, strict=False):
            _fill(target, source)
        section.forward_graph.replay()
        ctx.section = section
        outputs = tuple(output.detach() for output in section.outputs)
        ctx.mark_non_differentiable(
            *(result for result, output in zip(outputs, section.outputs, strict=True) if not output.requires_grad)
        )
        return outputs

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        section = ctx.section
        for target, grad in zip(section.grad_outputs, grads, strict=True):
            if target is not None:
                _fill(target, grad)
        section.backward_graph.replay()
        # The tensors themselves: a gradient that nothing else held would become `.grad`, which the next replay would overwrite.
        return None, *section.grad_inputs


def make_graphed_callables(
    callables: Any,
    sample_args: tuple[Any, ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: _Pool | None = None,
) -> Any:
    """Return callables whose forward and backward work are graphs.

    Each stands for its original in a training loop: one node of autograd, whose forward pass copies the arguments to where the
    graph reads them and replays it. Results are the graph's own tensors: the next call overwrites them. No double backward.

    Args:
        callables: A function or module, or a tuple of some in the order in which they will run.
        sample_args: Arguments for the callable, tensors only; a tuple of such tuples for several. Calls have the same shapes,
            dtypes and ``requires_grad``.
        num_warmup_iters: Calls before the capture.
        allow_unused_input: Whether an input may have no part in the outputs.
        pool: A memory pool to share with other graphs.

    Returns:
        Modules are changed and returned, functions wrapped; a tuple for a tuple.

    Raises:
        RuntimeError: A module has hooks or buffers that require gradients, autocast caches, or something cannot be captured.
        TypeError: Arguments are not tensors.
    """
    if torch.is_autocast_enabled("rustdev") and torch.is_autocast_cache_enabled():
        raise RuntimeError("make_graphed_callables does not support the cache of autocast: pass cache_enabled=False to it")
    is_single = not isinstance(callables, tuple)
    functions, samples = ((callables,), (sample_args,)) if is_single else (callables, sample_args)
    sections = [_Section(function, args) for function, args in zip(functions, samples, strict=True)]
    for section in sections:
        section.check()
    synchronize()
    with stream_context(Stream()):
        for section in sections:
            section.warm_up(num_warmup_iters, allow_unused_input)
    synchronize()
    shared = _handle(pool) or graph_pool_handle()
    for section in sections:
        section.capture_forward(shared)
    # In reverse order, in which backward passes run: what one frees, the next may use.
    for section in reversed(sections):
        section.capture_backward(shared, allow_unused_input)
    made = [section.install() for section in sections]
    return made[0] if is_single else tuple(made)
