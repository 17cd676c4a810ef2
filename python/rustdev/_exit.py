"""Interpreter exit: waits until PyTorch's autograd threads hold no Python objects.

With multithreading enabled, PyTorch runs the backward of device tensors on one thread per device. That thread signals the end of a
backward pass before it releases the state of the pass, which includes Python objects (``Engine::thread_main`` in
``torch/csrc/autograd/engine.cpp``; ``thread_locals_`` of ``graph_task.h``). If the program exits at that moment, the thread waits
for a finalized interpreter. CPython then terminates the thread by unwinding, and the C++ runtime calls ``std::terminate``.
"""

import atexit
import contextlib

import torch
from torch.autograd import Variable, set_multithreading_enabled

from ._name import NAME
from .device import device_count, is_initialized
from .memory import memory_stats


def settle_autograd() -> None:
    """Wait until the autograd threads have released the state of earlier backward passes.

    A thread releases it before it takes its next task. So each thread gets another task, which holds no Python objects. This is a
    no-op if no device memory was ever allocated, since there was no backward pass then.
    """
    if not is_initialized() or not any(memory_stats(index)["allocation.all.allocated"] for index in range(device_count())):
        return
    for index in range(device_count()):
        # Errors are suppressed: at exit they were either reported before or do not matter.
        with contextlib.suppress(Exception), torch.inference_mode(False), torch.enable_grad(), set_multithreading_enabled(True):
            leaf = torch.ones((), device=f"{NAME}:{index}", requires_grad=True)
            # The engine is called directly: torch.autograd would store the Python context. The result is accumulated into
            # `leaf.grad`, since the engine would keep returned gradients.
            Variable._execution_engine.run_backward((leaf * 1,), (torch.ones_like(leaf),), False, False, (), True, True)


def _install() -> None:
    """Register ``settle_autograd`` at exit. atexit runs functions in reverse order, so it runs before the runtime stops."""
    atexit.register(settle_autograd)
