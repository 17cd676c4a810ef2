"""``mode="reduce-overhead"``: calls of a compiled graph as replays of a capture.

The first call with given sizes runs without a capture and records the addresses of its arguments. The second call is captured.
Arguments whose address is unchanged then (parameters and buffers) are used directly; the others are copied to static memory at each
replay. A graph that cannot be captured, because it waits or falls back, always runs without a capture.

Every replay writes its results to the same memory. Results that are visible to the program are copied. Activations for the backward
are not copied: while any of them is alive, as with two forwards before a backward, calls run without a capture.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..graphs import Graph, graph, is_current_stream_capturing
from ..streams import current_stream

#: Maximum number of captures, for different sizes or because the address of an argument changed. Then calls run without captures.
MAX_CAPTURES = 16

_Call = Callable[[list[Any]], Sequence[Any]]


class _Result:
    """How a replay returns one of its results: a view of an argument, a copy or an alias of static memory, or a constant."""

    def __init__(self, found: Any, inputs: list[Any], *, is_copied: bool) -> None:
        self.found = found
        self.is_copied = is_copied
        self.source: int | None = None
        self.is_whole = False
        if not isinstance(found, torch.Tensor):
            return
        storage = found.untyped_storage()._cdata
        for index, given in enumerate(inputs):
            if isinstance(given, torch.Tensor) and given.untyped_storage()._cdata == storage:
                self.source, self.is_whole = index, given is found
                self.found = None
                self.view = found.size(), found.stride(), found.storage_offset() - given.storage_offset()
                return

    @property
    def held(self) -> torch.Tensor | None:
        """The static result if it is returned without a copy, else None."""
        return self.found if isinstance(self.found, torch.Tensor) and not self.is_copied else None

    def make(self, args: list[Any]) -> Any:
        if self.source is not None:
            given = args[self.source]
            size, stride, offset = self.view
            return given if self.is_whole else given.as_strided(size, stride, offset + given.storage_offset())
        if not isinstance(self.found, torch.Tensor):
            return self.found
        return self.found.clone() if self.is_copied else self.found.detach()


class _Capture:
    """A captured call: arguments at fixed addresses, static memory for the other arguments, and the results."""

    def __init__(self, call: _Call, args: list[Any], fixed: dict[int, int], visible: frozenset[int]) -> None:
        self.fixed = fixed
        self.copies = {
            index: torch.empty_strided(given.size(), given.stride(), dtype=given.dtype, device=given.device)
            for index, given in enumerate(args)
            if isinstance(given, torch.Tensor) and index not in fixed
        }
        inputs = [self.copies.get(index, given) for index, given in enumerate(args)]
        self.graph = Graph()
        with graph(self.graph, capture_error_mode="thread_local"):
            results = call(list(inputs))
        self.results = [_Result(found, inputs, is_copied=index in visible) for index, found in enumerate(results)]
        del results, inputs
        self.storages = [result.held.untyped_storage() for result in self.results if result.held is not None]
        self.uses = [torch._C._storage_Use_Count(storage._cdata) for storage in self.storages]
        self.stream = current_stream()

    def fits(self, args: list[Any]) -> bool:
        """Whether the arguments that are not copied have the addresses of the capture."""
        return all(args[index].data_ptr() == pointer for index, pointer in self.fixed.items())

    def is_free(self) -> bool:
        """Whether the program has released the aliased results of the last replay."""
        return all(
            torch._C._storage_Use_Count(storage._cdata) == uses for storage, uses in zip(self.storages, self.uses, strict=True)
        )

    def replay(self, args: list[Any]) -> tuple[Any, ...]:
        stream = current_stream()
        if stream != self.stream:
            stream.wait_stream(self.stream)
            self.stream = stream
        for index, memory in self.copies.items():
            memory.copy_(args[index])
        self.graph.replay()
        return tuple(result.make(args) for result in self.results)


class Replays:
    """Callable that runs a compiled graph, by replays if possible.

    Args:
        call: Runs the graph without a capture; takes the list of arguments and empties it.
        mutated: Indices of the arguments that the graph writes to.
        visible: Indices of the results that are visible to the program.
    """

    def __init__(self, call: _Call, mutated: Sequence[int], visible: Sequence[int]) -> None:
        self._call = call
        self._mutated = frozenset(mutated)
        self._visible = frozenset(visible)
        self._seen: dict[tuple[Any, ...], dict[int, int]] = {}
        self._captures: dict[tuple[Any, ...], _Capture] = {}
        self._count = 0
        self._lock = threading.Lock()

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        """Run the graph.

        Args:
            args: Tensors and numbers; the list is emptied.
        """
        results = None
        if self._count <= MAX_CAPTURES and not is_current_stream_capturing():
            with self._lock:
                results = self._replayed(args)
        if results is None:
            return self._call(args)
        args.clear()
        return results

    def _replayed(self, args: list[Any]) -> tuple[Any, ...] | None:
        """Replay the capture for these arguments; None if there is no capture, or its results are in use."""
        sizes = tuple(given for given in args if not isinstance(given, torch.Tensor))
        capture = self._captures.get(sizes)
        if capture is None or not capture.fits(args):
            capture = self._capture(sizes, args)
        return capture.replay(args) if capture is not None and capture.is_free() else None

    def _capture(self, sizes: tuple[Any, ...], args: list[Any]) -> _Capture | None:
        """Capture a call with arguments of these sizes; None for the first call, or if it cannot be captured."""
        pointers = {index: given.data_ptr() for index, given in enumerate(args) if isinstance(given, torch.Tensor)}
        before = self._seen.get(sizes)
        if before is None:
            if len(self._seen) < MAX_CAPTURES:
                self._seen[sizes] = pointers
            return None
        fixed = {index: pointer for index, pointer in pointers.items() if before[index] == pointer}
        # An argument whose address has changed once is always copied afterwards.
        self._seen[sizes] = {index: fixed.get(index, -1) for index in pointers}
        self._captures.pop(sizes, None)
        self._count += 1
        moving = [args[index] for index in pointers.keys() - fixed.keys()]
        if self._mutated <= fixed.keys() and all(torch.ops.aten.is_non_overlapping_and_dense(given) for given in moving):
            try:
                self._captures[sizes] = _Capture(self._call, args, fixed, self._visible)
            except RuntimeError:
                self._count = MAX_CAPTURES + 1
        return self._captures.get(sizes)
