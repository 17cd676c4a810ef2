"""Notes, made during a run, on what tensors are for and what the program is doing."""

import time
import warnings
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.optim import Optimizer, optimizer
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from rustdev._imports import _after_import
from rustdev.clock import simulated_time
from rustdev.device import current_device, device_count
from rustdev.graphs import is_current_stream_capturing
from rustdev.memory import _record_memory_history, attach_out_of_memory_observer
from rustdev.streams import Event, current_stream

from .._name import NAME


def _now() -> int:
    """Return the time in the unit of the memory history, microseconds since 1970."""
    return time.time_ns() // 1000


def addresses(tensor: Tensor) -> Iterator[int]:
    """Yield the addresses of a tensor's storages on the device. A wrapper, such as a DTensor, has those of its inner tensors."""
    if is_traceable_wrapper_subclass(tensor):
        names, _ = tensor.__tensor_flatten__()
        for name in names:
            inner = getattr(tensor, name)
            if isinstance(inner, Tensor):  # a DTensor has a mesh as well
                yield from addresses(inner)
    elif tensor.device.type == NAME and tensor.layout is torch.strided:
        yield tensor.untyped_storage().data_ptr()


def _recorded(device: int) -> Event:
    """Return an event that is recorded on the current stream of a device."""
    event = Event(enable_timing=True)
    event.record(current_stream(device))
    return event


def _trace_hooks(rules: ModuleType) -> None:
    """Let Dynamo trace the hooks, which do nothing then. Else they would break the graphs of compiled modules."""
    rules.BUILTIN_INLINE_WHEN_CALLED.add(__file__)


class Watch:
    """Notes on a run. A note has a time, so that it can be assigned to the events of the memory history afterwards."""

    def __init__(self) -> None:
        #: Time, address and category of storages.
        self.labels: list[tuple[int, int, str]] = []
        #: Times and names of the innermost module, from each time on.
        self.module_times: list[int] = [0]
        self.modules: list[str] = [""]
        #: Times at which steps of optimizers begin and end.
        self.step_times: list[int] = [0]
        #: With a simulated clock: an event of each device at the begin of the run.
        self.begins: list[Event] = []
        #: And events after each step, with the device and the operations counted by then.
        self.step_ends: list[tuple[Event, int, int]] = []
        #: The optimizer whose step is running.
        self._stepping: Optimizer | None = None
        self._stack: list[str] = []
        self._names: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._roots: weakref.WeakSet[nn.Module] = weakref.WeakSet()

    def begin(self) -> None:
        """Begin to watch."""
        hooks.register_module_forward_pre_hook(self._enter)
        hooks.register_module_forward_hook(self._leave, always_call=True)
        optimizer.register_optimizer_step_pre_hook(self._step)
        optimizer.register_optimizer_step_post_hook(self._stepped)
        _after_import("torch._dynamo.trace_rules", _trace_hooks)
        warnings.filterwarnings("ignore", message=r"Using `torch.compile\(module\)` when there are global hooks")
        attach_out_of_memory_observer(lambda *_: self.finish())
        if simulated_time() is not None:
            self.begins = [_recorded(index) for index in range(device_count())]
        _record_memory_history(context="alloc", skip_actions=["free_completed"])

    def finish(self) -> None:
        """Label what is there at the end, or when memory runs out."""
        for root in list(self._roots):
            self._label_parameters(root.parameters())
        if self._stepping is not None:
            self._label_state(self._stepping)

    def _label(self, tensors: Iterable[Tensor | None], category: str) -> None:
        now = _now()
        for tensor in tensors:
            if tensor is not None:
                self.labels += [(now, address, category) for address in addresses(tensor)]

    def _label_parameters(self, parameters: Iterable[Tensor]) -> None:
        parameters = list(parameters)
        self._label(parameters, "parameters")
        self._label((parameter.grad for parameter in parameters), "gradients")

    def _mark(self) -> None:
        self.module_times.append(_now())
        self.modules.append(self._stack[-1] if self._stack else "")

    def _enter(self, module: nn.Module, _: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if module not in self._names:
            self._roots.add(module)
            kind = type(module).__name__
            self._names |= {part: ".".join(filter(None, (kind, name))) for name, part in module.named_modules()}
        if not self._stack:
            self._label_parameters(module.parameters())
            self._label(module.buffers(), "parameters")
        self._stack.append(self._names[module])
        self._mark()

    def _leave(self, *_: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if self._stack:
            self._stack.pop()
        self._mark()

    def _step(self, stepping: Optimizer, *_: Any) -> None:
        if torch.compiler.is_compiling():
            return
        self._label_parameters(parameter for group in stepping.param_groups for parameter in group["params"])
        if self._stepping is None:  # else an optimizer within another one's step
            self._stepping = stepping
            self.step_times.append(_now())

    def _stepped(self, stepping: Optimizer, *_: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if self._stepping is stepping:
            self._stepping = None
            self.step_times.append(_now())
            self._end_step()
        self._label_state(stepping)

    def _end_step(self) -> None:
        counted = simulated_time()
        if counted is not None and not is_current_stream_capturing():
            index = current_device()
            self.step_ends.append((_recorded(index), index, counted.flops))

    def _label_state(self, stepping: Optimizer) -> None:
        values = (value for state in stepping.state.values() for value in state.values())
        self._label((value for value in values if isinstance(value, Tensor)), "optimizer_states")

    def steps(self) -> list[tuple[float, int]]:
        """Return the simulated seconds and the floating-point operations of each step, each from the end of the one before it."""
        steps = []
        latest, operations = self.begins.copy(), 0
        for end, device, flops in self.step_ends:
            end.synchronize()
            steps.append((latest[device].elapsed_time(end) / 1e3, flops - operations))
            latest[device], operations = end, flops
        return steps

    def module_at(self, moment: int) -> str:
        """Return the name of the innermost module at a time, or an empty string."""
        return self.modules[bisect_right(self.module_times, moment) - 1]

    def phase_of(self, event: dict[str, Any]) -> str:
        """Return the phase of an allocation: "backward", "optimizer" or "forward", which is all else."""
        if any(frame["name"] == "_engine_run_backward" for frame in event["frames"]):
            return "backward"
        return "forward" if bisect_right(self.step_times, event["time_us"]) % 2 else "optimizer"

    def step_at(self, moment: int) -> int | None:
        """Return the number of the training step at a time, the first being 1; None for a program without an optimizer's step."""
        ended = (bisect_right(self.step_times, moment) - 1) // 2
        return ended + 1 if len(self.step_times) > 1 else None
