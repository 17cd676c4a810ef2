"""Graphs: device work that is captured once and replayed by one call, with the names of ``torch.cuda``."""

import gc
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, Literal

import torch
from torch.utils import _pytree
from typing_extensions import Self

from . import _rustdev
from ._name import NAME
from .device import current_device, synchronize
from .mem_pools import MemPool
from .memory import empty_cache, empty_host_cache
from .streams import Stream, StreamContext, current_stream
from .streams import stream as stream_context

__all__ = ["Graph", "RustdevGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]

#: Id of a memory pool that graphs may share.
PoolHandle = tuple[int, int]
_Pool = PoolHandle | MemPool
CaptureErrorMode = Literal["default", "global", "thread_local", "relaxed"]
_Function = Callable[..., Any]


def is_current_stream_capturing() -> bool:
    """Return whether a graph capture is underway on the current stream."""
    return not _rustdev.is_fork_child() and current_stream().is_capturing()


def graph_pool_handle() -> PoolHandle:
    """Return the id of a new memory pool, for the ``pool`` argument of graphs that share it."""
    return 0, _rustdev.graph_pool_handle()


def _handle(pool: _Pool | None) -> PoolHandle | None:
    return pool.id if isinstance(pool, MemPool) else pool


if hasattr(torch.accelerator, "Graph"):
    _AcceleratorGraph = torch.accelerator.Graph
else:

    class _AcceleratorGraph:  # type: ignore[no-redef]
        def __new__(cls, *args: object, **options: object) -> Self:
            raise RuntimeError(f"torch {torch.__version__} has no graphs of accelerators: that takes 2.15")


class Graph(_AcceleratorGraph):
    """Device work that is captured once and replayed: ``torch.accelerator.Graph`` with the methods of ``torch.cuda.CUDAGraph``.

    Args:
        keep_graph: Whether ``instantiate`` may be called. The call is not needed: a graph can be replayed after ``capture_end``.
        pool: Default of ``pool`` in ``capture_begin``. None: a private pool of this graph.
        capture_error_mode: Default of ``capture_error_mode`` in ``capture_begin``; see ``graph``.
    """

    def capture_begin(self, pool: _Pool | None = None, capture_error_mode: CaptureErrorMode | None = None) -> None:
        """Begin capturing work on the current stream. Captured work is recorded, not run.

        Args:
            pool: ``MemPool``, or a pool id from ``graph_pool_handle`` or from the ``pool`` method of another graph.
            capture_error_mode: See ``graph``.

        Raises:
            RuntimeError: If the stream is already capturing, or this graph already holds a capture.
        """
        mode = self.capture_error_mode if capture_error_mode is None else capture_error_mode
        handle = _handle(self.graph_pool if pool is None else pool)
        torch._C._acceleratorGraph.capture_begin(self, pool=handle, capture_error_mode=mode)

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Check the argument and do nothing else: a graph finds the generators that it uses by itself.

        Args:
            generator: Generator of a rustdev device.

        Raises:
            TypeError: If ``generator`` is not a generator.
            ValueError: If ``generator`` is on another device.
        """
        if not isinstance(generator, torch.Generator):
            raise TypeError(f"expected a torch.Generator, got {type(generator).__name__}")
        if generator.device.type != NAME:
            raise ValueError(f"expected a generator of a {NAME} device, got one of {generator.device}")

    def __exit__(self, *exc_info: object) -> None:
        _end_capture(self, has_failed=bool(exc_info) and exc_info[0] is not None)


#: Alias after the pattern of torch.cuda.CUDAGraph and torch.xpu.XPUGraph.
RustdevGraph = Graph


def _end_capture(graph: "torch.accelerator.Graph", *, has_failed: bool) -> None:
    """End a capture. After a failed block the capture is discarded, so that the block's own error propagates."""
    if has_failed:
        graph.reset()
    else:
        torch._C._acceleratorGraph.capture_end(graph)


class graph:  # noqa: N801 - the name that torch.cuda has
    """Context manager that captures device work into a graph.

    Entering waits for the device and releases cached memory, so that there is room for the graph's private pool.

    Args:
        rustdev_graph: Graph that holds the captured work.
        pool: ``MemPool``, or a pool id from ``graph_pool_handle`` or from the ``pool`` method of another graph, to share its pool.
        stream: Stream to capture on. Default: a stream that all captures of the device share.
        capture_error_mode: Which threads may call ``torch.rustdev.synchronize()`` during the capture. ``"global"``: none;
            ``"thread_local"`` or ``"default"``: all but this one; ``"relaxed"``: all, and the call waits for the other streams.

    Raises:
        TypeError: If ``rustdev_graph`` is not a graph.
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
            raise TypeError(f"expected a torch.{NAME}.Graph, got {type(rustdev_graph).__name__}")
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
    """A callable whose forward and backward passes are graphs, with the static tensors that the graphs read and write."""

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
        """Raise TypeError or RuntimeError for arguments and modules that cannot be captured."""
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
        """Return the gradients of the inputs that require grad; None if no output or no input requires grad."""
        pairs = [(output, grad) for output, grad in zip(outputs, grads, strict=True) if grad is not None]
        wanted = [tensor for tensor in self.inputs if tensor.requires_grad]
        if not pairs or not wanted:
            return None
        with_grad, given = zip(*pairs, strict=True)
        return torch.autograd.grad(with_grad, wanted, given, only_inputs=True, allow_unused=allow_unused)

    def warm_up(self, iterations: int, allow_unused: bool) -> None:
        """Run forward and backward, so that one-time initialization is not captured."""
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
        # Detaching frees the autograd graph: the memory of its saved tensors belongs to the graphs' pool.
        self.outputs = tuple(output.detach().requires_grad_(output.requires_grad) for output in self.outputs)

    def install(self) -> _Function:
        """Return the callable that replays the graphs. A module replays only in the mode (training or eval) of its capture."""
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
    """Copy ``source`` into the static tensor ``target``, unless they have the same address."""
    if target.data_ptr() != source.data_ptr():
        target.copy_(source)


class _Replay(torch.autograd.Function):
    """A call of a section: one node of the autograd graph, whose forward and backward passes are replays."""

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
        # The section keeps references to these tensors. Else autograd would steal a gradient as `.grad`, and the next replay would
        # overwrite it.
        return None, *section.grad_inputs


def make_graphed_callables(
    callables: Any,
    sample_args: tuple[Any, ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: _Pool | None = None,
) -> Any:
    """Return graphed versions of callables, whose forward and backward passes are graph replays.

    Each graphed callable is one autograd node. Its forward pass copies the arguments into the graph's static inputs and replays the
    graph. The results are the graph's static outputs, which the next call overwrites. Double backward is not supported.

    Args:
        callables: A function or module, or a tuple of them in the order in which they will run.
        sample_args: Tuple of tensors, the arguments of the callable. For a tuple of callables, a tuple of such tuples. Later calls
            must have the same shapes, dtypes and ``requires_grad``.
        num_warmup_iters: Number of warm-up iterations before the capture.
        allow_unused_input: Whether an input may be unused in the outputs.
        pool: Memory pool to share with other graphs.

    Returns:
        The graphed callable, or a tuple of them. Modules are modified in place and returned; functions are wrapped.

    Raises:
        RuntimeError: If a module has hooks or buffers that require grad, the autocast cache is enabled, or work cannot be captured.
        TypeError: If an argument is not a tensor.
    """
    if torch.is_autocast_enabled(NAME) and torch.is_autocast_cache_enabled():
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
    # Backward passes run in reverse order: memory that one frees can be reused by the next.
    for section in reversed(sections):
        section.capture_backward(shared, allow_unused_input)
    made = [section.install() for section in sections]
    return made[0] if is_single else tuple(made)
